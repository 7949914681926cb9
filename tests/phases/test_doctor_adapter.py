"""`instruct doctor ADAPTER`: adapters that act, and those that do nothing or do not fit, each in one line."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from instruct.phases.doctor_adapter import check_adapter_acts


def findings(*arguments) -> dict[str, tuple[str, str]]:
    return {finding.what: (finding.state, finding.text) for finding in check_adapter_acts(*arguments)}


@pytest.fixture
def adapter(tiny_adapters, tmp_path) -> Path:
    return Path(shutil.copytree(tiny_adapters["emo"], tmp_path / "emo"))


def change(adapter: Path, changed) -> None:
    path = adapter / "adapter_model.safetensors"
    save_file(dict(changed(*item) for item in load_file(path).items()), path)


def test_an_adapter_that_acts_is_told_with_its_modules(adapter, instruct):
    code, out, _ = instruct("doctor", adapter, "--engine", "transformers")
    assert code == 0
    assert "LORA, rank 4: 6 modules (down_proj 2, q_proj 2, v_proj 2)" in out
    assert "each has its place in the base" in out
    assert "moves a log-probability of a text of" in out
    assert out.rstrip().endswith("can be used")


def test_an_adapter_of_zeros_has_no_effect(adapter, instruct):
    change(adapter, lambda key, value: (key, torch.zeros_like(value)))
    code, out, error = instruct("doctor", adapter, "--engine", "transformers")
    assert code == 1
    assert "by up to 0, which is none" in out
    assert "doctor: not usable yet; fix the lines marked error: effect" in error


def test_an_adapter_whose_keys_are_renamed_matches_nothing(adapter, tiny_model):
    change(adapter, lambda key, value: (key.replace("layers.1.", "layers.7."), value))
    found = findings(adapter, str(tiny_model), "transformers")
    assert found["keys"][0] == "error"
    assert "the adapter does not fit LlamaForCausalLM: it has no model.layers.1." in found["keys"][1]
    assert "effect" not in found


@pytest.mark.parametrize(
    "options",
    [{"use_dora": True}, {"use_rslora": True}, {"modules_to_save": ["lm_head"]}],
    ids=["dora", "rslora", "head"],
)
def test_every_kind_of_lora_acts(tiny_model, make_adapter, tmp_path, options):
    folder = make_adapter(tiny_model, tmp_path / "other", 3, 0.5, **options)
    found = findings(folder, None, "transformers")
    assert {state for state, _ in found.values()} == {"ok"}
    assert ("DoRA" in found["adapter"][1]) == ("use_dora" in options)
    assert ("whole: lm_head" in found["adapter"][1]) == ("modules_to_save" in options)


def test_a_folder_that_is_both_and_a_flag_without_an_adapter_are_refused(adapter, instruct, tmp_path):
    assert instruct("doctor", "--engine", "vllm")[2].startswith("instruct: --engine is for an adapter; name its folder")
    (adapter / "manifest.json").write_text("{}")
    code, _, error = instruct("doctor", adapter)
    assert code == 2
    assert "is a run and an adapter" in error
    (adapter / "manifest.json").unlink()
    (adapter / "adapter_config.json").write_text("[]")
    code, _, error = instruct("doctor", adapter)
    assert code == 2
    assert "adapter_config.json: no adapter configuration (no JSON object); save the adapter again" in error
