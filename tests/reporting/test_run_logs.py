"""Runs compared like the logs of other tools: verdicts against one opponent, tasks, and seeds."""

import json
import shutil

import numpy as np
import pytest
import yaml
from kept_tasks import keep_task
from pages import LOSS, TIE, UNREAD, WIN

from instruct import compare_logs
from instruct.analysis.inference import mean_score
from instruct.base.errors import InputError
from instruct.base.files import write_atomically
from instruct.judging.cards import load_judge_card
from instruct.judging.store import Judgment, JudgmentStore
from instruct.reporting.run_logs import logs_of_run
from instruct.run.directory import RunDirectory


@pytest.fixture
def two(run, card, write_answers, judge_pairs, add_step):
    """Two runs of the same 20 prompts and baseline: 10 wins, 10 losses; 14 wins, a tie, an unparsed, 4 losses."""
    card("j")
    for name in ("emo", "mle"):
        write_answers(name, 20)
    add_step("judge/j/emo_vs_mle", inputs={"card": load_judge_card("j").sha256(), "answers": {}})
    second = RunDirectory(shutil.copytree(run.folder, run.folder.parent / "second"))
    judge_pairs([WIN] * 10 + [LOSS] * 10)
    store_verdicts(second, [WIN] * 14 + [TIE, UNREAD] + [LOSS] * 4)
    return run, second


def store_verdicts(run, verdicts, judge="j"):
    with JudgmentStore(run.store) as store:
        store.add_judgments(
            Judgment(judge, "emo", "mle", number, f"secret prompt {number}", "d", position, "k", verdict)
            for number, pair in enumerate(verdicts)
            for position, verdict in zip(("first", "second"), pair, strict=True)
        )


def rewrite(path, change):
    content = json.loads(path.read_text())
    change(content)
    write_atomically(path, json.dumps(content))


def compared(two, **arguments):
    return compare_logs([run.folder for run in two], **arguments)


def test_verdicts_of_a_common_judge_have_a_paired_difference(two):
    (claim,) = compared(two).claims
    names = (claim.task, claim.measure, claim.candidate, claim.baseline)
    assert names == ("j against mle", "win rate", "second", "small")
    ours = [1.0] * 14 + [0.5] + [0.0] * 4  # the sixteenth pair has no verdict
    theirs = [1.0] * 10 + [0.0] * 9
    assert (claim.n, claim.missing, claim.value) == (19, 1, pytest.approx(100 * (14.5 - 10) / 19))
    gains = np.array([a - b for a, b in zip(ours, theirs, strict=True)])
    bounds = [mean_score((1 + np.append(gains, end)[None]) / 2) for end in (0.0, 1.0)]
    assert claim.p == pytest.approx(max(each.p for each in bounds))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda run: rewrite(run.outputs / "mle.json", lambda rows: rows[3].update(output="another")), "another right"),
        (
            lambda run: rewrite(
                run.manifest_path, lambda m: m["steps"]["judge/j/emo_vs_mle"]["inputs"].update(card="f" * 64)
            ),
            r"other prompts .*judge card: ffffffffffff, not",
        ),
    ],
)
def test_another_opponent_or_judge_is_refused(two, change, problem):
    change(two[1])
    with pytest.raises(InputError, match=problem):
        compared(two)


def test_systems_of_one_run_are_seen_from_every_baseline(run, card, write_answers, judge_pairs):
    card("j")
    for name in ("a", "b", "mle"):
        write_answers(name, 12)
    for candidate, baseline, wins in (("a", "mle", 9), ("b", "mle", 4), ("a", "b", 8)):
        judge_pairs([WIN] * wins + [LOSS] * (12 - wins), candidate=candidate, baseline=baseline)
    means = {(log.task, log.system): log.mean("win rate") for log in logs_of_run(run.folder)}
    assert means == {
        ("j against mle", "a"): 0.75,
        ("j against mle", "b"): pytest.approx(1 / 3),
        ("j against b", "mle"): pytest.approx(2 / 3),
        ("j against b", "a"): pytest.approx(2 / 3),
    }


def test_seeds_of_a_run_are_trainings_of_one_system(run, card, write_answers, judge_pairs):
    card("j")
    config = run.config()
    names = [f"{system}-seed{seed}" for system in ("emo", "dft", "mle") for seed in (1, 2, 3)]
    config["systems"] = {name: {"objective": name[:3], "seed": int(name[-1])} for name in names}
    (run.folder / "config.yaml").write_text(yaml.safe_dump(config))
    for name in names:
        write_answers(name, 30)
    for seed in (1, 2, 3):
        for system, wins in (("emo", 20 + seed), ("dft", 12)):
            judge_pairs(
                [WIN] * wins + [LOSS] * (30 - wins), candidate=f"{system}-seed{seed}", baseline=f"mle-seed{seed}"
            )
    (claim,) = compare_logs([run.folder], baseline="dft").claims
    assert (claim.candidate, claim.trainings, claim.task) == ("emo", 3, "j against mle")
    assert claim.value == pytest.approx(100 * (22 - 12) / 30)


def test_tasks_of_runs_are_compared_row_by_row(run, tmp_path):
    runs = [run, RunDirectory(shutil.copytree(run.folder, tmp_path / "runs" / "second"))]
    for place, each in enumerate(runs):
        keep_task(each, "trec", "emo", [float(row % (2 + place) > 0) for row in range(40)])
    (claim,) = compare_logs({"one": runs[0].folder, "two": runs[1].folder}).claims
    assert (claim.task, claim.measure, claim.test, claim.n) == ("trec", "acc", "McNemar", 40)
    assert claim.value == pytest.approx(100 * (26 - 20) / 40)


def test_the_command_prints_the_claims_and_writes_files(instruct, two, tmp_path):
    files = [tmp_path / f"c.{ending}" for ending in ("md", "csv", "html", "json")]
    flags = [flag for file in files for flag in ("--output", file)]
    code, out, stderr = instruct("compare", *(run.folder for run in two), *flags)
    assert (code, stderr) == (0, "")
    assert out.startswith("j against mle: ")
    assert all(f"written: {file}" in out for file in files)
    assert json.loads(files[3].read_text())["claims"][0]["task"] == "j against mle"
    assert files[0].read_text().startswith("# Evaluations side by side")
    assert instruct("compare", *(run.folder for run in two), "--fail-under", "90")[0] == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["runs/small"], "all logs are of one system (emo)"),
        (["runs/small", "./runs/../runs/small"], "small/emo: given twice; name each log once"),
        (["runs/small", "runs/absent"], "runs/absent: no such file or folder"),
        (["runs/small", "runs/second", "--output", "c.txt"], "c.txt: the extension must be .md, .csv, .html or .json"),
        (["runs/small", "runs/second", "--train.epochs", "3"], "unexpected argument '--train.epochs'"),
        (["one=runs/small", "runs/second"], "runs/second: has no name, unlike others; write NAME=PATH for all"),
        (["one=runs/none", "two=runs/second"], "one=runs/none: no such file or folder runs/none"),
    ],
)
def test_a_wrong_call_is_refused_in_one_line(instruct, two, arguments, message):
    code, _, stderr = instruct("compare", *arguments)
    assert (code, stderr.count("\n")) == (2, 1)
    assert message in stderr
