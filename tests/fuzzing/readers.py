"""The readers of files that a user may bring, each with valid files and a check that all of a file is accounted for."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import json
import math
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from imported import import_into_run

from instruct.analysis.outcomes import candidate_is_second
from instruct.config import load_config
from instruct.data.cards import Cut, load_dataset_card
from instruct.data.evaluation import AnswerForm, load_answers, load_eval_set
from instruct.data.formats import detect_format, to_row
from instruct.data.prefixes import load_prefixes
from instruct.data.sources import read_file
from instruct.judging.asking import engine_options
from instruct.judging.cards import load_judge_card
from instruct.judging.human_agreement import agreement_warnings, agreement_words
from instruct.judging.interchange.labels import read_labels
from instruct.judging.money import price_of
from instruct.judging.store import JudgmentStore
from instruct.reporting.human_labels import keep_labels
from instruct.reporting.length_control import length_controlled_win_rate
from instruct.reporting.report import build_report
from instruct.validation.agreement import measure_agreement
from instruct.validation.human_sets import load_human_set
from instruct.validation.judge_labels import load_labels
from instruct.validation.published import read_published

ROOT = Path(__file__).resolve().parents[2]
ROWS = (".json", ".jsonl")


@dataclass(frozen=True)
class Reader:
    """A reader of files.

    Attributes:
        suffixes: of the files that it reads.
        valid: the content of valid files: rows, a mapping, or the bytes of a database.
        read: reads the file at a path, in a folder of its own; asserts that everything is accounted for.
        other: what an error may name instead, such as a file that the file itself names.
        several_problems: whether everything that is wrong is reported at once, each on a line.
    """

    suffixes: tuple[str, ...]
    valid: tuple[Any, ...]
    read: Callable[[Path], None]
    other: tuple[str, ...] = ()
    several_problems: bool = False


def rows_in(path: Path) -> int:
    """The rows of a file that was read without an error, counted in another way than the reader does."""
    if path.suffix == ".csv":
        with path.open(encoding="utf-8-sig", newline="") as file:
            return sum(1 for record in csv.reader(file) if record) - 1
    text = path.read_bytes().decode("utf-8-sig")
    if path.suffix == ".json":
        with contextlib.suppress(ValueError):
            content = json.loads(text)
            return len(content) if isinstance(content, list) else 1
    return sum(1 for each in text.split("\n") if each.strip())


def fixed(content: object, name: str) -> Path:
    """A valid file next to the one that is fuzzed, in the folder above its own."""
    path = Path(tempfile.gettempdir()) / name
    path.write_text(json.dumps(content))
    return path


def annotation(number: int, preference: object = 2, **more: object) -> dict[str, object]:
    return {
        "instruction": f"Question {number}?",
        "dataset": "d",
        "generator_1": "theirs",
        "generator_2": "ours",
        "output_1": f"their answer {number}",
        "output_2": "our answer" * number,
        "annotator": "some_judge",
        "preference": preference,
        "raw_completion": "m",
    } | more


def read_annotations(path: Path) -> None:
    """Each verdict is stored as the file has it, and each pair has a result in the report."""
    run = import_into_run(path, path.parent / "run")
    with JudgmentStore(run.store) as store:
        judgments = {j.instruction: j for each in store.comparisons() for j in store.judgments(each)}
        assert sum(len(store.judgments(each)) for each in store.comparisons()) == rows_in(path)
    for row in read_file(path):
        fields = row.fields
        judgment = judgments.get(str(fields.get("id"))) or judgments[fields["instruction"]]
        preference = fields["preference"]
        ours = "second" if candidate_is_second(fields["instruction"]) else "first"
        if isinstance(preference, float | int) and preference not in (0, -1, 1.5) and not math.isnan(preference):
            assert (judgment.verdict == ours) == (preference > 1.5)
        else:
            assert judgment.verdict in ("tie", "unparsed", "failed")
    for judge in build_report(run.folder).judges:
        for comparison in judge.comparisons:
            counts = comparison.claim.counts
            assert counts.win + counts.tie + counts.loss + counts.unparsed + counts.failed == comparison.pairs_judged


def read_outputs(path: Path) -> None:
    answers = load_answers(path)
    assert [row["output"] for row in answers] == [row.fields["output"] for row in read_file(path)]
    assert len(answers) == rows_in(path)


def read_benchmark_answers(path: Path) -> None:
    asked = [{"question_id": n, "category": "c", "turns": [f"Q{n}?", "Why?"]} for n in range(3)]
    answers = load_answers(path, AnswerForm(questions=str(fixed(asked, "questions.json"))))
    assert len(answers) == sum(1 if "instruction" in row.fields else 2 for row in read_file(path))


def read_eval_set(path: Path) -> None:
    found = load_eval_set("starter_eval", [str(path)])
    assert len(found.prompts) == len(found.baseline or found.prompts) == rows_in(path)
    assert found.sha256


def read_corpus(path: Path) -> None:
    found = load_prefixes(None, Cut(prefix="1 words", continuation="1 words"), files=[str(path)])
    texts = [row.fields["text"] for row in read_file(path)]
    assert found.counts["read"] == len(texts) == sum(number for name, number in found.counts.items() if name != "read")
    assert len(found.prefixes) == found.counts["kept"] == len({each.id for each in found.prefixes})
    beginnings = [each.text + (each.reference or "") for each in found.prefixes]
    kept = [text for text in texts if text is not None and len(text.split()) > 1]
    assert all(text.startswith(beginning) for text, beginning in zip(kept, beginnings, strict=True))


def read_training_rows(path: Path) -> None:
    rows = list(read_file(path))
    assert len(rows) == rows_in(path)
    for row in rows:
        format = detect_format(row)
        for template in ("chat",) if row.fields.get("tools") else ("chat", "alpaca"):
            made = to_row(row, format, template)
            assert made is None or made.keys() <= {"prompt", "completion", "messages", "text", "tools"}


def read_judge_card(path: Path) -> None:
    (path.parent / "prompt.txt").write_text("{instruction} {input} {first} {second} {answer}")
    card = load_judge_card(str(path))
    assert card.sha256()
    assert engine_options(card).model == card.model
    assert agreement_words(card)
    agreement_warnings(card)


def read_data_card(path: Path) -> None:
    assert load_dataset_card(str(path)).name


PAIRS = [
    {"instruction": f"Q{n}?", "input": "", "response1": "a" * n, "response2": "b", "label": label}
    for n, label in enumerate(("first", "second", "tie", "first"))
]


def read_human_card(path: Path) -> None:
    (path.parent / "pairs.json").write_text(json.dumps(PAIRS))
    found = load_human_set(str(path))
    assert len(found.pairs) == len(PAIRS)
    assert found.sha256


def read_human_set(path: Path) -> None:
    found = load_human_set(str(path))
    left_out = sum(int(note.split()[2]) for note in found.notes if note.startswith("left out: "))
    assert len(found.pairs) + left_out == rows_in(path)
    accuracy = measure_agreement(found, {"listed": [pair.label for pair in found.pairs]}).get("listed", "accuracy")
    assert accuracy.details.count == accuracy.n == len(found.pairs)


def read_replay(path: Path) -> None:
    pairs = load_human_set(str(fixed(PAIRS, "set.json"))).pairs
    found = read_published([path], pairs)
    assert all(len(verdicts) == len(pairs) for verdicts in found.raters().values())


def read_judge_labels(path: Path) -> None:
    """Pairs labeled by a judge: those with a preference."""
    found = load_labels([str(path)])
    with_one = [row for row in read_file(path) if row.fields["preference"] not in (None, -1)]
    assert len(found.pairs) == sum(not math.isnan(float(row.fields["preference"])) for row in with_one)
    figures = measure_agreement(found, {"listed": [pair.label for pair in found.pairs]}).measurements
    assert [row.n for key, row in figures.items() if key[:2] == ("people", "win_rate")] == [len(found.pairs)]


WEIGHTED = [annotation(n, 1 + n / 6) for n in range(6)]
DIFFICULTIES = [
    {"index": n, "instruction": f"Question {n}?", "instruction_difficulty": n / 7, "preference": 0.5,
    "std_delta_len": 0.1,
     "not_gamed_baseline": "True"} for n in range(6)
]  # fmt: skip


BY_INDEX = [{name: row[name] for name in ("index", "instruction_difficulty")} for row in DIFFICULTIES]


def read_difficulty(path: Path) -> None:
    prompts = fixed([{"instruction": f"Question {n}?"} for n in range(6)], "prompts.json")
    found, _ = length_controlled_win_rate(WEIGHTED, path, prompts)
    assert found.win_rate is None or 0 <= found.win_rate <= 100
    assert found.note


def read_human_labels(path: Path) -> None:
    run = import_into_run(fixed([annotation(n, 1 + n % 2) for n in range(6)], "annotations.json"), path.parent / "run")
    try:
        keep_labels(run, path)
    except BaseException:
        assert not run.labels.exists()
        shutil.rmtree(run.folder)  # of this test
        raise
    labels = read_labels(run.labels)
    assert 0 < sum(map(len, labels.scores.values())) <= rows_in(path)
    build_report(run.folder)


def read_config(path: Path) -> None:
    config = load_config(path)
    assert yaml.safe_dump(config.model_dump(mode="json"))


def read_prices(path: Path) -> None:
    (path.parent / "judges").mkdir()
    shutil.copyfile(path, path.parent / "judges" / "prices.yaml")
    try:
        price = price_of("gpt-4o", "https://api.openai.com/v1")
    finally:
        shutil.rmtree(path.parent / "judges")
    assert price is None or min(price.input, price.output) >= 0


CARD = yaml.safe_load((ROOT / "tests" / "judges" / "smollm2_labels" / "judge.yaml").read_text())
REWARD = yaml.safe_load((ROOT / "judges" / "skywork_reward" / "judge.yaml").read_text())
SINGLE = {
    "name": "rater", "description": "d", "model": "m", "protocol": "single", "prompt": "prompt.txt",
    "prompt_form": "chat",
    "decoding": {"temperature": 0.0, "max_tokens": 20, "extra": {"seed": 1}}, "order_policy": "one",
    "licence": "none",
    "verdict": {"regex": "Score: ([0-9]+)", "rating": {"low": 1, "high": 5}}, "leading_policy": "single",
    "context_length": 100, "human_agreement": {"s": {"pairs": 3, "accuracy": 50.0}}, "revision": "main",
}  # fmt: skip
HUMAN_CARD = {
    "name": "mine", "description": "d", "file": "pairs.json", "licence": "none", "rows": 4,
    "columns": {"instruction": "instruction", "first": "response1", "second": "response2", "label": "label"},
    "labels": {"first": "first", "second": "second", "tie": "tie", 1: "first"},
}  # fmt: skip
CONFIG = {
    "name": "mine", "model": {"name": "m"}, "data": {"card": "starter", "limit": 3}, "lora": {"r": 4},
    "systems": {"emo": {"objective": "emo"}, "mle": {"objective": "mle"}}, "comparisons": [["emo", "mle"]],
    "judges": [{"card": "smollm2_score", "comparisons": [["emo", "baseline"]], "budget_usd": 1.0}],
    "answers": {"limit": 2, "generation": {"max_new_tokens": 4}},
}  # fmt: skip
PRICES = {"prices": [{"model": "gpt-4*", "endpoint": "api.openai.com", "input": 1, "output": 2.5}]}
TRAINING = (
    [{"instruction": "I", "input": "x", "output": "O"}, {"instruction": "J", "input": "", "output": "P"}],
    [{"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]}] * 2,
    [{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}], "tools": [{"a": 1}]}],
    [{"prompt": "P", "completion": "C"}, {"prompt": [{"role": "user", "content": "P"}], "completion": "C"}],
)
OWN_REPLAY = [
    {"judge": "j", "model": "m", "card": "c", "set_sha256": None, "tie_margin": 0.1},
    *(
        {"pair": n, "order": order, "verdict": "first", "margin": 0.5}
        for n in range(4)
        for order in ("first", "swapped")
    ),
]
SAMPLE = [
    {
        "pair": "p" + hashlib.sha256(f"Question {n}?".encode()).hexdigest()[:12],
        "candidate": "ours",
        "baseline": "theirs",
    }
    | {"prompt": f"Question {n}?", "answer_1": "one", "answer_2": "other", "label": ("1", "2", "tie", "")[n]}
    for n in range(4)
]
LABELS = [
    {"candidate": "ours", "baseline": "theirs", "instruction": f"Question {n}?", "label": label, "annotator": "me"}
    for n, label in enumerate(("candidate", "tie", "baseline"))
]
READERS = {
    "annotations": Reader((".json",), ([annotation(n, 1 + n % 2) for n in range(3)], WEIGHTED), read_annotations),
    "outputs": Reader(
        ROWS,
        ([{"instruction": f"Q{n}?", "output": "O", "generator": "g"} for n in range(3)],),
        read_outputs,
        several_problems=True,
    ),
    "benchmark's answers": Reader(
        ROWS,
        ([{"question_id": n, "model_id": "m", "choices": [{"turns": ["A", "B"]}]} for n in range(3)],),
        read_benchmark_answers,
        ("questions.json",),
        several_problems=True,
    ),
    "evaluation set": Reader(
        (*ROWS, ".csv"), ([{"instruction": f"Q{n}?", "output": "O", "dataset": "d"} for n in range(3)],), read_eval_set
    ),
    "training rows": Reader((*ROWS, ".csv"), TRAINING, read_training_rows),
    "corpus": Reader((*ROWS, ".csv"), ([{"text": f" T{n}  it was \n"} for n in range(3)],), read_corpus),
    "judge card": Reader((".yaml",), (CARD, SINGLE, REWARD), read_judge_card, ("no such prompt file",)),
    "data card": Reader(
        (".yaml",),
        tuple(
            yaml.safe_load((ROOT / "data" / f"{name}.yaml").read_text())
            for name in ("alpaca_gpt4", "alpaca_eval", "ptb_test")
        ),
        read_data_card,
    ),
    "human set": Reader((*ROWS, ".csv"), (PAIRS,), read_human_set),
    "card of a human set": Reader((".yaml",), (HUMAN_CARD,), read_human_card, ("pairs.json", "its file ")),
    "verdicts to replay": Reader(
        ROWS,
        (
            OWN_REPLAY,
            [{"idx": n, "m_result": n % 3} for n in range(4)],
        ),
        read_replay,
    ),
    "labels by a judge": Reader(
        (".json",), ([annotation(n, 1 + n % 2) for n in range(3)], WEIGHTED), read_judge_labels
    ),
    "difficulties": Reader((".csv", *ROWS), (DIFFICULTIES, BY_INDEX), read_difficulty),
    "human labels": Reader(ROWS, (LABELS, SAMPLE), read_human_labels),
    "config": Reader((".yaml",), (CONFIG,), read_config, several_problems=True),
    "prices": Reader((".yaml",), (PRICES,), read_prices, ("judges/prices.yaml",)),
}
