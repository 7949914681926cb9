"""What the configs and the documentation say that a config needs is what preflight says."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from transformers import AutoConfig, AutoTokenizer

from instruct.base.errors import InputError
from instruct.config import load_config
from instruct.engines.memory import GIB
from instruct.phases.train import check_training
from instruct.training.estimate import Sharding, memory_gib, model_network, shape_of

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT / "recipes" / "configs"
sys.path.insert(0, str(ROOT / "tests" / "training"))
from train_configs import write_rows  # noqa: E402

GPU_CONFIGS = sorted(
    str(path.relative_to(CONFIGS).with_suffix(""))
    for path in CONFIGS.rglob("*.yaml")
    if path.parent.name != "accelerate" and path.stem != "base" and load_config(path).needs_gpu
)
# The table lists them together with those that need the same.
ALIKE = {
    "paper/llama1_7b_alpaca": "paper/llama2_7b_alpaca",
    "paper/llama1_13b_alpaca": "paper/llama2_13b_alpaca",
    "paper/llama2_7b_evol_512": "paper/llama2_7b_alpaca",
    "paper/llama2_13b_evol_512": "paper/llama2_13b_alpaca",
}
# The sizes in the config.json of models that are not here.
LLAMA_7B = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
    "num_attention_heads": 32, "vocab_size": 32000,
}  # fmt: skip
LLAMA_13B = LLAMA_7B | {
    "hidden_size": 5120, "intermediate_size": 13824, "num_hidden_layers": 40, "num_attention_heads": 40,
}  # fmt: skip
MODELS = {
    "meta-llama/Llama-2-7b-hf": LLAMA_7B,
    "huggyllama/llama-7b": LLAMA_7B,
    "meta-llama/Llama-2-13b-hf": LLAMA_13B,
    "huggyllama/llama-13b": LLAMA_13B,
    "Qwen/Qwen2.5-7B": {
        "model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
        "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064, "tie_word_embeddings": False,
    },
    "openai-community/gpt2": {"model_type": "gpt2"},
    "EleutherAI/gpt-neo-1.3B": {"model_type": "gpt_neo"},
}  # fmt: skip


def spread(gpus: int) -> Sharding:
    """FSDP2, if there are several."""
    return Sharding(gpus, weights=True, gradients=True, optimizer=True) if gpus > 1 else Sharding()


def named_hardware(name: str) -> tuple[int, int]:
    """The number of GPUs and the GB of each that the comment of a config names."""
    comment = (CONFIGS / f"{name}.yaml").read_text().partition("\nname:")[0]
    ((count, size),) = re.findall(r"(?i)(one|\d+) GPUs? of\s(?:# )?(\d+) GB", comment)
    return 1 if count.lower() == "one" else int(count), int(size)


def save_model(name: str, folder: Path) -> str:
    """The model of a config without its weights."""
    AutoConfig.for_model(**MODELS[load_config(name).model.name]).save_pretrained(folder)
    return str(folder)


def estimates(name: str, folder: Path) -> list[str]:
    """GiB of a process on 1, 2, 4 and 8 GPUs."""
    config = load_config(name, ["--model.name", save_model(name, folder)])
    arguments = SimpleNamespace(
        per_device_train_batch_size=config.train["per_device_train_batch_size"],
        max_length=config.train["max_length"],
        gradient_checkpointing=True,
        optim=config.train.get("optim", "adamw_torch_fused"),
        use_cpu=False,
        chunk_rows=None,
    )
    shape = shape_of(model_network(config.model), config.model.name)
    needed = [memory_gib(config.model, config.lora, shape, arguments, spread(gpus)) for gpus in (1, 2, 4, 8)]
    return [f"{sum(parts.values()):.0f}" for parts in needed]


def documented() -> dict[str, list[str]]:
    """The memory table of docs/cluster.md: by config, GiB on 1, 2, 4 and 8 GPUs."""
    text = (ROOT / "docs" / "cluster.md").read_text().partition("## What each config needs")[2]
    rows = re.findall(r"^\| `(\w\S+)` \|(.*)\|$", text.partition("\n## ")[0], re.M)
    return {name: [cell.strip() for cell in cells.split("|")] for name, cells in rows}


def test_the_memory_table_is_the_estimate_for_every_config_that_needs_a_gpu(tmp_path):
    table = documented()
    assert set(table) == set(GPU_CONFIGS) - set(ALIKE)
    found = {name: estimates(name, tmp_path / name) for name in GPU_CONFIGS}
    assert {name: found[name] for name in table} == table
    assert {name: found[name] for name in ALIKE} == {name: table[same] for name, same in ALIKE.items()}


@pytest.mark.parametrize("name", GPU_CONFIGS)
def test_every_gpu_config_passes_preflight_with_the_hardware_it_names(
    tmp_path, tiny_model_folder, monkeypatch, printed, name
):
    gpus, size = named_hardware(name)
    AutoTokenizer.from_pretrained(tiny_model_folder).save_pretrained(tmp_path / "model")
    if load_config(name).data.card in ("wikitext2", "wikitext103"):
        rows = str(tmp_path / "rows.txt")
        Path(rows).write_text("".join(f"A line of text with the number {number}.\n" for number in range(24)))
    else:
        rows = write_rows(tmp_path / "rows.jsonl")
    config = load_config(name, ["--model.name", save_model(name, tmp_path / "model"), "--data.files", rows])
    # As on such GPUs, of which 5 % are taken; the disk is the user's.
    config = config.model_copy(update={"needs_gpu": False})
    config.train |= {"gradient_checkpointing": True, "use_cpu": True}
    monkeypatch.setattr("instruct.phases.train.sharding_of", lambda arguments: spread(gpus))
    monkeypatch.setattr("instruct.phases.train.available_gib", lambda: 0.95 * size * 1e9 / GIB)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=10**13))
    counts = check_training(config, tmp_path / "run").counts
    assert counts["kept"] + counts.get("held_out", 0) == 24
    assert f"of {0.95 * size * 1e9 / GIB:.1f} GiB memory" in printed.readouterr().out
    if name.startswith("paper/") and not config.lora:
        batch = config.train["per_device_train_batch_size"] * config.train["gradient_accumulation_steps"]
        assert batch * gpus == 128
        monkeypatch.setattr("instruct.phases.train.available_gib", lambda: 0.5 * size * 1e9 / GIB)
        with pytest.raises(InputError, match="training needs about"):
            check_training(config, tmp_path / "run")
