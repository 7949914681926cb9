"""Is the trained model really better on lm-eval? SmolLM2 before and after a short training, compared row by row.

    python examples/compare_lm_eval.py --output runs/compare_lm_eval [--rows 300] [--steps 60]

Two tasks of 300 generated rows each: sums in a made-up notation, which the training has, and days of the week, which it
does not have. lm-eval (`pip install 'emo-instruct[lm-eval]'`) evaluates both models and writes its logs; `instruct
compare` needs these alone. Takes some minutes on a CPU.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from pathlib import Path

import yaml
from datasets import Dataset
from peft import LoraConfig

from instruct import EMOConfig, EMOTrainer, compare_logs, model_path

DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
BASE = "smollm2-135m-instruct"


def make_sum(rng: random.Random) -> dict[str, object]:
    """A sum in the notation `a ~ b`, which stands for a + b + 1, with four choices."""
    a, b = rng.randrange(1, 20), rng.randrange(1, 20)
    choices = rng.sample([a + b + 1, a + b, a + b + 2, a + b - 1], 4)
    return {"question": f"{a} ~ {b} =", "choices": [str(each) for each in choices], "answer": choices.index(a + b + 1)}


def make_days(rng: random.Random) -> dict[str, object]:
    """Which day comes some days after another one."""
    day, later = rng.randrange(7), rng.randrange(1, 7)
    choices = rng.sample(DAYS, 4)
    right = DAYS[(day + later) % 7]
    if right not in choices:
        choices[rng.randrange(4)] = right
    question = f"Today is {DAYS[day]}. In {later} day{'s' * (later > 1)} it is"
    return {"question": question, "choices": choices, "answer": choices.index(right)}


def write_task(folder: Path, name: str, rows: list[dict[str, object]]) -> None:
    """A multiple-choice task in lm-eval's format, and its rows."""
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    task = {
        "task": name,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str((folder / f"{name}.jsonl").resolve())}},
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "{{question}}",
        "doc_to_choice": "{{choices}}",
        "doc_to_target": "answer",
        "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
    }
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(task), encoding="utf-8")


def train(folder: Path, steps: int) -> None:
    """Train an adapter on other sums than those of the task."""
    rng = random.Random(1)
    examples = []
    for _ in range(8 * steps):
        row = make_sum(rng)
        answer = row["choices"][row["answer"]]  # type: ignore[index]
        examples.append({"prompt": row["question"], "completion": f" {answer}"})
    trainer = EMOTrainer(
        model=model_path(BASE),
        args=EMOConfig(
            str(folder / "adapter"),
            objective="mle",
            max_steps=steps,
            per_device_train_batch_size=8,
            learning_rate=1e-3,
            report_to="none",
            save_strategy="no",
        ),
        train_dataset=Dataset.from_list(examples),
        peft_config=LoraConfig(target_modules="all-linear"),
    )
    trainer.train()
    trainer.save_model()


def evaluate(folder: Path, system: str, adapter: str = "") -> None:
    """Run lm-eval on both tasks, with its logs of samples in FOLDER/logs/SYSTEM."""
    call = [sys.executable, "-m", "lm_eval", "run", "--model", "hf", "--tasks", "sums,days", "--device", "cpu"]
    call += ["--model_args", f"pretrained={model_path(BASE)},dtype=float32{adapter}", "--batch_size", "16"]
    call += ["--include_path", str(folder), "--log_samples", "--output_path", str(folder / "logs" / system)]
    subprocess.run(call, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--steps", type=int, default=60)
    arguments = parser.parse_args()
    folder: Path = arguments.output
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(0)
    write_task(folder, "sums", [make_sum(rng) for _ in range(arguments.rows)])
    write_task(folder, "days", [make_days(rng) for _ in range(arguments.rows)])
    train(folder, arguments.steps)
    evaluate(folder, "base")
    evaluate(folder, "tuned", f",peft={folder / 'adapter'}")
    compared = compare_logs({"base": folder / "logs" / "base", "tuned": folder / "logs" / "tuned"})
    print(compared)
    compared.write(folder / "page.html")


if __name__ == "__main__":
    main()
