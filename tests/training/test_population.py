"""Every type of model goes the whole way: train, answer, measure, merge. Each stage has the trainer's own logits."""

from __future__ import annotations

import shutil
from importlib.metadata import version
from pathlib import Path

import pytest
from population import TYPES, saved_model
from population_table import PAGE, kept, outcome, page, results, table
from train_configs import tiny_config, train, write_rows

from instruct.base.errors import InstructError
from instruct.engines.base import Decoding, EngineOptions
from instruct.engines.canary import Canary, compare_scores, read_canary
from instruct.engines.forward import open_model
from instruct.engines.network import TextRow
from instruct.engines.start import make_engine
from instruct.training.merge import merge_adapter

KINDS = ["qwen3_moe", "gpt2"]  # experts, and transposed matrices
GREEN = [
    *KINDS, "qwen3_5", "granitemoehybrid", "llama", "llama4", "mistral", "mixtral", "qwen2", "qwen3", "qwen3_next",
    "gemma3", "gemma4", "gpt_oss", "olmo2", "phi3", "nemotron_h", "lfm2", "glm4_moe", "deepseek_v3", "mamba",
]  # fmt: skip
SAME = 1e-4  # in float32, by the same kernels
SHARDS = 12
VERSIONS, TABLE = table()
IN_VLLM = [kind for kind, row in TABLE.items() if row["vllm"] in ("adapter", "merged")]


def scores_in_answers(model: str, canary: Canary, adapter: Path | None, kind: str = "transformers") -> list[float]:
    adapters = (adapter,) if adapter else ()
    decoding, room = Decoding(max_tokens=4), len(canary.ids) + 8
    options = EngineOptions("model", model, decoding, room, adapters=adapters, dtype="float32", chat=True)
    engine = make_engine(kind, options)
    try:
        engine.start()
        return canary.scores(engine, None if adapter is None else str(adapter))
    finally:
        engine.close()


def scores_in_measurements(options, canary: Canary, source: Path | None) -> list[float]:
    model = open_model(options, source)
    (logs,) = model.log_probabilities([TextRow(canary.ids, 1)])
    model.close()
    return [float(logs[place - 1]) for place in canary.places]


def check(scores: list[float], canary: Canary, where: str) -> None:
    differs = max(abs(score - trained) for score, trained in zip(scores, canary.trained, strict=True))
    assert differs <= SAME, f"{where}, a log-probability differs by {differs:.2g} from the trainer's"


def trained(kind: str, folder: Path, tokenizer: Path, lora: dict | None, times: int = 1):
    """The config, the run and the canary of a tiny model that is trained for two steps."""
    model = saved_model(kind, folder, tokenizer, times)
    arguments = {"max_steps": 2, "learning_rate": 0.02, "warmup_steps": 0, "per_device_train_batch_size": 4}
    config = tiny_config(model, write_rows(folder / "rows.jsonl", 8), lora=lora, train=arguments)
    run = train(folder / "run", config)
    canary = read_canary(run.adapters / "emo")
    moved = max(abs(after - before) for after, before in zip(canary.trained, canary.base, strict=True))
    assert moved > 0.01, f"training moved no log-probability by more than {moved:.2g}"
    return config, run, canary


def walk(kind: str, folder: Path, tokenizer: Path, lora: dict | None) -> None:
    config, run, canary = trained(kind, folder, tokenizer, lora)
    weights = run.adapters / "emo"
    check(scores_in_measurements(config.model, canary, weights), canary, "measured")
    if lora:
        check(scores_in_answers(config.model.name, canary, weights), canary, "answering")
        (weights,) = merge_adapter(config, run)
    check(scores_in_answers(str(weights), canary, None), canary, "merged" if lora else "answering")
    shutil.rmtree(folder)


def walk_to_vllm(kind: str, folder: Path, tokenizer: Path) -> str:
    """What vLLM took for the trained weights: the adapter, or, if it takes none of the type, the merge."""
    config, run, canary = trained(kind, folder, tokenizer, {"r": 2}, times=4)
    try:
        scores, form = scores_in_answers(config.model.name, canary, run.adapters / "emo", "vllm"), "adapter"
    except InstructError:
        (merged,) = merge_adapter(config, run)
        scores, form = scores_in_answers(str(merged), canary, None, "vllm"), "merged"
    weights, reason = compare_scores(canary, scores)
    assert weights == "right", f"in vLLM, {reason}"
    return form


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
@pytest.mark.parametrize("kind", KINDS)
def test_whole_weights_answer_and_measure_as_they_were_trained(tmp_path, tiny_model_folder, kind):
    walk(kind, tmp_path / "walk", tiny_model_folder, None)


@pytest.mark.full
@pytest.mark.xdist_group("vllm")
@pytest.mark.parametrize("kind", IN_VLLM)
def test_vllm_gives_the_trainers_log_probabilities(tmp_path, tiny_model_folder, kind):
    pytest.importorskip("vllm", reason="vLLM is not installed")
    assert walk_to_vllm(kind, tmp_path, tiny_model_folder) == TABLE[kind]["vllm"]


@pytest.mark.full
@pytest.mark.parametrize("shard", range(SHARDS))
def test_every_type_ends_as_the_table_says(shard):
    """If a change is meant, population_table.py writes the table and docs/models.md."""
    rows = results(outcome, TYPES[shard::SHARDS], kept(outcome))
    changed = [row for row in rows if row["outcome"] != TABLE[row["type"]]["outcome"]]
    assert not changed


def test_the_table_is_whole_and_the_page_is_its():
    if version("transformers") != VERSIONS["transformers"]:
        pytest.skip(f"the table is of transformers {VERSIONS['transformers']}")
    assert sorted(TABLE) == TYPES
    assert {row["outcome"] for row in TABLE.values()} == {"green", "refused", "differs", "needs"}
    assert [kind for kind in GREEN if TABLE[kind]["outcome"] != "green"] == []
    assert [kind for kind in ("llama", "qwen3", "qwen2", "opt", "gpt2") if kind not in IN_VLLM] == []
    assert PAGE.read_text() == page(VERSIONS, TABLE)
