"""The judgments of Arena-Hard and MT-Bench, in and out: the same figures as their own scripts."""

from __future__ import annotations

import json
import random

import pytest

from instruct.base.errors import InputError
from instruct.judging.interchange.exchange import export_from_run, import_into_run
from instruct.phases.report import written_report

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
    return judge.name, comparison.policies[comparison.leading]


def test_arena_hard_judgments_have_the_score_of_show_result(lines, tmp_path) -> None:
    rows = arena_rows(60)
    run = import_into_run(lines(rows), tmp_path / "run")
    name, found = figures(run)
    both = [[game["score"] for game in row["games"]] for row in rows]
    kept = [games for games in both if None not in games]
    official = [s for games in kept for s in [*BATTLES[games[1]], *(1 - s for s in BATTLES[games[0]])]]
    assert name == "arena_hard"
    assert found.win_rate == pytest.approx(100 * sum(official) / len(official), abs=1e-6)
    assert found.unparsed == len(both) - len(kept)
    assert export_from_run(run, "arena_hard", tmp_path / "out.jsonl", leaderboard=True) == 60
    assert [json.loads(line) for line in (tmp_path / "out.jsonl").open(encoding="utf-8")] == rows


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
    assert (name, found.n_judged) == ("mt_bench", len(kept))
    assert found.win_rate == pytest.approx(100 * (won + ties / 2) / len(kept), abs=1e-6)
    assert export_from_run(run, "mt_bench", tmp_path / "out.jsonl", leaderboard=True) == 60
    assert [json.loads(line) for line in (tmp_path / "out.jsonl").open(encoding="utf-8")] == rows


def test_files_that_cannot_be_read_are_refused(lines, tmp_path) -> None:
    [row] = arena_rows(1)
    for change, message in [
        ({"games": row["games"][:1]}, "row 1: games: must be two"),
        ({"games": [{"score": "A?B"}, row["games"][1]]}, r"'A\?B' is no label of arena_hard"),
        ({"baseline": None}, "row 1: baseline: "),
        ({"baseline": "emo"}, "both systems are called 'emo'"),
    ]:
        with pytest.raises(InputError, match=message):
            import_into_run(lines([row | change]), tmp_path / "run")
    with pytest.raises(InputError, match="row 2: 'u0' is already in row 1"):
        import_into_run(lines([row, row]), tmp_path / "run")
    del row["baseline"]
    with pytest.raises(InputError, match="name it with --baseline, such as gpt-4-0314"):
        import_into_run(lines([row]), tmp_path / "run")
    named = import_into_run(lines([row]), tmp_path / "named", baseline="gpt-4-0314")
    assert (named.folder / "judgments.sqlite").is_file()
