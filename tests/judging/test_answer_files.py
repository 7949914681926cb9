"""Files of answers, compared without a run of one's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from _pytest.monkeypatch import MonkeyPatch
from json_files import write_json

from instruct.base.errors import InputError
from instruct.data.evaluation import AnswerForm, load_answers
from instruct.data.prompts import conversations
from instruct.judging.answer_files import run_of_answers
from instruct.judging.store import JudgmentStore
from instruct.run.directory import RunDirectory


def answers(path: Path, outputs: list[str], question: str = "Question") -> Path:
    return write_json(path, [{"instruction": f"{question} {n}?", "output": text} for n, text in enumerate(outputs)])


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_same_files_continue_the_run_and_other_answers_are_refused():
    ours, theirs = answers(Path("ours.json"), ["a"]), answers(Path("theirs.json"), ["b"])
    run_of_answers("runs/x", [ours], theirs)
    run, *_ = run_of_answers("runs/x", [ours], theirs)
    kept = (run.outputs / "ours.json").read_text()
    answers(Path("ours.json"), ["another"])
    with pytest.raises(InputError, match=r"ours.json: .*outputs/ours.json has other answers; give another `output`"):
        run_of_answers("runs/x", [ours], theirs)
    assert (run.outputs / "ours.json").read_text() == kept


def test_files_are_compared_with_each_other_or_each_with_the_baseline():
    files = [answers(Path(f"{name}.json"), [name, "same"]) for name in ("a", "b", "c")]
    assert run_of_answers("runs/all", files, None)[1] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert run_of_answers("runs/each", files[:2], files[2])[1] == [("a", "c"), ("b", "c")]


def test_prompts_that_not_all_files_have_are_left_out_on_demand():
    """Also where the files are in another order, and where a third file lacks what two have."""
    files = [answers(Path(f"{name}.json"), [f"{name}{n}" for n in range(size)]) for name, size in
             (("a", 5), ("b", 3), ("c", 4))]  # fmt: skip
    files[2].write_text(json.dumps(json.loads(files[2].read_text())[:0:-1]))  # questions 3, 2, 1
    with pytest.raises(InputError, match=r"answers b: 2 prompts of the other side missing, first 'Question 3\?'"):
        run_of_answers("runs/x", files, None)
    assert not Path("runs").exists()
    run, _ = run_of_answers("runs/x", files, None, common_prompts=True)
    kept = {path.stem: [row["output"] for row in load_answers(path)] for path in sorted(run.outputs.iterdir())}
    assert kept == {"a": ["a1", "a2"], "b": ["b1", "b2"], "c": ["c2", "c1"]}
    run_of_answers("runs/x", files, None, common_prompts=True)  # continues


def test_columns_of_other_tools_are_named():
    """In a table as Excel writes it."""
    rows = "".join(f"Größe {n}?;„so“ {n} €;sizes\n" for n in range(2))
    Path("excel.csv").write_text(f"prompt;response;topic\n{rows}", encoding="utf-8-sig")
    ours = answers(Path("ours.json"), ["a", "b"], question="Größe")
    with pytest.raises(
        InputError, match=r"excel.csv, row 1: no column 'instruction' \(columns: prompt, response, topic\); re"
    ):
        run_of_answers("runs/x", [Path("excel.csv")], ours)
    assert not Path("runs").exists()
    form = AnswerForm("prompt", "response", cluster="topic")
    run, _ = run_of_answers("runs/x", [Path("excel.csv")], ours, form)
    kept, without = (load_answers(run.outputs / f"{name}.json") for name in ("excel", "ours"))
    assert [(row["instruction"], row["output"], row["cluster"]) for row in kept] == [
        ("Größe 0?", "„so“ 0 €", "sizes"), ("Größe 1?", "„so“ 1 €", "sizes"),
    ]  # fmt: skip
    for both in ([*kept, *without], [*without, *kept]):  # one side that names it is enough
        assert set(conversations(both).values()) == {"cluster sizes"}


def test_two_files_and_a_server_are_enough(instruct: Any, fake_server: Any):
    """Without --judge and --output; other criteria are another judge."""
    url, requests_of = fake_server()
    for name in "ab":
        answers(Path(f"{name}.json"), [f"{name} {n}" for n in range(8)])
    call = ["judge", "--candidate", "a.json", "--baseline", "b.json", "--base-url", url]
    assert "it takes --judge or --judge-model" in instruct(*call)[2]
    assert not Path("runs").exists()
    run = RunDirectory("runs/a_vs_b")
    for number, criteria in enumerate([[], ["Brevity {first}"], ["Brevity {first}"]]):
        assert instruct(*call, "--judge-model", "m", *(f"--criteria={each}" for each in criteria))[0] == 0
        assert len(requests_of()) == 16 * min(number + 1, 2)
    assert instruct("judge", "b.json", "a.json", "--base-url", url, "--judge-model", "m")[0] == 0  # the baseline first
    assert len(requests_of()) == 32
    for wrong in (["a.json", "b.json", "--files", "a.json"], ["a", "b"]):
        assert "files" in instruct("judge", *wrong, "--judge-model", "m")[2]
    report = json.loads((run.report / "report.json").read_text())
    assert [judge["comparisons"][0]["notes"][-1:] for judge in report["judges"]] == [
        [],
        ["rows without criteria of their own were judged by: Brevity {first}"],
    ]
    with JudgmentStore(run.store) as store:
        assert [len(store.judgments(key)) for key in store.comparisons()] == [16, 16]


def test_answers_of_mt_bench_are_joined_with_their_questions():
    asked = write_json("question.jsonl", [{"question_id": 81, "category": "math", "turns": ["Ask.", "And?"]}])
    answered = [{"question_id": 81, "model_id": "m", "choices": [{"index": 0, "turns": ["First.", "So."]}]}]
    ours, theirs = (write_json(f"{name}.jsonl", answered) for name in ("ours", "theirs"))
    run, _ = run_of_answers("runs/x", [ours], theirs, AnswerForm(questions=str(asked)))
    kept = load_answers(run.outputs / "ours.json")
    earlier = [{"role": "user", "content": "Ask."}, {"role": "assistant", "content": "First."}]
    assert [[row.get(name) for name in ("dataset", "instruction", "output", "earlier")] for row in kept] == [
        ["math", "Ask.", "First.", None],
        ["math", "And?", "So.", earlier],
    ]
    with pytest.raises(InputError, match=r"ours.jsonl, row 1: has answers without their questions"):
        run_of_answers("runs/y", [ours], theirs)


def test_files_that_put_a_prompt_in_different_clusters_are_refused():
    def row(cluster: str) -> dict[str, str]:
        return {"instruction": "Why?", "output": "a", "generator": "x", "cluster": cluster}

    problem = r"^baseline: 'Why\?' is in the cluster '2', and in '1' in candidate; correct one of them$"
    with pytest.raises(InputError, match=problem):
        run_of_answers("runs/x", [[row("1")]], [row("2")])
    run_of_answers("runs/x", [[row("1")]], [row("")])
