"""Answers of a tiny model by transformers: files written, answers generated again, and recovery after a kill."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from instruct.base.errors import InputError
from instruct.base.models import ModelOptions
from instruct.data.evaluation import EvalPrompt, load_answers
from instruct.generation.answers import AnswerStats, GenerationConfig, generate_answers
from instruct.generation.journal import Journal

PROMPTS = [EvalPrompt(f"Say {'many ' * (i % 4)}words about the number {i}.", "tiny") for i in range(7)]
CONFIG = GenerationConfig(engine="transformers", max_new_tokens=24, batch_size=3)
Systems = dict[str, Path | None]


def outputs(folder: Path, name: str) -> list[str]:
    return [row["output"] for row in json.loads((folder / f"{name}.json").read_text())]


def journal_lines(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / f"{name}.batches.jsonl").read_text().splitlines()]


def test_base_and_adapters_answer_in_one_call(tiny_model: Path, tiny_adapters: dict[str, Path], tmp_path: Path) -> None:
    systems: Systems = {"mle": tiny_adapters["mle"], "base": None, "emo": tiny_adapters["emo"]}
    stats = generate_answers(ModelOptions(name=str(tiny_model)), systems, PROMPTS, "chat", CONFIG, tmp_path)
    assert list(stats) == ["mle", "base", "emo"]
    for name, stat in stats.items():
        rows = json.loads((tmp_path / f"{name}.json").read_text())
        assert [list(row) for row in rows] == [["dataset", "instruction", "output", "generator"]] * len(PROMPTS)
        assert [(row["instruction"], row["dataset"]) for row in rows] == [(p.instruction, p.dataset) for p in PROMPTS]
        assert {row["generator"] for row in rows} == {name}
        assert all(row["output"] == row["output"].strip() for row in rows)
        assert load_answers(tmp_path / f"{name}.json") == rows
        assert stat.n == len(PROMPTS)
        assert stat.engine.startswith("transformers ")
        assert 0 < stat.mean_tokens <= 24
        batches = journal_lines(tmp_path, name)[1:]
        assert [len(batch["texts"]) for batch in batches] == [3, 3, 1]
        assert [text for batch in batches for text in batch["texts"]] == outputs(tmp_path, name)
    assert len({tuple(outputs(tmp_path, name)) for name in systems}) == 3
    alone = tmp_path / "alone"
    generate_answers(ModelOptions(name=str(tiny_model)), {"base": None}, PROMPTS, "chat", CONFIG, alone)
    assert (alone / "base.json").read_bytes() == (tmp_path / "base.json").read_bytes()


def test_a_finished_call_starts_nothing_and_restores_a_lost_file(tiny_model: Path, tmp_path: Path) -> None:
    first = generate_answers(ModelOptions(name=str(tiny_model)), {"base": None}, PROMPTS, "alpaca", CONFIG, tmp_path)
    written = (tmp_path / "base.json").read_bytes()
    (tmp_path / "base.json").unlink()
    code = f"""
import sys
from pathlib import Path
from instruct.data.evaluation import EvalPrompt
from instruct.generation.answers import AnswerStats, GenerationConfig, generate_answers
from instruct.base.models import ModelOptions
stats = generate_answers(ModelOptions(name={str(tiny_model)!r}), {{"base": None}}, {PROMPTS!r}, "alpaca",
    GenerationConfig(max_new_tokens=24, batch_size=3, gpu_memory_utilization=0.5), Path({str(tmp_path)!r}))
print(not {{"torch", "transformers", "vllm"}} & set(sys.modules), stats["base"])
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == f"True {first['base']}"
    assert (tmp_path / "base.json").read_bytes() == written


def test_stats_cover_all_answers_in_the_journal(tiny_model: Path, tmp_path: Path) -> None:
    def answer() -> AnswerStats:
        return generate_answers(ModelOptions(name=str(tiny_model)), {"base": None}, PROMPTS, "chat", CONFIG, tmp_path)[
            "base"
        ]

    answer()
    path = tmp_path / "base.batches.jsonl"
    header, *batches = journal_lines(tmp_path, "base")
    tokens, finish = [[1, 2, 3], [4, 5, 6], [14]], [["stop"] * 3, ["length", "stop", "length"], ["length"]]
    batches = [
        batch | {"tokens": tokens[i], "finish": finish[i], "seconds": 30.0 * (i + 1)} for i, batch in enumerate(batches)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in (header, *batches)))
    assert answer() == AnswerStats(n=7, truncated=3, mean_tokens=5.0, engine=str(header["engine"]), minutes=3.0)


def test_a_change_that_affects_answers_starts_from_scratch(
    tiny_model: Path, tiny_adapters: dict[str, Path], tmp_path: Path
) -> None:
    adapter = tmp_path / "adapter"
    shutil.copytree(tiny_adapters["mle"], adapter)

    def fingerprint(prompts: list[EvalPrompt] = PROMPTS, config: GenerationConfig = CONFIG) -> object:
        generate_answers(ModelOptions(name=str(tiny_model)), {"a": adapter}, prompts, "chat", config, tmp_path)
        assert list(Journal(tmp_path / "a.batches.jsonl", "", []).batches()) == []
        return journal_lines(tmp_path, "a")[0]["fingerprint"]

    first = fingerprint()
    shutil.copytree(tiny_adapters["emo"], adapter, dirs_exist_ok=True)
    seen = [first, fingerprint()]
    seen.append(fingerprint([*PROMPTS[:-1], replace(PROMPTS[-1], instruction="Other.")]))
    assert json.loads((tmp_path / "a.json").read_text())[-1]["instruction"] == "Other."
    seen.append(fingerprint(config=CONFIG.model_copy(update={"max_new_tokens": 5})))
    assert max(t for line in journal_lines(tmp_path, "a")[1:] for t in line["tokens"]) <= 5
    assert len(set(seen)) == len(seen)


def test_a_full_model_can_be_a_system(tiny_model: Path, make_model: Callable[..., Path], tmp_path: Path) -> None:
    tuned = make_model(tmp_path / "tuned", seed=5)
    for path in tuned.glob("*token*"):  # the tokenizer of its base is used
        path.unlink()
    (tuned / "chat_template.jinja").unlink(missing_ok=True)
    stats = generate_answers(
        ModelOptions(name=str(tiny_model)), {"base": None, "tuned": tuned}, PROMPTS, "chat", CONFIG, tmp_path
    )
    assert isinstance(stats["tuned"], AnswerStats)
    assert outputs(tmp_path, "tuned") != outputs(tmp_path, "base")
    direct = tmp_path / "direct"
    make_model(tmp_path / "tuned", seed=5)
    generate_answers(ModelOptions(name=str(tuned)), {"base": None}, PROMPTS, "chat", CONFIG, direct)
    assert outputs(direct, "base") == outputs(tmp_path, "tuned")


def test_decoding_is_greedy_by_default_and_sampling_follows_the_seed(tiny_model: Path, tmp_path: Path) -> None:
    def answers(folder: str, **changes: float) -> list[str]:
        config = CONFIG.model_copy(update=changes)
        generate_answers(ModelOptions(name=str(tiny_model)), {"base": None}, PROMPTS, "chat", config, tmp_path / folder)
        return outputs(tmp_path / folder, "base")

    assert answers("a") == answers("b", seed=1)
    sampled = answers("c", temperature=1.0, top_p=0.9, seed=1)
    assert sampled == answers("d", temperature=1.0, top_p=0.9, seed=1)
    assert sampled != answers("e", temperature=1.0, top_p=0.9, seed=2)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_journal_cut_anywhere_resumes_to_the_same_answers(
    tiny_model: Path, tiny_adapters: dict[str, Path], tmp_path: Path, temperature: float
) -> None:
    config = CONFIG.model_copy(update={"temperature": temperature})
    path, file = tmp_path / "emo.batches.jsonl", tmp_path / "emo.json"

    def answer() -> None:
        generate_answers(
            ModelOptions(name=str(tiny_model)), {"emo": tiny_adapters["emo"]}, PROMPTS, "chat", config, tmp_path
        )

    answer()
    undisturbed, whole = file.read_bytes(), path.read_bytes()
    ends = [index + 1 for index, byte in enumerate(whole) if byte == ord("\n")]  # of the header and the three batches
    for cut in (0, ends[0] // 2, ends[0], ends[0] + 9, ends[1], ends[2] - 1, ends[2], ends[3] - 1):
        path.write_bytes(whole[:cut])
        file.unlink()
        answer()
        assert file.read_bytes() == undisturbed
        kept = max((end for end in ends if end <= cut), default=0)
        assert path.read_bytes()[:kept] == whole[:kept]


def test_answers_are_cut_at_the_context_length_and_too_long_prompts_are_named(tiny_model: Path, tmp_path: Path) -> None:
    prompts = [PROMPTS[0], EvalPrompt("x" * 440, "long"), EvalPrompt("x" * 460, "long")]
    config = CONFIG.model_copy(update={"max_new_tokens": 100})
    generate_answers(ModelOptions(name=str(tiny_model)), {"base": None}, prompts, "chat", config, tmp_path)
    (batch,) = journal_lines(tmp_path, "base")[1:]
    assert batch["tokens"][2] < batch["tokens"][1] < 100
    assert batch["tokens"][1] - batch["tokens"][2] == 20
    assert batch["finish"][1:] == ["length", "length"]
    prompts.append(EvalPrompt("y" * 600, "longer"))
    with pytest.raises(InputError, match=r"^longer: prompt 4 \('yyy.*\) has \d+ tokens, 512 hold prompt and answer"):
        generate_answers(ModelOptions(name=str(tiny_model)), {"base": None}, prompts, "chat", config, tmp_path)
    assert len(outputs(tmp_path, "base")) == 3  # a failed call removes nothing


def test_a_wrong_call_is_refused_in_one_line(tiny_model: Path, make_model: Callable[..., Path], tmp_path: Path) -> None:
    torn = tmp_path / "torn"
    shutil.copytree(tiny_model, torn)
    (torn / "model.safetensors").write_bytes((torn / "model.safetensors").read_bytes()[:1000])
    other = make_model(tmp_path / "other")
    settings = json.loads((other / "config.json").read_text()) | {"hidden_size": 48}
    (other / "config.json").write_text(json.dumps(settings))
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "adapter_config.json").write_text("{}")
    calls: list[tuple[str, Systems, list[EvalPrompt], GenerationConfig, str]] = [
        (str(tmp_path / "none"), {"base": None}, PROMPTS, CONFIG, "not a model folder"),
        (str(tmp_path), {"base": None}, PROMPTS, CONFIG, "no config.json"),
        (str(torn), {"base": None}, PROMPTS, CONFIG, "transformers cannot load it"),
        (str(other), {"base": None}, PROMPTS, CONFIG, "transformers cannot load it"),
        (str(tiny_model), {"a": tmp_path / "none"}, PROMPTS, CONFIG, "neither an adapter"),
        (str(tiny_model), {"a": tmp_path / "half"}, PROMPTS, CONFIG, "no adapter_model.safetensors"),
        (str(tiny_model), {"../a": None}, PROMPTS, CONFIG, "not a file name"),
        (str(tiny_model), {"a": None}, [], CONFIG, "no evaluation prompts"),
        (str(tiny_model), {"a": None}, PROMPTS, CONFIG.model_copy(update={"max_model_len": 999}), "reads 512 tokens"),
    ]
    for model, systems, prompts, config, said in calls:
        with pytest.raises(InputError) as caught:
            generate_answers(ModelOptions(name=model), systems, prompts, "chat", config, tmp_path / "out")
        assert said in str(caught.value)
        assert "\n" not in str(caught.value)
    assert not list((tmp_path / "out").glob("*"))


def test_an_adapter_of_a_different_base_model_is_refused(
    tiny_model: Path, tiny_adapters: dict[str, Path], tmp_path: Path
) -> None:
    settings = json.loads((tiny_adapters["mle"] / "adapter_config.json").read_text()) | {"r": 8}
    wrong = tmp_path / "wrong"
    shutil.copytree(tiny_adapters["mle"], wrong)
    (wrong / "adapter_config.json").write_text(json.dumps(settings))
    with pytest.raises(InputError, match="the adapter does not fit"):
        generate_answers(ModelOptions(name=str(tiny_model)), {"a": wrong}, PROMPTS, "chat", CONFIG, tmp_path)


@pytest.mark.slow
def test_a_killed_call_resumes_to_the_same_bytes(
    tiny_model: Path,
    tiny_adapters: dict[str, Path],
    tmp_path: Path,
    run_and_kill: Callable[..., None],
    answer_command: Callable[..., list[str]],
) -> None:
    prompts = [EvalPrompt(f"Prompt number {i}.", "tiny") for i in range(40)]
    config = CONFIG.model_copy(update={"max_new_tokens": 64})
    systems: Systems = {"base": None, "tuned": tiny_adapters["mle"]}
    reference, out = tmp_path / "reference", tmp_path / "out"
    generate_answers(ModelOptions(name=str(tiny_model)), systems, prompts, "chat", config, reference)
    path = out / "base.batches.jsonl"
    run_and_kill(
        answer_command(str(tiny_model), systems, prompts, config, out),
        lambda: path.is_file() and path.read_bytes().count(b"\n") >= 3,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    kept = path.read_bytes()
    assert 2 <= kept.count(b"\n") - 1 < 14
    assert not (out / "base.json").exists()
    generate_answers(ModelOptions(name=str(tiny_model)), systems, prompts, "chat", config, out)
    assert path.read_bytes().startswith(kept[: kept.rindex(b"\n") + 1])  # not generated again
    for name in systems:
        assert (out / f"{name}.json").read_bytes() == (reference / f"{name}.json").read_bytes()
