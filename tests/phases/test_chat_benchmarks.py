"""`instruct run`: the demo, Arena-Hard and MT-Bench with a judge on a server end in one report."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from instruct.data.evaluation import load_answers
from instruct.judging.interchange.exchange import export_from_run
from instruct.judging.store import open_store
from instruct.run.directory import RunDirectory

# lmarena/arena-hard-auto, show_result.py: label_to_score with weight 3, as seen by the answer shown first.
BATTLES = {"A>>B": [1] * 3, "A>B": [1], "A=B": [0.5], "B>A": [0], "B>>A": [0] * 3}


def write_lines(path: str, rows: list[dict]) -> dict[str, list[str]]:
    Path("data").mkdir(exist_ok=True)
    Path("data", path).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return {"files": [path]}


def write_cards() -> None:
    """./data with both benchmarks' cards, and files in the form in which they are published."""
    numbers = [str(number) for number in range(80)]
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
        "mt_bench": {"source": write_lines("mt.jsonl", turns), "reference": write_lines("ref.jsonl", references)},
    }
    for name, files in cards.items():
        content = yaml.safe_load((Path(__file__).parents[2] / "data" / f"{name}.yaml").read_text(encoding="utf-8"))
        Path("data", f"{name}.yaml").write_text(yaml.safe_dump(content | files), encoding="utf-8")


def run_config(url: str) -> dict:
    on_server = {"base_url": url, "concurrency": 16}
    return {
        "extends": str(Path(__file__).parents[2] / "recipes" / "configs" / "demo.yaml"),
        "name": "chat",
        # Enough for the two systems to answer differently.
        "train": {"max_steps": 2, "learning_rate": 5e-3, "per_device_train_batch_size": 2, "max_length": 128},
        "answers": {
            "eval_set": "starter_eval[:4],arena_hard[:20],mt_bench[:10]",
            "limit": None,
            "generation": {"max_new_tokens": 12, "batch_size": 24, "engine": "transformers"},
        },
        "judges": [
            {"card": "smollm2_score", "eval_sets": ["starter_eval"]},
            {"card": "arena_hard", "eval_sets": ["arena_hard"], **on_server},
            {"card": "mt_bench", "eval_sets": ["mt_bench"], "comparisons": [["emo", "mle"]], **on_server},
            {"card": "mt_bench_single", "eval_sets": ["mt_bench"], "comparisons": [["emo", "mle"]], **on_server},
        ],
    }


@pytest.mark.slow
def test_the_demo_with_arena_hard_and_mt_bench_ends_in_one_report(fake_server, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    write_cards()
    url, _ = fake_server()
    Path("chat.yaml").write_text(yaml.safe_dump(run_config(url)), encoding="utf-8")
    command = [sys.executable, "-m", "instruct", "run", "chat.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = load_answers("runs/chat/outputs/emo.json")
    assert len(rows) == 4 + 20 + 2 * 10
    report = json.loads(Path("runs/chat/report/report.json").read_text(encoding="utf-8"))
    judges = {judge["name"]: judge["comparisons"] for judge in report["judges"]}
    pairs = {name: [comparison["pairs_judged"] for comparison in made] for name, made in judges.items()}
    assert pairs == {"smollm2_score": [4] * 3, "arena_hard": [20] * 3, "mt_bench": [20], "mt_bench_single": [20]}
    assert not any(comparison["partial"] for made in judges.values() for comparison in made)

    # Judges of different sets have no majority, and turns of one question are not independent.
    assert [sorted(panel["policies"]) for panel in report["panels"]] == [["mt_bench", "mt_bench_single"]]
    figures = judges["mt_bench"][0]["policies"][judges["mt_bench"][0]["leading"]]
    assert (figures["n"], figures["conversations"]) == (20, 10)
    assert figures["claim"]["test"] == "mean"
    assert "conversations" not in judges["smollm2_score"][1]["policies"]["single"]
    assert "in 10 clusters" in done.stdout

    run, official = RunDirectory("runs/chat"), {}
    with open_store(run) as store:
        for key in store.comparisons():
            judged = store.judgments(key)
            texts = store.completions(part for one in judged for part in one.key.split())
            if key.judge == "arena_hard":
                battles = [(one.position, BATTLES[texts[one.key].text[6:-2]]) for one in judged if one.key]
                battles += [("first", [0.5]) for one in judged if not one.key]  # equal answers
                scores = [s if position == "first" else 1 - s for position, each in battles for s in each]
                official[key.candidate, key.baseline] = 100 * sum(scores) / len(scores)
            if key.judge == "mt_bench_single":
                ratings = [one.ratings for one in judged if one.ratings]
                means = [sum(side) / len(ratings) for side in zip(*ratings, strict=True)]
    for made in judges["arena_hard"]:
        rate = official[made["candidate"], made["baseline"]]
        assert made["policies"][made["leading"]]["win_rate"] == pytest.approx(rate, abs=1e-6)
        own = {"candidate": made["candidate"], "baseline": made["baseline"], "leaderboard": True}
        assert export_from_run(run, "arena_hard", "arena.jsonl", **own) == 20
        rows = [json.loads(line) for line in Path("arena.jsonl").read_text(encoding="utf-8").splitlines()]
        games = [[BATTLES[game["score"]] for game in row["games"]] for row in rows]
        scores = [s for baseline_first, other in games for s in [*other, *(1 - s for s in baseline_first)]]
        assert 100 * sum(scores) / len(scores) == pytest.approx(rate, abs=1e-6)
        assert [row["uid"] for row in rows] == [str(number) for number in range(20)]
    assert export_from_run(run, "mt_bench_single", "single.jsonl", leaderboard=True) == 40
    rows = [json.loads(line) for line in Path("single.jsonl").read_text(encoding="utf-8").splitlines()]
    rated = [[row["score"] for row in rows if row["model"] == name and row["score"] > 0] for name in ("emo", "mle")]
    assert [sum(scores) / len(scores) for scores in rated] == pytest.approx(means, abs=1e-6)
    assert {(row["question_id"], row["turn"]) for row in rows} == {(n, turn) for n in range(10) for turn in (1, 2)}
    found = judges["mt_bench_single"][0]["ratings"]
    assert [found["candidate"], found["baseline"]] == pytest.approx(means, abs=1e-6)
    assert {part["dataset"] for part in judges["mt_bench"][0]["parts"]} == {"mt_bench/math", "mt_bench/writing"}
