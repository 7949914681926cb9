"""Verdicts of judges in other tools' files: the figures that the tools and their leaderboards publish."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from json_files import write_json
from log_samples import annotations, arena_hard, paired, rated

from instruct.base.errors import InputError
from instruct.logs.read import read_logs

SHARED = Path(os.environ.get("INSTRUCT_SHARED_DATA", "")) / "alpaca_eval"
BATTLES = {"A>>B": [1] * 3, "A>B": [1], "A=B": [0.5], "B>A": [0], "B>>A": [0] * 3}


def read_rows(rows: list[dict], path: Path) -> list:
    return read_logs(write_json(path, rows)).logs


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs INSTRUCT_SHARED_DATA")
@pytest.mark.parametrize(
    ("judge", "rate"), [("alpaca_eval_gpt4", 26.459627), ("weighted_alpaca_eval_gpt4_turbo", 2.591451)]
)
def test_published_annotations_have_their_published_win_rate(judge, rate) -> None:
    found = read_logs(SHARED / f"alpaca-7b.{judge}.annotations.json")
    [log] = found.logs
    assert (log.system, log.settings["judge"], len(log.units)) == ("alpaca-7b", judge, 805)
    assert 100 * log.mean("win rate") == pytest.approx(rate, abs=5e-7)


def test_annotations_have_the_win_rate_of_the_leaderboard_beside_them(tmp_path) -> None:
    draw = random.Random(49)
    won = [draw.random() for _ in range(49)]
    rows = annotations([None, *(1 + share for share in won)])
    rate, discrete = 100 * sum(won) / 49, 100 * sum(share > 0.5 for share in won) / 49
    header = ",win_rate,standard_error,n_total,discrete_win_rate,length_controlled_winrate"
    leaderboard = tmp_path / "leaderboard.csv"
    leaderboard.write_text(f"{header}\nother,1.0,0.1,50,2.0,\ntuned,{rate},0.1,49,{discrete},12.5\n")
    [log] = read_rows(rows, tmp_path / "annotations.json")
    others = {"length_controlled_winrate": 0.125, "discrete_win_rate": discrete / 100}
    assert (log.figures, log.unpaired) == ({"win rate": rate / 100} | others, [*others])
    assert log.reasons == {"failed: the file has neither a reply of the judge nor a preference": 1}
    assert read_logs(tmp_path).unknown == {}
    leaderboard.write_text(f"{header}\ntuned,50.0,0.1,49,,\n")
    with pytest.raises(InputError, match=r"leaderboard.csv, row 1: win rate of .* is 0.5, but the rows of annotations"):
        read_logs(tmp_path)


def test_annotations_of_several_systems_and_repeated_instructions_are_told_apart(tmp_path) -> None:
    rows = [row | {"id": n, "instruction": "Q?"} for n, row in enumerate(annotations([1, 2, 1, 2]))]
    rows += [row | {"generator_2": "later"} for row in rows]
    first, second = read_rows(rows, tmp_path / "annotations.json")
    assert (first.system, second.system, first.task) == ("tuned", "later", "win against base by judge")
    assert first.units == ["0", "1", "2", "3"]
    assert first.clusters == ["Q?"] * 4
    with pytest.raises(InputError, match=r"row 2: .* is already in row 1"):
        read_rows(annotations([1]) * 2, tmp_path / "twice.json")


DRAW = random.Random(1)
VERDICTS = [tuple(DRAW.choice((*BATTLES, None)) for _ in range(2)) for _ in range(60)]
OLD = arena_hard(VERDICTS, judge="gpt-4-1106-preview")


@pytest.mark.parametrize(
    ("rows", "task"),
    [
        (arena_hard(VERDICTS, category="hard_prompt", baseline="o3"), "Arena-Hard hard_prompt against o3"),
        ([{"question_id": row.pop("uid")} | row for row in OLD], "Arena-Hard against its baseline"),
    ],
)
def test_arena_hard_has_the_share_of_both_games_and_the_score_of_show_result(rows, task, tmp_path) -> None:
    questions = [{("uid" if "uid" in rows[0] else "question_id"): f"u{n}", "prompt": f"Q{n}?"} for n in range(60)]
    write_json(tmp_path / "question.jsonl", questions)
    [log] = read_rows(rows, tmp_path / "model_judgment" / "judge" / "tuned.jsonl")
    assert log.texts[3] == ("Q3?", "")
    official = [[*BATTLES[b], *(1 - s for s in BATTLES[a])] if a and b else [] for a, b in VERDICTS]
    flat = [share for shares in official for share in shares]
    assert (log.system, log.task, log.settings["judge"]) == ("tuned", task, rows[0]["judge"])
    assert [*log.values["win rate"]] == pytest.approx(
        [sum(shares) / len(shares) if shares else float("nan") for shares in official], nan_ok=True
    )
    assert log.reasons == {"unparsed: the reply holds no verdict": official.count([])}
    assert log.figures["score"] == pytest.approx(sum(flat) / len(flat))
    assert log.unpaired == ["score"]


def test_ratings_have_the_means_of_show_result(tmp_path) -> None:
    given = {model: random.Random(model).choices([-1, 1, 7.5], k=40) for model in ("base", "tuned")}
    rows = [row for model, scores in given.items() for row in rated(scores, model=model)]
    write_json(tmp_path / "question.jsonl", [{"question_id": 81, "turns": ["One?", "Two?"]}])
    logs = read_rows(rows, tmp_path / "model_judgment" / "gpt-4_single.jsonl")
    assert logs[0].texts[:3] == [("One?", ""), ("Two?", ""), ("", "")]
    for log in logs:
        scores = given[log.system]
        kept = [score for score in scores if score != -1]
        assert log.mean("rating") == pytest.approx(sum(kept) / len(kept), abs=1e-12)
        assert log.reasons == {"no rating in the judge's reply": scores.count(-1)}
    assert logs[0].units[:2] == ["81, turn 1", "81, turn 2"]
    assert logs[0].clusters[:3] == ["81", "81", "82"]
    assert logs[0].task == "MT-Bench by gpt-4"


def test_pairs_have_the_adjusted_win_rate_of_show_result_for_both_models(tmp_path) -> None:
    draw = random.Random(3)
    games = [tuple(draw.choices(["model_1", "model_2", "tie", "error"], k=2)) for _ in range(40)]
    tuned, base = read_rows(paired(games), tmp_path / "gpt-4_pair.jsonl")
    kept = [pair for pair in games if "error" not in pair]
    won, lost = (kept.count((name, name)) for name in ("model_1", "model_2"))
    adjusted = (won + (len(kept) - won - lost) / 2) / len(kept)
    assert tuned.task == base.task == "MT-Bench, tuned against base by gpt-4"
    assert (tuned.system, base.system, tuned.clusters[:3]) == ("tuned", "base", ["81", "81", "82"])
    assert (tuned.mean("win rate"), base.mean("win rate")) == pytest.approx((adjusted, 1 - adjusted))
    assert tuned.reasons == {"unparsed: the reply holds no verdict": len(games) - len(kept)}
