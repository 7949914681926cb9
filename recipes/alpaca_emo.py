"""Train the same model with cross-entropy and with EMO, let both answer, let a judge compare the answers.

    python recipes/alpaca_emo.py                                   # with a GPU: Llama-2-7B, LoRA; without: the demo
    python recipes/alpaca_emo.py --config alpaca_emo_qwen          # an ungated model
    python recipes/alpaca_emo.py --config recipes/configs/demo.yaml --train.max_steps 40 --name demo40

A flag can override any key of the config. A phase whose result exists is skipped; rerun the command to resume an
interrupted run. This is the instruction-tuning experiment of the EMO paper (Appendix C, Table 9, Figures 3 to 6).
"""

from __future__ import annotations

from study import config_for_machine, recipe_arguments, run_recipe

from instruct.config import load_config
from instruct.phases.experiment import run_experiment


def main(gpu_config: str, description: str | None) -> None:
    """Run the experiment that the command line names: `gpu_config` by default, the demo on a machine without a GPU."""
    arguments, overrides = recipe_arguments(description)
    name = config_for_machine(arguments, gpu_config, "demo")
    if not arguments.config and name == "demo":  # each recipe's demo is a run of its own
        overrides = ["--name", f"{gpu_config}_demo", *overrides]
    config = load_config(name, overrides)
    run_experiment(config, dry_run=arguments.dry_run, first=arguments.first, last=arguments.last)


if __name__ == "__main__":
    run_recipe(lambda: main("alpaca_emo", __doc__))
