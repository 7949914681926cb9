"""MAUVE of five models' samples against human texts: does it order gpt2-xl below the larger models?

    python -m benchmarks.human_and_model_texts DATA/human_and_model_texts

The folder has DOMAIN_MODEL.raw_data.json.gz of Bao et al., Fast-DetectGPT (ICLR 2024): 500 human texts each and a
model's continuations of their first 30 tokens, sampled without truncation. White space is normalized, because the
models' texts have line breaks and the human ones have not. Features are SmolLM2-135M's last states of the first 128
tokens. They are kept in --cache, so a stopped call resumes; all of them take 15 minutes of one core. Numbers alone are
written: benchmarks/results/human-and-model-texts.json.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from instruct.analysis.claims import holm
from instruct.analysis.jackknife import difference
from instruct.base.files import cache_folder, write_atomically
from instruct.base.models import EMBEDDED_MODEL, ModelOptions
from instruct.engines.forward import open_model
from instruct.measuring.texts.mauve import Mauve, mauve
from instruct.reporting.text import probability

RESULTS = Path(__file__).parent / "results" / "human-and-model-texts.json"
SMALLEST = "gpt2-xl"
MODELS = (SMALLEST, "opt-2.7b", "gpt-neo-2.7B", "gpt-j-6B", "gpt-neox-20b")
DOMAINS = ("xsum", "writing")
AT_ONCE = 256


def read_texts(folder: Path, model: str, domains: tuple[str, ...], limit: int | None) -> dict[str, list[str]]:
    """Human (`original`) and sampled texts of a model, in pairs."""
    found: dict[str, list[str]] = {"original": [], "sampled": []}
    for domain in domains:
        with gzip.open(folder / f"{domain}_{model}.raw_data.json.gz", "rt", encoding="utf-8") as file:
            content = json.load(file)
        for side, texts in found.items():
            texts += [" ".join(text.split()) for text in content[side][:limit]]
    return found


class Features:
    """Last hidden states of texts, computed once for each and kept in a file."""

    def __init__(self, path: Path, length: int) -> None:
        self.path, self.length = path, length
        self.model = open_model(ModelOptions(name=EMBEDDED_MODEL))
        self.known: dict[str, np.ndarray] = {}
        if path.is_file():
            content = np.load(path)
            self.known = dict(zip(content["keys"].tolist(), content["values"], strict=True))

    def of(self, texts: list[str]) -> np.ndarray:
        """[texts, width]."""
        rows = [tuple(ids[: self.length]) for ids in self.model.encode(texts)]
        keys = [hashlib.sha1(str(row).encode()).hexdigest() for row in rows]
        missing = {key: row for key, row in zip(keys, rows, strict=True) if key not in self.known}
        todo = list(missing.items())
        for start in range(0, len(todo), AT_ONCE):
            part = todo[start : start + AT_ONCE]
            states = self.model.last_states([row for _, row in part])
            self.known |= dict(zip([key for key, _ in part], states, strict=True))
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.with_suffix(".part").open("wb") as file:
                np.savez(file, keys=np.array(list(self.known)), values=np.stack(list(self.known.values())))
            self.path.with_suffix(".part").replace(self.path)
            print(f"features: {start + len(part)} of {len(todo)}", flush=True)
        return np.stack([self.known[key] for key in keys])


def measure(features: Features, folder: Path, domains: tuple[str, ...], limit: int | None) -> dict[str, Any]:
    """MAUVE of every model, and its difference from that of gpt2-xl."""
    found: dict[str, Mauve] = {}
    for model in MODELS:
        texts = read_texts(folder, model, domains, limit)
        found[model] = mauve(features.of(texts["original"]), features.of(texts["sampled"]))
    systems = {
        name: {
            "mauve": each.value,
            "interval": list(each.interval),
            "by_kmeans_seed": each.by_seed,
            "star": each.star,
            "frontier_integral": each.frontier_integral,
            "texts": each.n,
            "clusters": each.clusters,
        }
        for name, each in found.items()
    }
    differences = {
        name: difference([each.measured], [found[SMALLEST].measured])
        for name, each in found.items()
        if name != SMALLEST
    }
    corrected = holm([each.p for each in differences.values()])
    tests = {
        name: {"difference": each.value, "interval": each.interval, "p": each.p, "p_holm": p}
        for (name, each), p in zip(differences.items(), corrected, strict=True)
    }
    return {"systems": systems, f"minus_{SMALLEST}": tests}


def table(name: str, found: dict[str, Any]) -> str:
    """The figures as lines."""
    lines = [f"{name}: {next(iter(found['systems'].values()))['texts']} texts a model"]
    for model, each in found["systems"].items():
        test = found[f"minus_{SMALLEST}"].get(model)
        minus = f"; minus {SMALLEST} {test['difference']:+.3f} (p Holm {probability(test['p_holm'])})" if test else ""
        low, high = each["interval"]
        lines.append(
            f"  {model:14} MAUVE {each['mauve']:.3f} ({low:.3f} to {high:.3f}), MAUVE* {each['star']:.3f}{minus}"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--length", type=int, default=128, help="tokens of a text (default 128)")
    parser.add_argument("--limit", type=int, help="the first texts of each file only")
    parser.add_argument("--cache", type=Path, default=cache_folder() / "human_and_model_texts")
    parser.add_argument("--no-write", action="store_true")
    arguments = parser.parse_args()
    features = Features(arguments.cache / f"smollm2-bfloat16-{arguments.length}.npz", arguments.length)
    found: dict[str, Any] = {"features": EMBEDDED_MODEL, "tokens": arguments.length, "kmeans_seeds": 5}
    for name, domains in {"xsum": ("xsum",), "writing": ("writing",), "both": DOMAINS}.items():
        found[name] = measure(features, arguments.folder, domains, arguments.limit)
        print(table(name, found[name]), flush=True)
    if not arguments.no_write:
        write_atomically(RESULTS, json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
