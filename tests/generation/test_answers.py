"""Answers of a tiny model by transformers: files written, answers generated again, and recovery after a kill."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import stored

from instruct.base.errors import InputError
from instruct.base.models import ModelOptions
from instruct.data.evaluation import load_answers
from instruct.data.prompts import EvalPrompt
from instruct.generation.answers import GenerationConfig, generate_answers
from instruct.generation.written import ReplyStats

PROMPTS = [EvalPrompt(f"Say {'many ' * (i % 4)}words about the number {i}.", "tiny") for i in range(7)]
CONFIG = GenerationConfig(engine="transformers", max_new_tokens=24, batch_size=3)
Systems = dict[str, Path | None]


def answer(model, folder, systems=None, prompts=PROMPTS, template="chat", config=CONFIG):
    systems = systems or {"base": None}
    return generate_answers(ModelOptions(name=str(model)), systems, prompts, template, config, folder)


def outputs(folder: Path, name: str) -> list[str]:
    return [row["output"] for row in json.loads((folder / f"{name}.json").read_text())]


def test_base_and_adapters_answer_in_one_call(tiny_model, tiny_adapters, tmp_path):
    systems: Systems = {"mle": tiny_adapters["mle"], "base": None, "emo": tiny_adapters["emo"]}
    stats = answer(tiny_model, tmp_path, systems)
    assert list(stats) == ["mle", "base", "emo"]
    for name, stat in stats.items():
        rows = load_answers(tmp_path / f"{name}.json")
        assert [(row["instruction"], row["dataset"]) for row in rows] == [(p.instruction, p.dataset) for p in PROMPTS]
        assert {row["generator"] for row in rows} == {name}
        assert stat.n == len(PROMPTS)
        assert stat.engine.startswith("transformers ")
        assert [reply.text.strip() for reply in stored.replies(tmp_path, name)] == outputs(tmp_path, name)
    assert len({tuple(outputs(tmp_path, name)) for name in systems}) == 3


def test_a_finished_call_starts_nothing_and_restores_a_lost_file(tiny_model, tmp_path):
    first = answer(tiny_model, tmp_path, template="alpaca")
    written = (tmp_path / "base.json").read_bytes()
    (tmp_path / "base.json").unlink()
    code = f"""
import sys
from pathlib import Path
from instruct.data.prompts import EvalPrompt, conversations
from instruct.generation.answers import GenerationConfig, generate_answers
from instruct.base.models import ModelOptions
stats = generate_answers(ModelOptions(name={str(tiny_model)!r}), {{"base": None}}, {PROMPTS!r}, "alpaca",
    GenerationConfig(max_new_tokens=24, batch_size=3, gpu_memory_utilization=0.5), Path({str(tmp_path)!r}))
print(not {{"torch", "transformers", "vllm"}} & set(sys.modules), stats["base"])
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == f"True {first['base']}"
    assert (tmp_path / "base.json").read_bytes() == written


def test_a_change_that_affects_answers_starts_from_scratch(tiny_model, tiny_adapters, tmp_path):
    adapter = tmp_path / "adapter"
    shutil.copytree(tiny_adapters["mle"], adapter)

    def fingerprint(prompts: list[EvalPrompt] = PROMPTS, config: GenerationConfig = CONFIG) -> object:
        answer(tiny_model, tmp_path, {"a": adapter}, prompts=prompts, config=config)
        return stored.made_by(tmp_path, "a")[0]

    first = fingerprint()
    shutil.copytree(tiny_adapters["emo"], adapter, dirs_exist_ok=True)
    seen = [first, fingerprint()]
    seen.append(fingerprint([*PROMPTS[:-1], replace(PROMPTS[-1], instruction="Other.")]))
    assert json.loads((tmp_path / "a.json").read_text())[-1]["instruction"] == "Other."
    seen.append(fingerprint(config=CONFIG.model_copy(update={"max_new_tokens": 5})))
    assert max(reply.tokens for reply in stored.replies(tmp_path, "a")) <= 5
    assert len(stored.replies(tmp_path, "a")) == len(PROMPTS)  # and nothing else is left
    assert len(set(seen)) == len(seen)


def test_a_full_model_can_be_a_system(tiny_model, make_model, tmp_path):
    tuned = make_model(tmp_path / "tuned", seed=5)
    for path in tuned.glob("*token*"):  # the tokenizer of its base is used
        path.unlink()
    (tuned / "chat_template.jinja").unlink(missing_ok=True)
    stats = answer(tiny_model, tmp_path, {"base": None, "tuned": tuned})
    assert isinstance(stats["tuned"], ReplyStats)
    assert outputs(tmp_path, "tuned") != outputs(tmp_path, "base")
    direct = tmp_path / "direct"
    make_model(tmp_path / "tuned", seed=5)
    answer(tuned, direct)
    assert outputs(direct, "base") == outputs(tmp_path, "tuned")


def test_a_stopped_call_is_resumed_to_the_same_answers_with_what_is_missing(tiny_model, tiny_adapters, tmp_path):
    file = tmp_path / "emo.json"
    answer(tiny_model, tmp_path, {"emo": tiny_adapters["emo"]})
    undisturbed = file.read_bytes()
    stored.forget(tmp_path, "emo", 3)
    stored.change(tmp_path, "emo", "UPDATE completions SET created = 'before'")
    file.unlink()
    answer(tiny_model, tmp_path, {"emo": tiny_adapters["emo"]})
    assert file.read_bytes() == undisturbed
    before = "SELECT COUNT(*) FROM completions WHERE created = 'before'"
    assert stored.select(stored.path_of(tmp_path, "emo"), before) == [(3,)]


def test_answers_are_cut_at_the_context_length_and_too_long_prompts_are_named(tiny_model, tmp_path):
    prompts = [PROMPTS[0], EvalPrompt("x" * 440, "long"), EvalPrompt("x" * 460, "long")]
    config = CONFIG.model_copy(update={"max_new_tokens": 100})
    answer(tiny_model, tmp_path, prompts=prompts, config=config)
    replies = stored.replies(tmp_path, "base")
    assert replies[2].tokens < replies[1].tokens < 100
    assert replies[1].tokens - replies[2].tokens == 20
    assert [reply.finish for reply in replies[1:]] == ["length", "length"]
    prompts.append(EvalPrompt("y" * 600, "longer"))
    with pytest.raises(InputError, match=r"^longer: prompt 4 \('yyy.*\) has \d+ tokens, 512 hold prompt and answer"):
        answer(tiny_model, tmp_path, prompts=prompts, config=config)
    assert len(outputs(tmp_path, "base")) == 3  # a failed call removes nothing


def test_a_wrong_call_is_refused_in_one_line(tiny_model, tiny_adapters, tmp_path):
    wrong = tmp_path / "wrong"
    shutil.copytree(tiny_adapters["mle"], wrong)
    settings = json.loads((wrong / "adapter_config.json").read_text()) | {"r": 8}
    (wrong / "adapter_config.json").write_text(json.dumps(settings))
    for systems, said in [({"a": wrong}, "the adapter does not fit"), ({"../a": None}, "not a file name")]:
        with pytest.raises(InputError, match=said) as caught:
            answer(tiny_model, tmp_path / "out", systems)
        assert "\n" not in str(caught.value)
    assert not list((tmp_path / "out").glob("*.json"))
