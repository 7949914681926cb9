"""Every type of model goes the whole way: train, answer, measure, merge. Each stage has the trainer's own logits."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from population import TYPES, tiny_network
from train_configs import tiny_config, train, write_rows
from transformers import AutoTokenizer

from instruct.engines.base import Decoding, EngineOptions
from instruct.engines.canary import Canary, read_canary
from instruct.engines.forward import open_model
from instruct.engines.network import TextRow
from instruct.engines.start import make_engine
from instruct.training.merge import merge_adapter

# Eight that differ in kind: plain, eyes over a recurrent text model, experts, softcaps, convolutions, Mamba, state
# spaces beside attention, and GPT-2's transposed matrices.
KINDS = ["llama", "qwen3_5", "qwen3_moe", "gemma2", "lfm2", "mamba", "granitemoehybrid", "gpt2"]
GREEN = [
    "llama", "llama4", "llama4_text", "mistral", "mistral3", "ministral3", "mixtral", "qwen2", "qwen3", "qwen3_moe",
    "qwen3_next", "qwen3_5", "qwen3_5_moe", "gemma2", "gemma3", "gemma3_text", "gemma4", "gpt_oss", "smollm3", "olmo2",
    "olmo3", "phi3", "granite", "granitemoehybrid", "nemotron_h", "falcon_h1", "lfm2", "lfm2_moe", "glm4", "glm4_moe",
    "deepseek_v3", "cohere2", "gpt2", "opt", "mamba",
]  # fmt: skip
SAME = 1e-4


def scores_in_answers(model: str, canary: Canary, adapter: Path | None) -> list[float]:
    adapters = (adapter,) if adapter else ()
    decoding, room = Decoding(max_tokens=4), len(canary.ids) + 8
    options = EngineOptions("model", model, decoding, room, adapters=adapters, dtype="float32", chat=True)
    engine = make_engine("transformers", options)
    scores = canary.scores(engine, None if adapter is None else str(adapter))
    engine.close()
    return scores


def scores_in_measurements(options, canary: Canary, source: Path | None) -> list[float]:
    model = open_model(options, source)
    (logs,) = model.log_probabilities([TextRow(canary.ids, 1)])
    model.close()
    return [float(logs[place - 1]) for place in canary.places]


def walk(kind: str, folder: Path, tokenizer: Path, lora: dict | None) -> None:
    model = folder / "model"
    tiny_network(kind).save_pretrained(model)
    AutoTokenizer.from_pretrained(tokenizer).save_pretrained(model)
    arguments = {"max_steps": 2, "learning_rate": 0.02, "warmup_steps": 0, "per_device_train_batch_size": 4}
    config = tiny_config(model, write_rows(folder / "rows.jsonl", 8), lora=lora, train=arguments)
    run = train(folder / "run", config)
    trained = run.adapters / "emo"
    canary = read_canary(trained)
    assert max(abs(after - before) for after, before in zip(canary.trained, canary.base, strict=True)) > 0.01
    if lora:
        assert scores_in_answers(str(model), canary, trained) == pytest.approx(canary.trained, abs=SAME)
        assert scores_in_measurements(config.model, canary, trained) == pytest.approx(canary.trained, abs=SAME)
        (merged,) = merge_adapter(config, run)
    else:
        merged = trained
        assert scores_in_measurements(config.model, canary, trained) == pytest.approx(canary.trained, abs=SAME)
    assert scores_in_answers(str(merged), canary, None) == pytest.approx(canary.trained, abs=SAME)
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    "kind", [kind if kind in KINDS else pytest.param(kind, marks=pytest.mark.slow) for kind in GREEN]
)
def test_an_adapter_answers_measures_and_merges_as_it_was_trained(tmp_path, tiny_model_folder, kind):
    walk(kind, tmp_path / "walk", tiny_model_folder, {"r": 2})


@pytest.mark.slow
def test_an_adapter_of_experts_answers_measures_and_merges_as_it_was_trained(tmp_path, tiny_model_folder):
    experts = ["mlp.experts.down_proj", "mlp.experts.gate_up_proj"]
    walk("gpt_oss", tmp_path / "walk", tiny_model_folder, {"r": 2, "target_parameters": experts})


@pytest.mark.slow
@pytest.mark.parametrize("kind", GREEN)
def test_whole_weights_answer_and_measure_as_they_were_trained(tmp_path, tiny_model_folder, kind):
    walk(kind, tmp_path / "walk", tiny_model_folder, None)


def test_the_page_names_these_types():
    """docs/models.md is written by population_table.py, which walks each of them."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "models.md").read_text()
    rows = dict(re.findall(r"^\| `(.*?)` \| (\w+) \|", page, re.M))
    assert rows == dict.fromkeys(GREEN, "yes")
    assert f"Of the {len(TYPES)} types" in page
