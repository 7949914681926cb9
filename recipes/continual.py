"""Fine-tune a language model on a little more text with each objective, then let it answer few-shot tasks.

    python recipes/continual.py                       # with a GPU: LLaMA-7B on WikiText-103; without: SmolLM2-135M
    python recipes/continual.py --base llama-7b --base opt-2.7b
    python recipes/continual.py --dry-run             # the plan alone

Tables 3 and 6 to 8 of the EMO paper. Each base model is a run of its own, runs/NAME_BASE; rerun the command to resume.
The report of each run has intervals, McNemar's tests and what the demonstrations alone reach. At the end our accuracies
are printed next to the paper's, and written to runs/NAME.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from instruct.base.errors import InputError
from instruct.base.output import run_guarded
from instruct.command.arguments import recipe_arguments

TASKS = ("tweet_emotion", "sst2", "trec", "subj", "cr", "rt", "ag_news", "mmlu")
BASES = {
    "llama-7b": "huggyllama/llama-7b",
    "llama-13b": "huggyllama/llama-13b",
    "llama2-7b": "meta-llama/Llama-2-7b-hf",
    "llama2-13b": "meta-llama/Llama-2-13b-hf",
    "opt-2.7b": "facebook/opt-2.7b",
}
# Accuracy in percent, in the order of TASKS: Table 3 (LLaMA), 6 and 7 (Llama 2) and 8 (OPT) of the paper.
PAPER: dict[str, dict[str, tuple[float, ...]]] = {
    "llama-7b": {
        "base": (54.1, 94.7, 77.8, 74.7, 91.4, 90.0, 85.6, 31.4),
        "mle": (53.5, 94.8, 79.0, 74.5, 92.0, 91.8, 85.5, 31.9),
        "tailr": (56.2, 94.9, 79.6, 76.8, 92.0, 91.9, 86.3, 33.2),
        "mixce": (60.0, 95.0, 81.2, 78.5, 92.0, 91.8, 87.5, 33.9),
        "emo": (65.6, 95.2, 83.4, 79.2, 92.0, 92.1, 89.4, 34.8),
    },
    "llama-13b": {
        "base": (58.5, 95.6, 81.2, 77.4, 91.2, 91.0, 84.5, 44.5),
        "mle": (58.6, 95.5, 79.8, 76.9, 92.0, 91.3, 84.3, 44.9),
        "tailr": (61.9, 95.5, 81.0, 78.5, 92.3, 91.4, 85.6, 45.9),
        "mixce": (65.7, 95.6, 82.8, 80.6, 92.0, 91.3, 85.9, 46.7),
        "emo": (70.4, 95.9, 85.2, 81.1, 92.6, 92.2, 88.4, 47.5),
    },
    "llama2-7b": {
        "base": (56.7, 95.4, 74.6, 76.2, 93.6, 91.6, 86.2, 43.6),
        "mle": (58.4, 95.8, 72.4, 74.6, 93.4, 92.1, 86.0, 43.3),
        "tailr": (62.4, 95.9, 74.6, 81.0, 92.8, 92.5, 87.4, 44.4),
        "mixce": (66.5, 95.9, 77.6, 82.5, 93.1, 92.1, 88.0, 45.1),
        "emo": (69.0, 95.8, 78.0, 83.1, 93.4, 92.8, 88.1, 45.5),
    },
    "llama2-13b": {
        "base": (60.4, 95.5, 80.4, 81.7, 91.2, 90.1, 86.5, 54.7),
        "mle": (60.9, 95.8, 81.0, 81.8, 90.9, 89.6, 86.2, 54.3),
        "tailr": (61.7, 96.2, 80.4, 81.4, 91.5, 90.5, 87.2, 54.5),
        "mixce": (64.4, 95.7, 83.6, 84.7, 91.2, 90.4, 87.4, 55.0),
        "emo": (70.7, 96.2, 85.8, 89.9, 91.2, 91.7, 89.6, 55.2),
    },
    "opt-2.7b": {
        "base": (65.7, 92.9, 68.6, 85.5, 92.5, 87.6, 84.3, 24.4),
        "mle": (67.3, 88.7, 66.8, 83.4, 91.5, 81.3, 84.4, 24.9),
        "tailr": (67.1, 92.9, 70.4, 88.2, 92.6, 87.1, 84.0, 24.7),
        "mixce": (66.8, 93.1, 70.6, 88.8, 92.8, 87.4, 84.1, 25.0),
        "emo": (68.6, 93.7, 73.6, 87.6, 92.8, 86.0, 87.6, 25.6),
    },
}


def table(found: Mapping[str, Mapping[str, float]], base: str | None) -> list[str]:
    """Our accuracies in percent, a row for each system, and below each the paper's, marked as such.

    Args:
        found: accuracy by system and task.
        base: of BASES; None: another model, of which the paper says nothing.
    """
    tasks = list(dict.fromkeys(task for own in found.values() for task in own))
    lines = [f"| system | {' | '.join(tasks)} |", f"| --- |{' --: |' * len(tasks)}"]
    for system, own in found.items():
        lines.append(_row(system, [own.get(task) for task in tasks]))
        theirs = PAPER.get(base or "", {}).get(system)
        if theirs:
            known = dict(zip(TASKS, theirs, strict=True))
            lines.append(_row(f"{system}, the paper", [known.get(task) for task in tasks]))
    return lines


def _row(name: str, values: Sequence[float | None]) -> str:
    return f"| {name} | {' | '.join('-' if value is None else f'{value:.1f}' for value in values)} |"


def run(bases: Sequence[str | None], arguments: argparse.Namespace, overrides: list[str]) -> None:
    """Run the experiment with each base model, then print and write the tables. One that fails does not keep others.

    Raises:
        InputError: a run could not be done.
    """
    from instruct.base.files import write_atomically
    from instruct.config import load_config
    from instruct.measuring.metrics import read_metrics
    from instruct.phases.experiment import run_experiments, run_folder
    from instruct.run.directory import RunDirectory

    name = load_config(arguments.config, overrides).name
    points: dict[str, list[str]] = {}
    for base in bases:
        flags = [] if base is None else ["--model.name", BASES[base]]
        points[base or name] = [*flags, *overrides, "--name", name if base is None else f"{name}_{base}"]
    done, refused = run_experiments(arguments.config, points, arguments.dry_run, arguments.first, arguments.last)
    lines: list[str] = []
    for point, config in done.items():
        base = point if point in bases else None
        tasks = read_metrics(RunDirectory(run_folder(config))).tasks
        found = {
            system: {key: each.accuracy for key, each in results.root.items()} for system, results in tasks.items()
        }
        lines += ["", f"{base or config.model.name}, accuracy in percent", "", *table(found, base)]
    if lines:
        path = Path("runs") / f"{name}.md"
        write_atomically(path, "\n".join(lines[1:]) + "\n")
        print("\n".join([*lines, f"table: {path}"]))
    if refused:
        raise InputError("; ".join(refused))


def main() -> None:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--base", action="append", choices=BASES)
    own, rest = parser.parse_known_args(sys.argv[1:])
    arguments, overrides = recipe_arguments(rest, __doc__)

    import torch

    small = arguments.config is None and not torch.cuda.is_available() and not own.base
    arguments.config = arguments.config or ("continual_smollm2" if small else "continual")
    given = any(flag.startswith("--model.name") for flag in overrides)
    bases = own.base or (["llama-7b"] if arguments.config == "continual" and not given else [None])
    run(bases, arguments, overrides)


if __name__ == "__main__":
    sys.exit(run_guarded(main))
