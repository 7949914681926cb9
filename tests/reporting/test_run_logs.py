"""Runs compared like the logs of other tools: verdicts against one opponent, tasks, and seeds."""

import json
import shutil

import numpy as np
import pytest
from pages import LOSS, TIE, UNREAD, WIN

from instruct import compare_logs
from instruct.analysis.inference import mean_score
from instruct.base.errors import InputError
from instruct.base.files import write_atomically
from instruct.judging.cards import load_judge_card
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
    judge_pairs([WIN] * 14 + [TIE, UNREAD] + [LOSS] * 4, judged=second)
    return run, second


def rewrite(path, change):
    content = json.loads(path.read_text())
    change(content)
    write_atomically(path, json.dumps(content))


def test_verdicts_of_a_common_judge_have_a_paired_difference(two):
    (claim,) = compare_logs([run.folder for run in two]).claims
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
        compare_logs([run.folder for run in two])
