"""The class of a checkpoint, and loading that leaves no key over."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, LlamaConfig

from instruct.base.errors import InputError
from instruct.base.networks import (
    check_adapter,
    check_whole,
    load_adapter,
    load_network,
    new_network,
    record_class,
)
from instruct.engines.local import load_config, load_tokenizer


def qwen3_5():
    from transformers import Qwen3_5Config, Qwen3_5ForConditionalGeneration

    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 4, "num_attention_heads": 2}
    linear = {f"linear_{name}": 2 for name in ("num_key_heads", "num_value_heads")}
    linear |= {f"linear_{name}_head_dim": 8 for name in ("key", "value")}
    text = {**sizes, **linear, "num_key_value_heads": 1, "head_dim": 8, "vocab_size": 64}
    vision = {"depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "out_hidden_size": 16}
    torch.manual_seed(0)
    return Qwen3_5ForConditionalGeneration(Qwen3_5Config(text_config=text, vision_config=vision))


@pytest.fixture(scope="module")
def sees(tmp_path_factory) -> Path:
    """A tiny Qwen3.5 with a vision tower, and in `adapter` an adapter whose class is recorded."""
    folder = tmp_path_factory.mktemp("sees")
    network = qwen3_5()
    network.save_pretrained(folder / "model")
    adapted = get_peft_model(network, LoraConfig(r=2, target_modules=["q_proj", "down_proj"], task_type="CAUSAL_LM"))
    for name, weight in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight)
    record_class(adapted)
    adapted.save_pretrained(folder / "adapter")
    return folder


def test_a_model_that_sees_is_loaded_as_it_was_trained(sees):
    network = load_network(str(sees / "model"))
    assert type(network).__name__ == "Qwen3_5ForConditionalGeneration"
    assert type(AutoModelForCausalLM.from_pretrained(sees / "model")).__name__ == "Qwen3_5ForCausalLM"
    ids = torch.arange(1, 9)[None]
    before = network(input_ids=ids).logits
    adapted = load_adapter(network, sees / "adapter")
    assert (adapted(input_ids=ids).logits - before).abs().max() > 0.1
    config = json.loads((sees / "adapter" / "adapter_config.json").read_text())
    assert config["auto_mapping"]["base_model_class"] == "Qwen3_5ForConditionalGeneration"


@pytest.mark.parametrize("change", ["renamed", "missing", "extra"])
def test_an_adapter_with_a_key_left_over_is_refused(sees, tmp_path, change):
    folder = tmp_path / "adapter"
    shutil.copytree(sees / "adapter", folder)
    path = folder / "adapter_model.safetensors"
    tensors = load_file(path)
    first = next(key for key in tensors if "lora_B" in key)
    if change == "extra":
        tensors[first.replace("layers.", "layers.9")] = tensors[first].clone()
    else:
        tensor = tensors.pop(first)
        if change == "renamed":
            tensors[first.replace("_proj", "_projection")] = tensor
    save_file(tensors, path)
    for load in (
        lambda: load_adapter(load_network(str(sees / "model")), folder),
        lambda: check_adapter(str(sees / "model"), None, folder),
    ):
        with pytest.raises(InputError, match="the adapter does not fit Qwen3_5ForConditionalGeneration"):
            load()


@pytest.mark.parametrize("how", ["missing", "extra"])
def test_a_checkpoint_with_a_key_left_over_is_refused(tiny_model_folder, tmp_path, how):
    folder = tmp_path / "model"
    shutil.copytree(tiny_model_folder, folder)
    tensors = load_file(folder / "model.safetensors")
    if how == "missing":
        tensors.pop("model.layers.1.mlp.up_proj.weight")
    else:
        tensors["model.layers.7.mlp.up_proj.weight"] = tensors["model.layers.1.mlp.up_proj.weight"].clone()
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    for load in (load_network, check_whole):
        with pytest.raises(InputError, match=r"as LlamaForCausalLM, has .*up_proj\.weight"):
            load(str(folder))


def test_what_transformers_itself_leaves_out_is_no_key_left_over(tmp_path):
    """Tied weights, layers that predict further tokens (`mtp.*`), buffers of old checkpoints, a head that is new."""
    network = new_network(LlamaConfig(
        vocab_size=32, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        tie_word_embeddings=True,
    ))  # fmt: skip
    network.save_pretrained(tmp_path / "tied")
    path = tmp_path / "tied" / "model.safetensors"
    tensors = load_file(path)
    assert "lm_head.weight" not in tensors
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(4)
    save_file(tensors, path, {"format": "pt"})
    load_network(str(tmp_path / "tied"))
    new: list[str] = []
    load_network(str(tmp_path / "tied"), head="score", new_head=new, num_labels=1)
    assert new == ["score.weight"]
    with pytest.raises(InputError, match=r"has no score\.weight, which would be random"):
        load_network(str(tmp_path / "tied"), head="score", num_labels=1)

    sees = qwen3_5()
    sees.save_pretrained(tmp_path / "sees")
    tensors = load_file(tmp_path / "sees" / "model.safetensors")
    save_file({**tensors, "mtp.layers.0.weight": torch.ones(2)}, tmp_path / "sees" / "model.safetensors")
    load_network(str(tmp_path / "sees"))


@pytest.mark.parametrize(
    "load",
    [
        lambda model: load_network(model),
        lambda model: check_whole(model),
        lambda model: load_config("model x", model, None),
        lambda model: load_tokenizer("model x", model, None),
    ],
    ids=["load_network", "check_whole", "load_config", "load_tokenizer"],
)
def test_code_beside_the_weights_is_not_run(tiny_model_folder, tmp_path, load):
    folder, mark = tmp_path / "model", tmp_path / "mark"
    shutil.copytree(tiny_model_folder, folder)
    (folder / "theirs.py").write_text(f"open({str(mark)!r}, 'w')\n")
    named = {name: f"theirs.{name}" for name in ("AutoConfig", "AutoModelForCausalLM")}
    for file, classes in {
        "config.json": named,
        "tokenizer_config.json": {"AutoTokenizer": ["theirs.Slow", None]},
    }.items():
        content = json.loads((folder / file).read_text())
        (folder / file).write_text(json.dumps({**content, "auto_map": classes}))
    load(str(folder))
    assert not mark.exists()
