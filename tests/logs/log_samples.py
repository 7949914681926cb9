"""A small log of each tool: the files that it writes, as its source says."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from instruct.logs.source import Columns
from instruct.logs.tables import COLUMNS

NONE = Columns()


@dataclass(frozen=True)
class Sample:
    """The files of one evaluation, the first of which is the log.

    `rows`: that it has, over all its logs. `count`: those, from what the file holds.
    """

    files: dict[str, Any]
    rows: int
    columns: Columns = NONE
    count: Callable[[Any], int] | None = None

    def write(self, folder: Path) -> Path:
        """Write the files to a folder; the path of the log."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in self.files.items():
            (folder / name).write_bytes(encoded(name, content))
        return folder / next(iter(self.files))


def encoded(name: str, content: Any) -> bytes:
    if isinstance(content, bytes):
        return content
    if name.endswith(".csv"):
        rows = [row for row in content if isinstance(row, dict)] if isinstance(content, list) else []
        text = io.StringIO()
        columns = list(rows[0]) if rows else ["x"]
        csv.writer(text).writerows([columns, *([row.get(column, "") for column in columns] for row in rows)])
        return text.getvalue().encode(errors="surrogatepass")
    if name.endswith(".jsonl") and isinstance(content, list):
        return "".join(json.dumps(row) + "\n" for row in content).encode()
    return json.dumps(content).encode()


def annotations() -> list[dict[str, Any]]:
    about = {"generator_1": "base", "generator_2": "tuned", "annotator": "judge"}
    return [
        {"instruction": f"Q{n}?", "output_1": "theirs", "output_2": f"ours {n}", "preference": value} | about
        for n, value in enumerate((1, 2, 1.5, 1.25, None))
    ]


def arena_hard() -> list[dict[str, Any]]:
    about = {"category": "hard_prompt", "judge": "gpt-4.1", "model": "tuned", "baseline": "o3"}
    return [
        {"uid": f"u{n}", **about, "games": [{"score": label, "judgment": f"[[{label}]]"} for label in labels]}
        for n, labels in enumerate([("A>B", "B>>A"), ("A=B", "A<B"), ("A>>B", None)])
    ]


def rated() -> list[dict[str, Any]]:
    about = {"judge": ["gpt-4", "single-v1"], "judgment": "[[7]]"}
    return [
        {"question_id": 81 + n // 2, "turn": 1 + n % 2, "model": model, "score": 7 - 8 * (n == 3)} | about
        for model in ("base", "tuned")
        for n in range(4)
    ]


def paired() -> list[dict[str, Any]]:
    about = {"judge": ["gpt-4", "pair-v2"], "model_1": "tuned", "model_2": "base"}
    games = [("model_1", "model_1"), ("model_1", "model_2"), ("tie", "error"), ("model_2", "model_2")]
    return [
        {"question_id": 81 + n // 2, "turn": 1 + n % 2, "g1_winner": one, "g2_winner": other} | about
        for n, (one, other) in enumerate(games)
    ]


def lm_eval() -> dict[str, Any]:
    date = "2026-01-01T10-00-00.000000"
    rows = [
        {"doc_id": n, "doc": {"question": f"Q{n}?"}, "target": "A", "arguments": {"gen_args_0": {"arg_0": f"Q{n}?"}}}
        | {"resps": [["B"]], "filtered_resps": ["B"], "filter": "none", "metrics": ["exact_match"]}
        | {"exact_match": value, "doc_hash": f"d{n}", "prompt_hash": f"p{n}", "target_hash": f"t{n}"}
        for n, value in enumerate((1.0, 0.0, 1.0, 1.0))
    ]  # fmt: skip
    results = {
        "results": {"sums": {"alias": "sums", "exact_match,none": 0.75, "exact_match_stderr,none": 0.25}},
        "configs": {"sums": {"task": "sums", "metric_list": [{"metric": "exact_match", "aggregation": "mean"}]}},
        "n-shot": {"sums": 5}, "versions": {"sums": 1}, "n-samples": {"sums": {"original": 4, "effective": 4}},
        "higher_is_better": {"sums": {"exact_match": True}}, "config": {"model": "hf"}, "model_name": "org/tuned",
    }  # fmt: skip
    return {f"samples_sums_{date}.jsonl": rows, f"results_{date}.json": results}


TABLE = [{"id": n, "score": n / 4, "passage": f"p{n // 2}"} for n in range(5)]


def inspect() -> dict[str, Any]:
    samples = [
        {
            "id": number, "epoch": 1, "input": [{"id": "a1", "role": "user", "content": "Q?"}], "target": ["a"],
            "messages": [{"role": "user", "content": "Q?"}, {"role": "assistant", "source": "generate"}],
            "output": {"choices": [{"message": {"role": "assistant", "content": [{"type": "text", "text": "a"}]}}]},
            "scores": {"s": {"value": "CI"[number]}, "parts": {"value": {"a": 0.5, "b": True}}},
            "metadata": {"passage": "p"}, "limit": {"type": "token", "limit": 9},
        }
        for number in range(2)
    ]  # fmt: skip
    failed = samples[0] | {"id": "third", "scores": {}, "limit": None, "error": {"message": "ValueError('x')"}}
    metrics = {"accuracy": {"name": "accuracy", "value": 0.5}, "stderr": {"name": "stderr", "value": 0.5}}
    log = {
        "version": 2, "status": "success", "plan": {"steps": [{"solver": "generate"}], "config": {"temperature": 0.5}},
        "eval": {
            "task": "t", "model": "m", "created": "2026-11-26T10:00:00+00:00", "dataset": {"samples": 3},
            "config": {"epochs": 1, "epochs_reducer": ["mean"]}, "packages": {"inspect_ai": "0.3.285"},
        },
        "results": {"total_samples": 3, "scores": [{"name": "s", "scorer": "s", "metrics": metrics}]},
        "samples": [*samples, failed],
    }  # fmt: skip
    return {"log.json": log}


def bench_scores() -> list[dict[str, Any]]:
    about = {"cluster": "", "reason": "", "weight": "1"}
    texts = [
        {"system": system, "seed": seed, "task": "test", "against": "", "measure": measure, "unit": unit} | about
        | {"value": str(value), "better": better}
        for system, seed in (("mle", "1"), ("dft", "1"))
        for unit, value in (("a1", 0.5), ("b2", 1))
        for measure, better in (("ROUGE-L", "higher"), ("cross-entropy", "lower"))
    ]  # fmt: skip
    judged = {"system": "dft", "seed": "1", "task": "j", "against": "mle", "measure": "win rate", "unit": "a1"} | about
    rows = [*texts, judged | {"cluster": "c", "value": "", "reason": "no verdict", "better": "higher"}]
    return [{column: row[column] for column in COLUMNS} for row in rows]


def units_of(rows: list[dict[str, Any]]) -> int:
    return len({tuple(row[name] for name in ("system", "seed", "task", "against", "unit")) for row in rows})


# By tool.
SAMPLES: dict[str, list[Sample]] = {
    "lm-eval": [Sample(lm_eval(), 4, count=len)],
    "Inspect": [Sample(inspect(), 3, count=lambda log: len(log["samples"]))],
    "alpaca_eval": [Sample({"annotations.json": annotations()}, 5, count=len)],
    "Arena-Hard, FastChat": [
        Sample({"tuned.jsonl": arena_hard()}, 3, count=len),
        Sample({"gpt-4_single.jsonl": rated()}, 8, count=len),
        Sample({"gpt-4_pair.jsonl": paired()}, 8, count=lambda rows: 2 * len(rows)),
    ],
    "instruct": [Sample({"scores.csv": bench_scores()}, 5, count=units_of)],
    "table": [
        Sample({f"scores{suffix}": TABLE}, 5, Columns("id", ("score",), "passage"), len)
        for suffix in (".csv", ".jsonl")
    ],
}
