"""What the configs and the documentation say that a config needs is what is estimated."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

from transformers import AutoConfig

from instruct.config import load_config
from instruct.engines.memory import GIB
from instruct.training.estimate import Sharding, memory_gib, model_network, shape_of

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT / "recipes" / "configs"
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


def estimates(name: str, folder: Path) -> dict[int, float]:
    """GiB of a process, by the number of GPUs."""
    AutoConfig.for_model(**MODELS[load_config(name).model.name]).save_pretrained(folder)  # without its weights
    config = load_config(name, ["--model.name", str(folder)])
    arguments = SimpleNamespace(
        per_device_train_batch_size=config.train["per_device_train_batch_size"],
        max_length=config.train["max_length"],
        gradient_checkpointing=True,
        optim=config.train.get("optim", "adamw_torch_fused"),
        use_cpu=False,
        chunk_rows=None,
    )
    shape = shape_of(model_network(config.model), config.model.name)
    return {
        gpus: sum(memory_gib(config.model, config.lora, shape, arguments, spread(gpus)).values())
        for gpus in (1, 2, 4, 8)
    }


def documented() -> dict[str, list[str]]:
    """The memory table of docs/cluster.md: by config, GiB on 1, 2, 4 and 8 GPUs."""
    text = (ROOT / "docs" / "cluster.md").read_text().partition("## What each config needs")[2]
    rows = re.findall(r"^\| `(\w\S+)` \|(.*)\|$", text.partition("\n## ")[0], re.M)
    return {name: [cell.strip() for cell in cells.split("|")] for name, cells in rows}


def test_the_memory_table_is_the_estimate_and_every_config_fits_the_hardware_that_it_names(tmp_path):
    table, found = documented(), {name: estimates(name, tmp_path / name) for name in GPU_CONFIGS}
    shown = {name: [f"{gib:.0f}" for gib in needed.values()] for name, needed in found.items()}
    assert set(table) == set(GPU_CONFIGS) - set(ALIKE)
    assert shown == {name: table[ALIKE.get(name, name)] for name in GPU_CONFIGS}
    for name, needed in found.items():
        gpus, size = named_hardware(name)
        assert needed[gpus] < 0.95 * size * 1e9 / GIB, name  # 5 % are taken
