"""The judgments of Arena-Hard and MT-Bench, in and out: the same figures as their own scripts."""

from __future__ import annotations

import json
import random

import pytest
from imported import import_into_run

from instruct.reporting.report import written_report

BATTLES = {"A>>B": [1] * 3, "A>B": [1], "A=B": [0.5], "B>A": [0], "B>>A": [0] * 3}
CHOICES = (*BATTLES, None)


@pytest.fixture
def lines(tmp_path):
    def write(rows: list[dict]) -> str:
        path = tmp_path / "judgments.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return str(path)

    return write


def arena_rows(count: int) -> list[dict]:
    draw = random.Random(1)
    about = {"category": "arena-hard-v0.1", "judge": "gpt-4-1106-preview", "model": "emo", "baseline": "gpt-4-0314"}
    return [
        {"uid": f"u{n}", **about}
        | {"games": [{"score": (s := draw.choice(CHOICES)), "judgment": {"answer": f"So [[{s}]]"}} for _ in range(2)]}
        for n in range(count)
    ]


def figures(run):
    [judge] = written_report(run.folder).judges
    [comparison] = judge.comparisons
    return judge.name, comparison.claim


def test_arena_hard_judgments_have_the_score_of_show_result(lines, tmp_path) -> None:
    rows = arena_rows(60)
    run = import_into_run(lines(rows), tmp_path / "run")
    name, found = figures(run)
    both = [[game["score"] for game in row["games"]] for row in rows]
    kept = [games for games in both if None not in games]
    official = [s for games in kept for s in [*BATTLES[games[1]], *(1 - s for s in BATTLES[games[0]])]]
    assert name == "arena_hard"
    assert found.value == pytest.approx(100 * sum(official) / len(official), abs=1e-6)
    assert found.counts.unparsed == len(both) - len(kept)


def test_mt_bench_judgments_have_the_adjusted_win_rate_of_show_result(lines, tmp_path) -> None:
    draw = random.Random(2)
    rows = [
        {
            "question_id": n // 2 + 81,
            "turn": n % 2 + 1,
            "judge": ["gpt-4", "mt_bench"],
            "model_1": "emo",
            "model_2": "mle",
        }
        | {f"g{game}_winner": draw.choice(["model_1", "model_2", "tie", "error"]) for game in (1, 2)}
        | {f"g{game}_judgment": f"told {n}" for game in (1, 2)}
        for n in range(60)
    ]
    run = import_into_run(lines(rows), tmp_path / "run")
    name, found = figures(run)
    both = [(row["g1_winner"], row["g2_winner"]) for row in rows]
    kept = [games for games in both if "error" not in games]
    won = sum(games == ("model_1", "model_1") for games in kept)
    ties = sum(games[0] == "tie" or games[0] != games[1] for games in kept)
    assert (name, found.n) == ("mt_bench", len(kept))
    assert found.value == pytest.approx(100 * (won + ties / 2) / len(kept), abs=1e-6)


def rating_rows() -> list[dict]:
    draw = random.Random(3)
    return [
        {"question_id": n // 2 + 81, "turn": n % 2 + 1, "judge": ["gpt-4", "mt_bench_single"], "model": model}
        | {"score": draw.choice([1, 4.5, 8, 10]), "judgment": f"told {model} {n}"}
        for n in range(40)
        for model in ("emo", "mle")
    ]


def test_mt_bench_ratings_have_the_means_of_show_result(lines, tmp_path) -> None:
    import pandas

    rows = rating_rows()
    frame = pandas.DataFrame(rows)
    run = import_into_run(lines(rows), tmp_path / "run", baseline="mle")
    [judge] = written_report(run.folder).judges
    [comparison] = judge.comparisons
    assert (judge.name, comparison.candidate, comparison.baseline) == ("mt_bench_single", "emo", "mle")
    overall, by_turn = (frame.groupby(by)["score"].mean() for by in ("model", ["model", "turn"]))
    found = comparison.ratings
    assert (found.candidate, found.baseline) == pytest.approx((overall["emo"], overall["mle"]), abs=1e-6)
    for number, turn in enumerate(found.turns, start=1):
        expected = by_turn["emo", number], by_turn["mle", number]
        assert (turn.candidate, turn.baseline) == pytest.approx(expected, abs=1e-6)


def test_a_pair_of_arena_hard_with_one_game_is_unparsed_and_counted(lines, tmp_path, caplog) -> None:
    rows = [row | {"games": [{"score": "A>B", "judgment": {"answer": "So [[A>B]]"}}] * 2} for row in arena_rows(6)]
    rows[2]["games"] = rows[2]["games"][:1]
    rows[3]["games"] = [None, rows[3]["games"][1]]
    _, found = figures(import_into_run(lines(rows), tmp_path / "run"))
    assert (found.counts.unparsed, found.n) == (2, 4)
    assert "judgments.jsonl: 1 of 6 rows without two games; their pairs are unparsed" in caplog.text
