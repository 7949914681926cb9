"""Train a judge on human labels: a small head on a language model's states, or a whole reward model.

    python recipes/train_judge.py --labels mine.jsonl --name mine --licence "for our own use"
    python recipes/train_judge.py --labels pandalm --against autoj --name my_score       # the demo's judge
    python recipes/train_judge.py --labels mine.jsonl --name mine --licence "for our own use" \\
        --whole-model --model Qwen/Qwen3-0.6B

The labels are a set that `instruct validate --against` knows, or a file of labelled pairs (docs/validation.md). A fifth
of their instructions is held out to measure the judge, unless --against names other sets. It is written to judges/NAME,
with its agreement in the card; `instruct judge RUN --judge NAME` asks it.
"""

from __future__ import annotations

import argparse
import sys

from instruct.base.output import run_guarded


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--labels", required=True, metavar="SET", help="a set of human labels, by name, card or file")
    add("--name", required=True, help="the judge's name: it is written to judges/NAME")
    add("--model", help="the language model (default: the bundled SmolLM2-135M)")
    add("--against", action="append", default=[], metavar="SET", help="a set to measure the judge on (repeatable)")
    add("--licence", help="the judge's license (default: that of the set's card)")
    add("--seed", type=int, default=0, help="of the held-out instructions and of fine-tuning (default: 0)")
    add("--whole-model", action="store_true", help="fine-tune the model with LoRA (TRL's RewardTrainer)")
    add("--epochs", type=float, default=1.0, help="of --whole-model (default: 1)")
    add("--learning-rate", type=float, default=1e-4, help="of --whole-model (default: 1e-4)")
    add("--batch-size", type=int, default=8, help="pairs per step of --whole-model (default: 8)")
    add("--max-length", type=int, default=2048, help="tokens in a text of --whole-model (default: 2048)")
    given = parser.parse_args()

    from instruct.base.models import EMBEDDED_MODEL
    from instruct.validation.reward_training import RewardTraining
    from instruct.validation.train_judge import JudgeTraining, train_judge

    whole = RewardTraining(given.epochs, given.learning_rate, given.batch_size, given.max_length)
    folder = train_judge(
        JudgeTraining(
            given.labels,
            given.name,
            given.model or EMBEDDED_MODEL,
            tuple(given.against),
            given.licence,
            whole if given.whole_model else None,
            given.seed,
        )
    )
    print(f"wrote {folder}")


if __name__ == "__main__":
    sys.exit(run_guarded(main))
