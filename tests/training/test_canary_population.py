"""The trained weights are known again in every engine, dtype and form, after few steps and many; no others are."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from population import saved_model
from safetensors.torch import load_file, save_file
from train_configs import rows_of, tiny_config, train, write_rows

from instruct.base.errors import InputError
from instruct.engines.base import Decoding, EngineOptions
from instruct.engines.canary import WeightsCheck, canaries_of, read_canary
from instruct.engines.start import make_engine
from instruct.training.merge import merge_adapter
from instruct.training.train import train_system

TOO_LITTLE = "not checked: training moved too little"


def trained(kind: str, steps: int, folder: Path, tokenizer: Path, dtype: str, times: int = 1):
    """A config and a run of two systems on one tiny model, which trains in `dtype`."""
    name = saved_model(kind, folder, tokenizer, times)
    arguments = {"max_steps": steps, "learning_rate": 0.004 / steps**0.5, "warmup_steps": 0}
    systems = {"emo": {"objective": "emo"}, "mle": {"objective": "mle", "seed": 7}}
    model = {"name": str(name), "dtype": dtype}
    config = tiny_config(
        name, write_rows(folder / "rows.jsonl", 8), model=model, lora={"r": 2}, train=arguments,
        systems=systems,
    )  # fmt: skip
    run = train(folder / "run", config)
    train_system(config, "mle", run, rows_of(config))
    emo, mle = (read_canary(run.adapters / name) for name in systems)
    assert (emo.ids, emo.places, emo.base) == (mle.ids, mle.places, mle.base)
    return config, run


def wrong_adapters(adapter: Path, folder: Path) -> dict[str, Path]:
    """Copies of an adapter of zeros, at half its scale, and one of the same size that has nothing to do with it."""
    copies = {}
    for name in ("zeros", "half", "unrelated"):
        copies[name] = folder / name
        shutil.copytree(adapter, copies[name])
        weights = load_file(adapter / "adapter_model.safetensors")
        for key, value in weights.items():
            if name == "unrelated":
                drawn = torch.randn(value.shape, generator=torch.Generator().manual_seed(len(key)))
                weights[key] = (drawn * value.std()).to(value.dtype)
            elif "lora_B" in key:
                weights[key] = value * (0.5 if name == "half" else 0)
        save_file(weights, copies[name] / "adapter_model.safetensors")
    return copies


def outcome(check: WeightsCheck, system: str, adapter: Path | None) -> str:
    try:
        return check.outcome(system, adapter and str(adapter))
    except InputError as error:
        return f"refused: {error}"


def check_adapters(engine: str, config, run, wrong: dict[str, Path], computed: str) -> list[str]:
    """What becomes of the trained adapters, of which none is refused; of others, none is passed."""
    adapters = {name: run.adapters / name for name in config.systems}
    canaries = canaries_of(adapters)
    options = EngineOptions(
        "model", config.model.name, Decoding(max_tokens=4), len(canaries["emo"].ids) + 8, dtype=computed, chat=True,
        adapters=(*adapters.values(), *wrong.values()),
    )  # fmt: skip
    asked = make_engine(engine, options)
    asked.start()
    check = WeightsCheck(asked, canaries, "generation.engine")
    of_right = [outcome(check, name, adapter) for name, adapter in adapters.items()]
    assert not [line for line in of_right if not line.startswith(("checked", TOO_LITTLE))], of_right
    of_wrong = [outcome(check, "emo", adapter) for adapter in (*wrong.values(), None)]
    assert not [line for line in of_wrong if line.startswith("checked")], of_wrong
    of_sibling = outcome(check, "emo", adapters["mle"])
    assert of_sibling.startswith(("refused", TOO_LITTLE)) or "not told apart from mle" in of_sibling
    if computed == "float32":
        assert all(line.startswith("refused") for line in of_wrong), of_wrong
        assert "has the log-probabilities of mle" in of_sibling
    asked.close()
    return of_right


@pytest.mark.parametrize(
    ("kind", "steps", "dtype"),
    [
        ("llama", 1, "bfloat16"),
        pytest.param("qwen2", 2, "float32", marks=pytest.mark.slow),
        pytest.param("gpt2", 8, "bfloat16", marks=pytest.mark.slow),
    ],
)
def test_transformers_answers_with_the_trained_weights_and_no_others(tmp_path, tiny_model_folder, kind, steps, dtype):
    """With the adapter and with its merge."""
    config, run = trained(kind, steps, tmp_path, tiny_model_folder, dtype)
    wrong, canaries = wrong_adapters(run.adapters / "emo", tmp_path), canaries_of({"emo": run.adapters / "emo"})
    checked = []
    for computed in ("float32", "bfloat16"):
        checked += check_adapters("transformers", config, run, wrong, computed)
        model = config.model.model_copy(update={"dtype": computed})
        (merged,) = merge_adapter(config.model_copy(update={"model": model}), run, "emo")
        room = len(canaries["emo"].ids) + 8
        options = EngineOptions("model", str(merged), Decoding(max_tokens=4), room, dtype=computed, chat=True)
        asked = make_engine("transformers", options)
        asked.start()
        assert outcome(WeightsCheck(asked, canaries, "generation.engine"), "emo", None).startswith(
            ("checked", TOO_LITTLE)
        )
        asked.close()
    assert any(line.startswith("checked") for line in checked)


@pytest.mark.slow
@pytest.mark.xdist_group("vllm")
def test_vllm_answers_with_the_trained_weights_and_no_others(tmp_path, tiny_model_folder):
    pytest.importorskip("vllm", reason="vLLM is not installed")
    config, run = trained("llama", 2, tmp_path, tiny_model_folder, "bfloat16", times=4)
    of_right = check_adapters("vllm", config, run, wrong_adapters(run.adapters / "emo", tmp_path), "float32")
    assert any(line.startswith("checked") for line in of_right)


def test_a_base_that_changed_is_not_merged_and_an_adapter_that_is_drawn_anew_not_trained(tmp_path, tiny_model_folder):
    config, run = trained("llama", 2, tmp_path, tiny_model_folder, "float32")
    path = tmp_path / "model" / "model.safetensors"
    weights = load_file(path)
    save_file({key: value * 1.2 for key, value in weights.items()}, path, metadata={"format": "pt"})
    with pytest.raises(InputError, match=r"adapters/emo: merged, it is not the model that was trained: "):
        merge_adapter(config, run, "emo")
    assert not (run.folder / "merged" / "emo").exists()
    with pytest.raises(InputError, match=r"init_lora_weights pissa_niter_4: PEFT draws it anew"):
        tiny_config(tmp_path / "model", "rows.jsonl", lora={"init_lora_weights": "pissa_niter_4"})


@pytest.mark.parametrize(
    ("kind", "lora"),
    [
        ("llama", {"init_lora_weights": "pissa"}),
        ("gemma2", {"target_modules": ["embed_tokens"]}),  # into an untied model: the head does not see the adapter
    ],
)
def test_an_adapter_that_changes_its_base_is_merged(tmp_path, tiny_model_folder, kind, lora):
    """Or the merge would be refused: it has the log-probabilities of the training."""
    name = saved_model(kind, tmp_path, tiny_model_folder)
    config = tiny_config(
        name, write_rows(tmp_path / "rows.jsonl", 8), lora={"r": 2, **lora},
        model={"name": str(name), "dtype": "bfloat16"}, train={"max_steps": 2, "learning_rate": 0.002},
    )  # fmt: skip
    merge_adapter(config, train(tmp_path / "run", config))
