"""How many tokens a GPU config computes for each real one, with and without rows grouped by length.

    python -m benchmarks.padding

One epoch of the config's own data loader over Alpaca-GPT4 (the starter set if it is not available), with SmolLM2's
tokenizer in place of Llama-2's. A batch is padded to its longest row.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from benchmarks.harness import ROOT, write_results

CONFIGS = {"alpaca_emo": 8, "paper/llama2_7b_alpaca": 4}


def padded_per_real_token(config_name: str, data: str, strategy: str) -> float:
    """Tokens of one epoch's batches, padding included, divided by those of its rows."""
    from instruct.config import load_config
    from instruct.training.rows import load_training_rows
    from instruct.training.train import make_trainer, trainer_arguments

    flags = {
        "model.name": "smollm2-135m-instruct",
        "data.files": data,
        "needs_gpu": "false",
        "train.train_sampling_strategy": strategy,
    }
    config = load_config(config_name, [f"--{key}={value}" for key, value in flags.items()])
    rows = load_training_rows(config)
    with tempfile.TemporaryDirectory() as folder:
        arguments = trainer_arguments(config, next(iter(config.systems.values())), Path(folder))
        loader = make_trainer(config, arguments, rows.tokenizer, rows.training_set(arguments)).get_train_dataloader()
        padded = real = 0
        for batch in loader:
            padded += batch["attention_mask"].numel()
            real += int(batch["attention_mask"].sum())
    return padded / real


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-write", action="store_true", help="print only")
    arguments = parser.parse_args()
    path = Path(os.environ.get("INSTRUCT_SHARED_DATA", ROOT.parent / "shared" / "data"))
    path = path / "alpaca_gpt4" / "alpaca_gpt4.jsonl"
    if not path.is_file():
        path = ROOT / "data" / "starter" / "starter.jsonl"
    results = []
    for name, batch in CONFIGS.items():
        ratios = {
            each: round(padded_per_real_token(name, str(path), each), 3) for each in ("random", "group_by_length")
        }
        print(f"{name}, batches of {batch}: " + ", ".join(f"{key} {value:.3f}" for key, value in ratios.items()))
        results.append({"config": name, "batch": batch, "padded_per_real_token": ratios})
    if not arguments.no_write:
        write_results("padding", results, data=path.name)


if __name__ == "__main__":
    main()
