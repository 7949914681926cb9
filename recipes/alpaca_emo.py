"""Train the same model with cross-entropy and with EMO, let both answer, let a judge compare: who won?

    python recipes/alpaca_emo.py                                   # a GPU: Llama-2-7B, LoRA; none: the demo
    python recipes/alpaca_emo.py --config alpaca_emo_qwen          # an ungated model
    python recipes/alpaca_emo.py --config recipes/configs/demo.yaml --train.max_steps 40 --name demo40

Any key of the config can be overridden by a flag. A phase whose result is there is skipped; a killed run goes on where
it was. This is the instruction-tuning experiment of the EMO paper (Appendix C, Table 9, Figures 3 to 6).
"""

from __future__ import annotations

import argparse
import sys

from instruct.cli import name_override, print_report, run_guarded, split_overrides


def run_recipe(gpu_config: str, description: str | None) -> None:
    """The experiment, from configuration to report; `gpu_config` on a machine with a GPU, the demo elsewhere."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", help="a YAML file, or the name of one in recipes/configs")
    parser.add_argument("--name", help="the run's name: results go to runs/NAME (default: the config's name)")
    parser.add_argument("--dry-run", action="store_true", help="check access, memory and disk, print the plan, stop")
    rest, overrides = split_overrides(sys.argv[1:])
    arguments = parser.parse_args(rest)

    import torch
    from accelerate import PartialState

    from instruct.config import load_config
    from instruct.experiment import answer_prompts, open_run, run_folder
    from instruct.judging.comparisons import judge_answers
    from instruct.preflight import check_evaluation, check_training
    from instruct.training.train import train_system

    if arguments.name:
        overrides += name_override(arguments.name)
    config = load_config(arguments.config or (gpu_config if torch.cuda.is_available() else "demo"), overrides)
    check_training(config, run_folder(config))
    check_evaluation(config)
    if arguments.dry_run:
        return
    run = open_run(config)
    for system in config.systems:
        train_system(config, system, run)
    if PartialState().num_processes > 1:
        print(f"trained   go on without `accelerate launch`: python {' '.join(sys.argv)}")
        return
    answer_prompts(config, run)
    for judge in config.judges:
        judge_answers(run, judge, judge.comparisons or config.comparisons)
    print_report(run.folder)


if __name__ == "__main__":
    sys.exit(run_guarded(lambda: run_recipe("alpaca_emo", __doc__)))
