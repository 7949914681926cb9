"""Does EMO only sharpen? Every objective against a truth that is known exactly: word pairs of a corpus, as a table.

    python recipes/tabular_truth.py --files ptb.train.txt.gz            # some 10 minutes of one core
    python recipes/tabular_truth.py --files ptb.train.txt.gz --dry-run

The truth is the distribution of the next word after each of the 300 most frequent words; the model is a table of
logits, which can express it. The transport costs, and the embeddings of energy, are those of a language model's tokens.
Each objective is optimized on the truth itself (infinite data: what is the objective's optimum?) and on 50,000 pairs
drawn from it (stopped where the cross-entropy of 10,000 other pairs is lowest), from three seeds. Next to each stands
the control: MLE at the temperature that has the objective's entropy. It is the exact sister of recipes/oracle.py.

Results go to runs/NAME: results.json, report.md and a figure, without any word of the corpus. A finished optimization
is not repeated; rerun the command to resume.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from study import markdown

from instruct.base.errors import InputError
from instruct.base.output import run_guarded

if TYPE_CHECKING:
    import torch

    from instruct.objectives import Objective
    from instruct.objectives.expectation import Expectation

SMOOTHING = 0.01  # added to every count: the reverse cross-entropy needs a truth that is nowhere 0
FIGURES = ("forward_cross_entropy", "reverse_cross_entropy", "jensen_shannon", "total_variation", "entropy")
HEADINGS = ("forward CE", "reverse CE", "Jensen-Shannon", "total variation", "entropy")


def objectives() -> dict[str, Objective]:
    from instruct.objectives import DFT, EMO, MLE, Energy, ErrorNormTruncation, MixCE, TaiLr

    return {
        "MLE": MLE(),
        "EMO, paper": EMO("paper"),
        "EMO, official": EMO("official"),
        "EMO, pypi": EMO("pypi"),
        "EMO, mode 2": EMO("official", "emo"),
        "energy, λ 2": Energy(2.0),
        "energy, λ 10": Energy(10.0),
        "energy, λ 50": Energy(50.0),
        "MixCE, γ 0.8": MixCE(0.8),
        "TaiLr, γ 0.8": TaiLr(0.8),
        "TaiLr official, γ 0.8": TaiLr(0.8, "official"),
        "DFT": DFT(),
        "ENT, 1.3": ErrorNormTruncation(1.3),
    }


@dataclass(frozen=True)
class Table:
    """`contexts`: the share of each word; `truth`: of each word, the distribution of the next; `vectors`: their
    embeddings. (words,), (words, words), (words, width), float64."""

    contexts: torch.Tensor
    truth: torch.Tensor
    vectors: torch.Tensor


def read_table(given: argparse.Namespace) -> Table:
    """The truth and the words' embeddings: the mean of their tokens' rows in the model's head."""
    import torch
    from transformers import AutoTokenizer

    from instruct.base.models import model_path
    from instruct.data.cards import load_dataset_card
    from instruct.data.rows import load_rows
    from instruct.objectives import load_cost_table

    card = load_dataset_card(given.card) if given.card else None
    rows = load_rows(card, files=given.files, format=None if card else "text")
    texts = [str(row["text"]).split() for row in rows.rows]
    counts = Counter(word for text in texts for word in text if word not in given.leave_out)
    words = [word for word, _ in counts.most_common(given.words)]
    if len(words) < given.words:
        raise InputError(f"{given.card or given.files[0]}: has {len(words)} different words; lower --words")
    place = {word: number for number, word in enumerate(words)}
    pairs = torch.zeros(len(words), len(words), dtype=torch.float64)
    for text in texts:
        for first, second in itertools.pairwise(text):
            if first in place and second in place:
                pairs[place[first], place[second]] += 1
    truth = pairs + SMOOTHING
    tokenizer = AutoTokenizer.from_pretrained(model_path(given.model))
    head = load_cost_table(model_path(given.model)).double()
    vectors = [head[tokenizer(f" {word}", add_special_tokens=False)["input_ids"]].mean(dim=0) for word in words]
    return Table(pairs.sum(dim=1) / pairs.sum(), truth / truth.sum(dim=1, keepdim=True), torch.stack(vectors))


def optimize(
    expectation: Expectation,
    shares: torch.Tensor,
    seed: int,
    steps: int,
    learning_rate: float,
    held_out: torch.Tensor | None = None,
) -> tuple[torch.Tensor, int]:
    """The log-probabilities that minimize the loss, by Adam from random logits, and the step that they are from.

    With `held_out` shares: those whose cross-entropy on them is lowest.
    """
    import torch

    from instruct.objectives.expectation import descent

    generator = torch.Generator().manual_seed(seed)
    start = logits = 0.1 * torch.randn(shares.shape, generator=generator, dtype=shares.dtype)
    best: tuple[float, int, torch.Tensor] | None = None
    for step, logits in enumerate(descent(expectation, shares, start, steps, learning_rate), start=1):
        if held_out is not None:
            logs = torch.log_softmax(logits, dim=-1)
            ce = -float((held_out * logs).sum())
            if best is None or ce < best[0]:
                best = ce, step, logs
    return (best[2], best[1]) if best else (torch.log_softmax(logits, dim=-1), steps)


def measured(logs: torch.Tensor, table: Table) -> dict[str, float]:
    """The model's distances from the truth and its entropy: means over contexts, by their shares."""
    from instruct.measuring.texts.distances import NAMES, position_distances

    found = dict(zip(NAMES, position_distances(table.truth.log(), logs), strict=True))
    found["entropy"] = -(logs.exp() * logs).sum(dim=-1)
    return {name: float((table.contexts * found[name]).sum()) for name in FIGURES}


def at_temperature(logs: torch.Tensor, temperature: float) -> torch.Tensor:
    return (logs / temperature).log_softmax(dim=-1)


def control(mle: torch.Tensor, entropy: float, table: Table) -> dict[str, float] | None:
    """MLE at the temperature that has this entropy; None: no temperature has."""
    from instruct.measuring.texts.entropy import matching_temperatures

    def entropies(temperatures: list[float]) -> list[float]:
        return [measured(at_temperature(mle, each), table)["entropy"] for each in temperatures]

    matched = matching_temperatures(entropies, {"": entropy})
    if not matched:
        return None
    temperature, _ = matched[""]
    return {"temperature": temperature, **measured(at_temperature(mle, temperature), table)}


def drawn(table: Table, count: int, seed: int) -> torch.Tensor:
    """The shares of `count` pairs drawn from the truth."""
    import torch

    joint = (table.contexts[:, None] * table.truth).flatten()
    found = torch.multinomial(joint, count, replacement=True, generator=torch.Generator().manual_seed(seed))
    return torch.bincount(found, minlength=len(joint)).reshape(table.truth.shape).double() / count


def run(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Optimize what is not in results.json yet."""
    from instruct.base.files import write_atomically
    from instruct.objectives.expectation import Expectation

    table = read_table(given)
    settings = {name: getattr(given, name) for name in ("words", "leave_out", "model", "samples", "held_out", "steps")}
    path = folder / "results.json"
    results: dict[str, Any] = {"settings": settings, "rows": []}
    if path.is_file():
        results = json.loads(path.read_text())
    if results["settings"] != settings:
        raise InputError(f"{path}: was made with other flags; choose another --name or delete it")
    results["truth"] = measured(table.truth.log(), table)
    done = {(row["data"], row["objective"], row["seed"]) for row in results["rows"]}
    names = objectives()
    for data, seed in itertools.product(("infinite", "finite"), given.seeds):
        if all((data, name, seed) in done for name in names):
            continue
        held_out = None
        shares, rate = table.truth, 0.3  # every context counts alike: each has its own row of the table
        if data == "finite":
            shares, rate = drawn(table, given.samples, seed), 0.02
            held_out = drawn(table, given.held_out, seed + 10_000)
        mle: torch.Tensor | None = None
        for name, objective in names.items():
            if (data, name, seed) in done and name != "MLE":
                continue
            logs, step = optimize(Expectation(objective, table.vectors), shares, seed, given.steps, rate, held_out)
            if name == "MLE":
                mle = logs
            if (data, name, seed) in done:
                continue
            assert mle is not None
            found = measured(logs, table)
            row: dict[str, Any] = {"data": data, "objective": name, "seed": seed, "step": step, **found}
            row["control"] = None if name == "MLE" else control(mle, found["entropy"], table)
            results["rows"].append(row)
            if name == "MLE":
                temperatures = [0.5 + 0.05 * number for number in range(15)]
                row["curve"] = [[each, measured(at_temperature(mle, each), table)] for each in temperatures]
            write_atomically(path, json.dumps(results, indent=1) + "\n")
            print(f"{data:9} seed {seed}  {name:22} entropy {found['entropy']:.3f}", flush=True)
    return results


def summarized(results: dict[str, Any], data: str) -> list[dict[str, Any]]:
    """A line per objective: the means over seeds and the largest distance of a seed from it."""
    lines = []
    for name in objectives():
        rows = [row for row in results["rows"] if (row["data"], row["objective"]) == (data, name)]
        controls = [row["control"] for row in rows]
        line: dict[str, Any] = {"objective": name, "control": None}
        for figure in FIGURES:
            line[figure] = statistics.mean(row[figure] for row in rows)
            line[f"{figure}_spread"] = max(abs(row[figure] - line[figure]) for row in rows)
        if all(controls):
            line["control"] = {key: statistics.mean(each[key] for each in controls) for key in controls[0]}
        lines.append(line)
    return lines


def report_text(results: dict[str, Any]) -> str:
    """report.md: a table for infinite data and one for samples."""
    settings, seeds = results["settings"], len({row["seed"] for row in results["rows"]})
    text = [
        "# Tabular truth\n",
        f"{settings['words']} words, costs from {settings['model']}; {seeds} seeds. Means over contexts in nats; the "
        "Jensen-Shannon divergence and the total variation of each context's next word, too. ± is the largest distance "
        f"of a seed from the mean. The truth has an entropy of {results['truth']['entropy']:.3f}.\n",
        "![Precision and recall](precision_recall.svg)\n",
    ]
    finite = f"{settings['samples']:,} samples, stopped by the cross-entropy of {settings['held_out']:,} others"
    for data, title in (("infinite", "Infinite data: each objective's own optimum"), ("finite", finite)):
        rows = []
        for line in summarized(results, data):
            cells = [f"{line[name] + 0:.4f} ± {line[f'{name}_spread']:.4f}" for name in FIGURES]
            rows.append([line["objective"], *cells])
            if line["control"]:
                cells = [f"{max(line['control'][name], 0):.4f}" for name in FIGURES]
                rows.append([f"MLE at temperature {line['control']['temperature']:.2f}", *cells])
            elif line["objective"] != "MLE":
                rows.append(["MLE at no temperature", *[""] * len(FIGURES)])
        text += [f"## {title}\n", *markdown(["", *HEADINGS], rows), ""]
    return "\n".join(text)


def draw_plane(panels: Any) -> Any:
    """Forward against reverse cross-entropy, a panel for infinite data and one for samples."""
    from instruct.reporting.figures.canvas import COLORS, FAINT, INK, axes_at, empty_figure

    figure = empty_figure(4.2, "Precision and recall", "Each objective, and MLE at temperatures from 0.5 to 1.2 (line)")
    for number, panel in enumerate(panels):
        axes = axes_at(figure, 0.7 + 3.1 * number, 0.95, 2.5, 2.6)
        recall, precision = zip(*panel["curve"], strict=True)
        axes.plot(recall, precision, "-", color=FAINT, linewidth=1.2, zorder=1)
        outside = []
        for index, (name, x, y) in enumerate(panel["points"]):
            if x > panel["limit"]:
                outside.append(name)
                x = y = math.nan  # for the legend
            style: dict[str, Any] = {"color": COLORS[index % len(COLORS)], "marker": "os"[index // len(COLORS)]}
            axes.scatter([x], [y], s=22, alpha=0.8, zorder=2, label=name, **style)
        axes.set_title(panel["title"], fontsize=9, loc="left", color=INK)
        axes.set_xlabel("forward cross-entropy (low: recall)", fontsize=8)
        axes.set_ylabel("reverse cross-entropy (low: precision)", fontsize=8)
        axes.set_xlim(right=panel["limit"])
        if outside:
            corner: dict[str, Any] = {"transform": axes.transAxes, "ha": "right", "va": "top"}
            axes.text(0.98, 0.98, "far right: " + "\n".join(outside), fontsize=6.5, color=FAINT, **corner)
    axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1.02), frameon=False, fontsize=7)
    return figure


def panels(results: dict[str, Any]) -> list[dict[str, Any]]:
    """What the figure shows, from the first seed's curve and the means over seeds."""
    recall, precision, *_ = FIGURES
    found = []
    for data, title in (("infinite", "infinite data"), ("finite", f"{results['settings']['samples']:,} samples")):
        curve = next(row["curve"] for row in results["rows"] if row["data"] == data and row["objective"] == "MLE")
        lines = summarized(results, data)
        points = [[line["objective"], line[recall], line[precision]] for line in lines]
        plane = [[values[recall], values[precision]] for _, values in curve]
        found.append({"title": title, "curve": plane, "points": points, "limit": lines[0][recall] + 0.25})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--files", nargs="+", metavar="FILE", help="text files, one text a line")
    add("--card", help="a data set's card, instead of files")
    add("--name", default="tabular_truth", help="results go to runs/NAME (default: tabular_truth)")
    add("--words", type=int, default=300, help="the number of words (default: 300)")
    add("--leave-out", nargs="*", default=["<unk>", "N"], help="words that stand for others (default: <unk> N)")
    add("--model", default="smollm2-135m-instruct", help="whose head the costs are from (default: the bundled model)")
    add("--seeds", type=int, nargs="+", default=[1, 2, 3], help="(default: 1 2 3)")
    add("--samples", type=int, default=50_000, help="pairs to train on (default: 50,000)")
    add("--held-out", type=int, default=10_000, help="pairs to stop by (default: 10,000)")
    add("--steps", type=int, default=1000, help="of Adam, at most (default: 1,000)")
    add("--dry-run", action="store_true", help="print the plan and stop")
    given = parser.parse_args()
    if not given.files and not given.card:
        raise InputError("no corpus; give --files FILE, or --card NAME")
    folder = Path("runs") / given.name
    pairs = f"{len(given.seeds)} seeds, on the truth and on {given.samples:,} pairs"
    print(f"plan      {len(objectives())} objectives, {pairs}; {given.words} words; to {folder}")
    if given.dry_run:
        return
    from instruct.base.files import write_atomically
    from instruct.reporting.figures.canvas import Drawing

    results = run(given, folder)
    Drawing("precision_recall", "Precision and recall", panels(results), draw_plane).save(folder)
    write_atomically(folder / "report.md", report_text(results))
    print(f"report: {folder / 'report.md'}")


if __name__ == "__main__":
    sys.exit(run_guarded(main))
