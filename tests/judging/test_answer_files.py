"""Files of answers, compared without a run of one's own."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from _pytest.monkeypatch import MonkeyPatch

from instruct.base.errors import InputError
from instruct.data.evaluation import AnswerForm, load_answers
from instruct.data.prompts import conversations
from instruct.judging.answer_files import run_of_answers
from instruct.judging.store import JudgmentStore
from instruct.run.directory import RunDirectory


def answers(path: Path, outputs: list[str], generator: str = "someone", question: str = "Question") -> Path:
    rows = [
        {"instruction": f"{question} {n}?", "output": text, "generator": generator} for n, text in enumerate(outputs)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows))
    return path


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_systems_are_called_like_their_files(tmp_path):
    ours, theirs = answers(Path("ours.json"), ["a", "b"]), answers(Path("theirs.model_outputs.json"), ["c", "d"])
    run, pairs = run_of_answers("runs/x", [ours], theirs)
    assert pairs == [("ours", "theirs")]
    assert {path.name: path.read_text() for path in run.outputs.iterdir()} == {
        "ours.json": ours.read_text(),
        "theirs.json": theirs.read_text(),
    }
    assert run.config()["name"] == "x"


def test_files_that_cannot_be_told_apart_are_refused():
    ours, theirs = (answers(Path(f"{name}/model_outputs.json"), [name]) for name in ("one", "two"))
    with pytest.raises(InputError, match="both are called 'someone'; rename one of the files"):
        run_of_answers("runs/x", [ours], theirs)
    assert not Path("runs").exists()


def test_the_same_files_continue_the_run_and_other_answers_are_refused():
    ours, theirs = answers(Path("ours.json"), ["a"]), answers(Path("theirs.json"), ["b"])
    run_of_answers("runs/x", [ours], theirs)
    run, *_ = run_of_answers("runs/x", [ours], theirs)
    kept = (run.outputs / "ours.json").read_text()
    answers(Path("ours.json"), ["another"])
    with pytest.raises(InputError, match=r"ours.json: .*outputs/ours.json has other answers; give another `output`"):
        run_of_answers("runs/x", [ours], theirs)
    assert (run.outputs / "ours.json").read_text() == kept


def test_answers_to_different_prompts_leave_no_run():
    ours, theirs = answers(Path("ours.json"), ["a"]), answers(Path("theirs.json"), ["b"], question="What")
    with pytest.raises(InputError, match=r"of the other side missing, .* all have: `common_prompts`$"):
        run_of_answers("runs/x", [ours], theirs)
    assert not Path("runs").exists()


def test_files_are_compared_with_each_other_or_each_with_the_baseline():
    files = [answers(Path(f"{name}.json"), [name, "same"]) for name in ("a", "b", "c")]
    assert run_of_answers("runs/all", files, None)[1] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert run_of_answers("runs/each", files[:2], files[2])[1] == [("a", "c"), ("b", "c")]


def test_prompts_that_not_all_files_have_are_left_out_on_demand(printed):
    """Also where the files are in another order, and where a third file lacks what two have."""
    files = [answers(Path(f"{name}.json"), [f"{name}{n}" for n in range(size)]) for name, size in
             (("a", 5), ("b", 3), ("c", 4))]  # fmt: skip
    files[2].write_text(json.dumps(json.loads(files[2].read_text())[:0:-1]))  # questions 3, 2, 1
    with pytest.raises(InputError, match=r"answers b: 2 prompts of the other side missing, first 'Question 3\?'"):
        run_of_answers("runs/x", files, None)
    assert not Path("runs").exists()
    run, pairs = run_of_answers("runs/x", files, None, common_prompts=True)
    assert len(pairs) == 3
    kept = {path.stem: [row["output"] for row in load_answers(path)] for path in sorted(run.outputs.iterdir())}
    assert kept == {"a": ["a1", "a2"], "b": ["b1", "b2"], "c": ["c2", "c1"]}
    assert printed.readouterr().out.splitlines() == [
        "a.json: 3 of 5 prompts left out, not in all files",
        "b.json: 1 of 3 prompts left out, not in all files",
        "c.json: 1 of 3 prompts left out, not in all files",
    ]
    run_of_answers("runs/x", files, None, common_prompts=True)  # continues
    other = answers(Path("d.json"), ["d"], question="What")
    with pytest.raises(InputError, match=r"a.json, .*d.json: no prompt is in all of them; give other files"):
        run_of_answers("runs/y", [*files, other], None, common_prompts=True)


def table(path: Path, rows: list[dict[str, str]], encoding: str, delimiter: str = ";") -> Path:
    with path.open("w", encoding=encoding, newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_columns_of_other_tools_are_named():
    rows = [{"prompt": f"Größe {n}?", "response": f"„so“ {n} €", "topic": "sizes"} for n in range(2)]
    excel = table(Path("excel.csv"), rows, "utf-8-sig")
    wide = table(Path("wide.csv"), rows, "utf-8", "\t")
    ours = answers(Path("ours.json"), ["a", "b"], question="Größe")
    with pytest.raises(
        InputError, match=r"wide.csv, row 1: no column 'instruction' \(columns: prompt, response, topic\); re"
    ):
        run_of_answers("runs/x", [wide], ours)
    with pytest.raises(InputError, match=r"wide.csv, row 1: no column 'output' .*name it as `response_column`$"):
        run_of_answers("runs/x", [wide], ours, AnswerForm(prompt="prompt"))
    with pytest.raises(InputError, match=r"ours.json, row 1: no column 'prmpt' \(columns: instruction, output, gen"):
        run_of_answers("runs/x", [ours], ours, AnswerForm(prompt="prmpt"))
    with pytest.raises(
        InputError, match=r"excel.csv, row 1: no column 'text' \(columns: prompt, response, topic\); co"
    ):
        run_of_answers("runs/x", [excel, wide], ours, AnswerForm("prompt", "response", cluster="text"))
    assert not Path("runs").exists()
    form = AnswerForm("prompt", "response", cluster="topic")
    run, pairs = run_of_answers("runs/x", [excel, wide], ours, form)
    assert pairs == [("excel", "ours"), ("wide", "ours")]
    for name in ("excel", "wide"):
        kept = load_answers(run.outputs / f"{name}.json")
        assert [(row["instruction"], row["output"], row["generator"]) for row in kept] == [
            ("Größe 0?", "„so“ 0 €", name), ("Größe 1?", "„so“ 1 €", name),
        ]  # fmt: skip
        assert {row["cluster"] for row in kept} == {"sizes"}
        without = load_answers(run.outputs / "ours.json")
        for both in ([*kept, *without], [*without, *kept]):  # one side that names it is enough
            assert set(conversations(both).values()) == {"cluster sizes"}


@pytest.fixture
def judge(reward_model: Path, instruct: Callable[..., tuple[int, str, str]]) -> Callable[..., tuple[int, str, str]]:
    """`judge(...)`: the command with a tiny reward model."""
    return lambda *arguments: instruct(
        "judge", "--judge", "skywork_reward", "--judge-model", reward_model, "--engine", "transformers", *arguments
    )


def test_all_pairs_of_files_are_judged_and_corrected_together(judge: Any, instruct: Any):
    files = [answers(Path(f"{name}.json"), [f"{name} {n}" * (n % 9) for n in range(1, size)]) for name, size in
             (("a", 24), ("b", 23), ("c", 22))]  # fmt: skip
    code, out, _ = judge("--files", *files, "--output", "runs/x", "--common-prompts")
    assert code == 0
    assert "a.json: 2 of 23 prompts left out, not in all files" in out
    assert "of row over column" in out
    report = json.loads(Path("runs/x/report/report.json").read_text())
    comparisons = report["judges"][0]["comparisons"]
    assert [(each["candidate"], each["baseline"]) for each in comparisons] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert {each["claim"]["claims"] for each in comparisons} == {3}
    assert {each["pairs_expected"] for each in comparisons} == {21}
    said = "compared on the common prompts of 3 files: 2 of 23 prompts of a and 1 of 22 prompts of b left out"
    assert {"severity": "claim", "text": said} in comparisons[0]["warnings"]
    page = Path("runs/x/report/report.html").read_text()
    assert said[1:] in " ".join(page.split())  # the page begins with a capital letter
    # The run knows its comparisons: another judge is asked about the same.
    code, out, _ = judge("runs/x", "--orders", "one")
    assert code == 0
    assert "better on" in instruct("compare", "runs/x")[1]


def test_two_files_and_a_server_are_enough(instruct: Any, fake_server: Any):
    """Without --judge and --output; other criteria are another judge."""
    url, requests_of = fake_server()
    for name in "ab":
        answers(Path(f"{name}.json"), [f"{name} {n}" for n in range(8)])
    call = ["judge", "--candidate", "a.json", "--baseline", "b.json", "--base-url", url]
    assert "it takes --judge or --judge-model" in instruct(*call)[2]
    assert not Path("runs").exists()
    run = RunDirectory("runs/a_vs_b")
    for number, criteria in enumerate([[], ["Brevity {first}"], ["Politeness"], ["Brevity {first}"]]):
        assert instruct(*call, "--judge-model", "m", *(f"--criteria={each}" for each in criteria))[0] == 0
        assert len(requests_of()) == 16 * min(number + 1, 3)
    report = json.loads((run.report / "report.json").read_text())
    judges = {judge["name"]: judge["comparisons"][0] for judge in report["judges"]}
    assert [name.partition("+")[:2] for name in judges] == [("pairwise@m", ""), *[("pairwise@m", "+")] * 2]
    assert [comparison["notes"][-1:] for comparison in judges.values()] == [
        [],
        ["rows without criteria of their own were judged by: Brevity {first}"],
        ["rows without criteria of their own were judged by: Politeness"],
    ]
    with JudgmentStore(run.store) as store:
        assert [len(store.judgments(key)) for key in store.comparisons()] == [16, 16, 16]
    assert {judge["model"] for judge in report["judges"]} == {"m"}  # and each has its card
    assert "another model than the card's" not in (run.report / "report.md").read_text()  # the card is for any
    code, _, error = instruct("judge", run.folder, "--judge", "pandalm", "--base-url", url, "--criteria", "Brevity")
    assert code == 2
    assert "judge pandalm: its prompt shows no criteria; use the judge pairwise" in error


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--files", "a.json"], "--files: one file has nothing to be compared with"),
        (["--files", "a.json", "--baseline", "./a.json"], "--files: one file has nothing to be compared with"),
        (["--files", "a.json", "b.json", "--candidate", "c.json"], "--output creates a run from files of answers"),
        (["--candidate", "a.json"], "--output creates a run from files of answers"),
        ([], "--output creates a run from files of answers"),
    ],
)
def test_a_wrong_call_of_files_is_refused(judge: Any, flags: list[str], message: str):
    answers(Path("a.json"), ["a"])
    code, _, error = judge(*flags, "--output", "runs/x")
    assert (code, error.count("\n")) == (2, 1)
    assert message in error
    assert not Path("runs").exists()


@pytest.mark.parametrize("flag", ["--common-prompts", "--prompt-column=p", "--files=a.json"])
def test_flags_about_files_need_files(judge: Any, flag: str):
    code, _, error = judge("runs/x", flag)
    assert code == 2
    assert f"{flag.partition('=')[0]} requires --output DIR, the run to create from files of answers" in error


def benchmark_answers(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_answers_of_mt_bench_are_joined_with_their_questions(tmp_path):
    questions = [{"question_id": n, "category": "math", "turns": [f"Ask {n}.", "And?"]} for n in (81, 82)]
    asked = str(benchmark_answers(Path("question.jsonl"), questions))

    def rows(model: str) -> list[dict[str, Any]]:
        return [
            {"question_id": n, "model_id": model, "choices": [{"index": 0, "turns": [f"{model} {n}", "So."]}]}
            for n in (81, 82)
        ]

    ours, theirs = (benchmark_answers(Path(f"{name}.jsonl"), rows(name)) for name in ("ours", "theirs"))
    run, pairs = run_of_answers("runs/x", [ours], theirs, AnswerForm(questions=asked))
    assert pairs == [("ours", "theirs")]
    kept = load_answers(run.outputs / "ours.json")
    read = [[row.get(name) for name in ("dataset", "instruction", "output", "generator", "earlier")] for row in kept]
    assert read[:2] == [
        ["math", "Ask 81.", "ours 81", "ours", None],
        ["math", "And?", "So.", "ours", [
            {"role": "user", "content": "Ask 81."}, {"role": "assistant", "content": "ours 81"},
        ]],
    ]  # fmt: skip
    other = rows("other")
    for changed, form, message in [
        (other, AnswerForm(), r"other.jsonl, row 1: has answers without their questions; .* of `questions`$"),
        ([other[0] | {"question_id": 83}], AnswerForm(questions=asked), r"row 1: question.jsonl has no question 83"),
        ([*other, other[0]], AnswerForm(questions=asked), r"row 3: other already answers '81' in row 1; remove one"),
        ([other[0] | {"choices": [{"turns": ["a"]}]}], AnswerForm(questions=asked), "row 1: has 1 answers to 2 turns"),
    ]:
        with pytest.raises(InputError, match=message):
            run_of_answers("runs/y", [benchmark_answers(Path("other.jsonl"), changed)], theirs, form)


def test_answers_of_arena_hard_have_their_questions(shared_data):
    folder = shared_data / "arena_hard"
    files = [folder / f"v0.1.{name}.jsonl" for name in ("gpt-4-0613", "gpt-4-0314")]
    run, _ = run_of_answers("runs/x", files[:1], files[1])
    kept = load_answers(run.outputs / "v0.1.gpt-4-0613.json")
    asked = [json.loads(line)["prompt"] for line in (folder / "v0.1.question.jsonl").open(encoding="utf-8")]
    assert {row["instruction"] for row in kept} == set(asked)


def test_files_that_put_a_prompt_in_different_clusters_are_refused():
    rows = [
        {"instruction": f"Question {n}?", "output": "a", "generator": "x", "cluster": str(n // 2)} for n in range(4)
    ]
    others = [row | {"output": "b", "cluster": ["0", "", "1", "2"][n]} for n, row in enumerate(rows)]
    problem = r"^baseline: 'Question 3\?' is in the cluster '2', and in '1' in candidate; correct one of them$"
    with pytest.raises(InputError, match=problem):
        run_of_answers("runs/x", [rows], others)
    run_of_answers("runs/x", [rows], [*others[:3], others[3] | {"cluster": ""}])
    for value, problem in (
        ("", r"row 1: 'cluster' is empty; give each row a cluster, of its own if it depends on none$"),
        (None, r"row 1: 'cluster' is empty; "),
        (1.5, r"row 1: cluster: must be text \(given: 1\.5\)"),
    ):
        Path("named.json").write_text(json.dumps([row | {"cluster": value} for row in rows]))
        with pytest.raises(InputError, match=problem):
            run_of_answers("runs/y", ["named.json"], others, AnswerForm(cluster="cluster"))
