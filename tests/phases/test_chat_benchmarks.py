"""`instruct run`: Arena-Hard and MT-Bench with a judge on a server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from instruct.data.evaluation import load_answers
from instruct.judging.store import JudgmentStore
from instruct.run.directory import RunDirectory

# lmarena/arena-hard-auto, show_result.py: label_to_score with weight 3, as seen by the answer shown first.
BATTLES = {"A>>B": [1] * 3, "A>B": [1], "A=B": [0.5], "B>A": [0], "B>>A": [0] * 3}


def write_lines(path: str, rows: list[dict]) -> dict[str, list[str]]:
    Path("data", path).parent.mkdir(parents=True, exist_ok=True)
    Path("data", path).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return {"files": [path]}


def write_cards() -> None:
    """./data with both benchmarks' cards, and files in the form in which they are published."""
    numbers = [str(number) for number in range(20)]
    arena = [{"uid": n, "category": "arena-hard-v0.1", "cluster": "c", "prompt": f"Plan day {n}."} for n in numbers]
    told = [
        {"uid": n, "model": "gpt-4-0314", "messages": [{"role": "assistant", "content": {"answer": f"Rest {n}."}}]}
        for n in numbers
    ]
    turns = [
        {
            "question_id": int(n),
            "category": ("math", "writing")[int(n) % 2],
            "turns": [f"What is {n}+1?", f"Twice {n}?"],
        }
        for n in numbers
    ]
    references = [{"question_id": int(n), "choices": [{"turns": ["So.", "And so."]}]} for n in numbers[::2]]
    cards = {
        "arena_hard": {"source": write_lines("arena.jsonl", arena), "baseline": write_lines("gpt4.jsonl", told)},
        "mt_bench": {"source": write_lines("mt.jsonl", turns)},
    }
    write_lines("reference_answer/gpt-4.jsonl", references)
    for name, files in cards.items():
        content = yaml.safe_load((Path(__file__).parents[2] / "data" / f"{name}.yaml").read_text(encoding="utf-8"))
        Path("data", f"{name}.yaml").write_text(yaml.safe_dump(content | files), encoding="utf-8")


@pytest.fixture
def run_on(fake_server, instruct, tmp_path, monkeypatch, tiny_model, tiny_adapters):
    """`run_on(set, limit, judges)`: the run's two systems on a benchmark; the run, and its judges' comparisons."""
    monkeypatch.chdir(tmp_path)
    write_cards()
    url, _ = fake_server()

    def run(name: str, limit: int, *judges: str) -> tuple[RunDirectory, dict]:
        generation = {"max_new_tokens": 12, "engine": "transformers"}
        config = {
            "name": "chat",
            "model": {"name": str(tiny_model)},
            "systems": {system: {"adapter": str(folder)} for system, folder in tiny_adapters.items()},
            "answers": {"eval_set": name, "limit": limit, "generation": generation},
            "judges": [{"card": card, "base_url": url} for card in judges],
            "comparisons": [["emo", "mle"]],
        }
        Path("chat.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        code, _, err = instruct("run", "chat.yaml", "--from", "answer")
        assert code == 0, err
        report = json.loads(Path("runs/chat/report/report.json").read_text(encoding="utf-8"))
        found = {judge["name"]: judge["comparisons"][0] for judge in report["judges"]}
        assert not any(comparison["partial"] for comparison in found.values())
        return RunDirectory("runs/chat"), found

    return run


def judgments_of(run: RunDirectory, judge: str) -> tuple[list, dict]:
    """A judge's judgments, and its replies by their keys."""
    with JudgmentStore(run.store) as store:
        (key,) = [key for key in store.comparisons() if key.judge == judge]
        judged = store.judgments(key)
        return judged, store.completions(part for one in judged for part in one.key.split())


@pytest.mark.slow
def test_arena_hards_win_rate_is_the_score_of_its_leaderboard(run_on):
    run, judges = run_on("arena_hard", 20, "arena_hard")
    assert len(load_answers("runs/chat/outputs/emo.json")) == 20
    made = judges["arena_hard"]
    assert made["pairs_judged"] == 20
    judged, texts = judgments_of(run, "arena_hard")
    battles = [(one.position, BATTLES[texts[one.key].text[6:-2]]) for one in judged if one.key]
    battles += [("first", [0.5]) for one in judged if not one.key]  # equal answers
    scores = [s if position == "first" else 1 - s for position, each in battles for s in each]
    rate = 100 * sum(scores) / len(scores)
    assert made["claim"]["value"] == pytest.approx(rate, abs=1e-6)


@pytest.mark.slow
def test_mt_benchs_turns_are_judged_as_conversations(run_on):
    run, judges = run_on("mt_bench", 10, "mt_bench", "mt_bench_single")
    assert len(load_answers("runs/chat/outputs/emo.json")) == 2 * 10
    assert {name: made["pairs_judged"] for name, made in judges.items()} == {"mt_bench": 20, "mt_bench_single": 20}
    claim = judges["mt_bench"]["claim"]
    assert (claim["n"], claim["params"]["clusters"]) == (20, 10)
    assert claim["test"] == "sign in clusters"
    assert {part["dataset"] for part in judges["mt_bench"]["parts"]} == {"math", "writing"}
    ratings = [one.ratings for one in judgments_of(run, "mt_bench_single")[0] if one.ratings]
    means = [sum(side) / len(ratings) for side in zip(*ratings, strict=True)]
    found = judges["mt_bench_single"]["ratings"]
    assert [found["candidate"], found["baseline"]] == pytest.approx(means, abs=1e-6)
