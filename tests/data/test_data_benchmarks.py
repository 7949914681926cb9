"""Chat benchmarks as evaluation sets: Arena-Hard, MT-Bench and IFEval, as they are published."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
import yaml

from instruct.data.evaluation import load_eval_set


@pytest.fixture
def card(tmp_path, monkeypatch):
    """A copy of a card in ./data, that reads local files."""
    monkeypatch.chdir(tmp_path)

    def copy(name: str, source: Path, **more) -> None:
        content = yaml.safe_load((Path(__file__).parents[2] / "data" / f"{name}.yaml").read_text(encoding="utf-8"))
        content |= {"source": {"files": [str(source)]}} | more
        Path("data").mkdir(exist_ok=True)
        Path("data", f"{name}.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")

    return copy


def files(*paths: Path) -> dict[str, list[str]]:
    return {"files": [str(path) for path in paths]}


def test_arena_hard_is_read_with_its_baseline(shared_data, card):
    folder = shared_data / "arena_hard"
    card("arena_hard", folder / "v0.1.question.jsonl", baseline=files(folder / "v0.1.gpt-4-0314.jsonl"))
    found = load_eval_set("arena_hard")
    assert (len(found.prompts), found.baseline_name) == (500, "gpt-4-0314")
    assert {prompt.dataset for prompt in found.prompts} == {"arena-hard-v0.1"}
    published = {
        row["uid"]: row["messages"][-1]["content"]["answer"]
        for row in map(json.loads, (folder / "v0.1.gpt-4-0314.jsonl").open(encoding="utf-8"))
    }
    answers = [published[prompt.id] for prompt in found.prompts]
    assert [row["output"] for row in found.baseline] == answers


def test_each_category_of_arena_hard_v2_has_its_own_baseline(tmp_path, card):
    def answer(uid: str, model: str) -> dict:
        said = {"role": "assistant", "content": {"answer": f"{model} {uid}"}}
        return {"uid": uid, "model": model, "messages": [said]}

    questions = [{"uid": uid, "category": name, "prompt": f"Q{uid}"} for uid, name in (("1", "hard"), ("2", "poems"))]
    for name, rows in {"q": questions, "o3": [answer("1", "o3")], "gemini": [answer("2", "gemini")]}.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    of = {"hard": files(tmp_path / "o3.jsonl"), "poems": files(tmp_path / "gemini.jsonl")}
    card("arena_hard_v2", tmp_path / "q.jsonl", baseline=of)
    assert [row["output"] for row in load_eval_set("arena_hard_v2").baseline] == ["o3 1", "gemini 2"]


def test_mt_bench_has_two_turns_and_references(shared_data, card):
    asked, told = (
        (shared_data / "mt_bench" / f"{name}.jsonl").read_text(encoding="utf-8")
        for name in ("question", "reference_gpt-4")
    )
    Path("reference_answer").mkdir()
    Path("reference_answer/gpt-4.jsonl").write_text(told, encoding="utf-8")
    Path("question.jsonl").write_text(asked, encoding="utf-8")
    card("mt_bench", Path("question.jsonl").resolve())
    found = load_eval_set("mt_bench")
    referenced = [prompt for prompt in found.prompts if prompt.reference]
    assert Counter(prompt.dataset for prompt in referenced) == {"math": 10, "reasoning": 10, "coding": 10}
    assert {len(prompt.later) for prompt in found.prompts} == {1}
    official = {str(row["question_id"]): (*row["choices"][0]["turns"],) for row in map(json.loads, told.splitlines())}
    assert {prompt.id: prompt.reference for prompt in referenced} == official
    math = next(prompt for prompt in found.prompts if prompt.reference)
    first, second = math.answered(["one", "two"], "m")
    assert (first["id"], first["reference"]) == (f"{math.id}, turn 1", [math.reference[0]])
    assert (second["id"], second["reference"]) == (f"{math.id}, turn 2", [*math.reference])
    assert [message["content"] for message in second["earlier"]] == [math.instruction, "one"]
    assert second["instruction"] == math.later[0]
