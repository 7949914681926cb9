"""A small log of each tool: the files that it writes, as its source says."""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections.abc import Callable, Iterable
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


Rows = list[dict[str, Any]]


def annotations(preferences: Iterable[float | None] = (1, 2, 1.5, 1.25, None)) -> Rows:
    about = {"generator_1": "base", "generator_2": "tuned", "annotator": "judge"}
    return [
        {"instruction": f"Q{n}?", "output_1": "theirs", "output_2": f"ours {n}", "preference": value} | about
        for n, value in enumerate(preferences)
    ]


LABELS = [("A>B", "B>>A"), ("A=B", "A<B"), ("A>>B", None)]


def arena_hard(labels: Iterable[tuple[str | None, str | None]] = LABELS, **about: str) -> Rows:
    return [
        {"uid": f"u{n}", "judge": "gpt-4.1", "model": "tuned"} | about
        | {"games": [{"score": label, "judgment": f"So [[{label}]]"} for label in both]}
        for n, both in enumerate(labels)
    ]  # fmt: skip


def rated(scores: Iterable[float] = (7, 7, 7, -1), **about: Any) -> Rows:
    return [
        {"question_id": 81 + n // 2, "turn": 1 + n % 2, "judge": ["gpt-4", "v1"], "score": score} | about
        for n, score in enumerate(scores)
    ]


GAMES = [("model_1", "model_1"), ("model_1", "model_2"), ("tie", "error"), ("model_2", "model_2")]


def paired(games: Iterable[tuple[str, str]] = GAMES) -> Rows:
    rows = [{"g1_winner": one, "g2_winner": other} for one, other in games]
    about = {"judge": ["gpt-4", "pair-v2"], "model_1": "tuned", "model_2": "base"}
    return [{"question_id": 81 + n // 2, "turn": 1 + n % 2} | about | row for n, row in enumerate(rows)]


def lm_eval_row(number: int, applied: str | None = "none", **metrics: Any) -> dict[str, Any]:
    """A row as the tool writes it; before 0.4.7 without filter and metrics."""
    about = {} if applied is None else {"filter": applied, "metrics": list(metrics)}
    return {
        "doc_id": number, "doc": {"question": f"What is {number} + {number}?", "passage": f"story {number // 2}"},
        "target": str(2 * number), "resps": [[f"It is {number}."]], "filtered_resps": [f"{number}"], **about,
        "arguments": {"gen_args_0": {"arg_0": f"Question: What is {number} + {number}?", "arg_1": {"until": ["\n"]}}},
        "doc_hash": f"d{number}", "prompt_hash": f"p{number}", "target_hash": f"t{number}", **metrics,
    }  # fmt: skip


def lm_eval_results(size: int, **figures: float) -> dict[str, Any]:
    """Of the task sums."""
    filters = [{"name": "strict", "filter": []}, {"name": "flexible", "filter": []}]
    config = {"task": "sums", "output_type": "generate_until", "filter_list": filters}
    return {
        "results": {"sums": {key.replace("__", ","): figure for key, figure in figures.items()}},
        "configs": {"sums": config | {"generation_kwargs": {"until": []}}}, "n-shot": {"sums": 5},
        "n-samples": {"sums": {"original": 9, "effective": size}}, "versions": {"sums": 3.0},
        "higher_is_better": {"sums": {"exact_match": True, "ter": False}},
        "config": {"model": "hf", "model_args": "pretrained=a/b,api_key=s3cret", "fewshot_seed": 1234, "limit": 4},
        "model_name": "a/b", "date": 1790000000.0, "lm_eval_version": "0.4.13", "chat_template_sha": "ab" * 32,
    }  # fmt: skip


def lm_eval() -> dict[str, Any]:
    date = "2026-01-01T10-00-00.000000"
    rows = [lm_eval_row(n, exact_match=value) for n, value in enumerate((1.0, 0.0, 1.0, 1.0))]
    return {f"samples_sums_{date}.jsonl": rows, f"results_{date}.json": lm_eval_results(4, exact_match__none=0.75)}


TABLE = [{"id": n, "score": n / 4, "passage": f"p{n // 2}"} for n in range(5)]


_IDS = itertools.count()  # of messages, which differ in each evaluation


def inspect_sample(number: int | str, value: Any = "C", epoch: int = 1, **more: Any) -> dict[str, Any]:
    turns = [("system", "Be brief."), ("user", f"Question {number}?"), ("assistant", "It is.")]
    messages = [{"id": f"m{next(_IDS)}", "role": role, "content": content} for role, content in turns]
    messages[-1]["source"] = "generate"
    return {
        "id": number, "epoch": epoch, "input": f"Question {number}?", "target": "yes", "messages": messages,
        "output": {"choices": [{"message": messages[-1]}]}, "scores": {"s": {"value": value}}, "metadata": {},
    } | more  # fmt: skip


def inspect_log(samples: list[Any], accuracy: float | None = None, total: int | None = None, **more: Any) -> Any:
    about = {
        "task": "t", "model": "m", "created": "2026-11-26", "task_version": 1, "config": {"epochs": 1},
        "packages": {"inspect_ai": "0.3.285"}, "model_args": {"base_url": "http://x", "api_key": "s3cret"},
    }  # fmt: skip
    metrics = {"accuracy": {"name": "accuracy", "value": accuracy, "params": {}}}
    scores = [{"name": "s", "scorer": "s", "reducer": None, "metrics": metrics}]
    results = {"total_samples": total, "scores": scores if accuracy is not None else []}
    results = {} if accuracy is None and total is None else {"results": results}
    return {"version": 2, "status": "success", "eval": about, "plan": {}, "samples": samples} | results | more


def inspect() -> Any:
    parts = {"parts": {"value": {"a": 0.5, "b": True}}}
    about = {"metadata": {"passage": "p"}, "limit": {"type": "token", "limit": 9}}
    turns = [{"id": "a1", "role": "user", "content": [{"type": "text", "text": "Q?"}]}]
    samples = [inspect_sample(n, scores={"s": {"value": "CI"[n]}} | parts, input=turns, **about) for n in (0, 1)]
    failed = inspect_sample("third", scores={}, error={"message": "ValueError('x')"})
    plan = {"steps": [{"solver": "generate"}], "config": {"temperature": 0.5}}
    return inspect_log([*samples, failed], 0.5, 3, plan=plan)


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
    "Inspect": [Sample({"log.json": inspect()}, 3, count=lambda log: len(log["samples"]))],
    "alpaca_eval": [Sample({"annotations.json": annotations()}, 5, count=len)],
    "Arena-Hard, FastChat": [
        Sample({"tuned.jsonl": arena_hard(category="hard_prompt", baseline="o3")}, 3, count=len),
        Sample({"gpt-4_single.jsonl": [*rated(model="base"), *rated(model="tuned")]}, 8, count=len),
        Sample({"gpt-4_pair.jsonl": paired()}, 8, count=lambda rows: 2 * len(rows)),
    ],
    "instruct": [Sample({"scores.csv": bench_scores()}, 5, count=units_of)],
    "table": [
        Sample({f"scores{suffix}": TABLE}, 5, Columns("id", ("score",), "passage"), len)
        for suffix in (".csv", ".jsonl")
    ],
}
