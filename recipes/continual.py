"""Fine-tune a language model on a little more text with each objective, then let it answer few-shot tasks.

    python recipes/continual.py                       # with a GPU: LLaMA-7B on WikiText-103; without: SmolLM2-135M
    python recipes/continual.py --base llama-7b --base opt-2.7b
    python recipes/continual.py --dry-run             # the plan alone

Tables 3 and 6 to 8 of the EMO paper. Each base model is a run of its own, runs/NAME_BASE; rerun the command to resume.
At the end our accuracies are printed next to the paper's and what the demonstrations alone reach, and written to
runs/NAME.md; `instruct compare` tests the differences.
"""

from __future__ import annotations

from collections.abc import Mapping

from few_shot import FLAGS, accuracies, floors, measured_tasks
from study import Finished, config_for_machine, markdown, paper, recipe_arguments, run_points, run_recipe

from instruct.config import load_config

BASES = {
    "llama-7b": "huggyllama/llama-7b",
    "llama-13b": "huggyllama/llama-13b",
    "llama2-7b": "meta-llama/Llama-2-7b-hf",
    "llama2-13b": "meta-llama/Llama-2-13b-hf",
    "opt-2.7b": "facebook/opt-2.7b",
}


def table(
    found: Mapping[str, Mapping[str, float]], base: str | None, alone: Mapping[str, float] | None = None
) -> list[str]:
    """Our accuracies in percent, a row for each system, and below each the paper's, marked as such.

    Args:
        found: accuracy by system and task.
        base: of BASES; None: another model, of which the paper says nothing.
        alone: by task, what the vote of the demonstrations' labels reaches.
    """
    tasks = list(dict.fromkeys(task for own in found.values() for task in own))
    rows = []
    for system, ours in [*found.items(), *([("retrieval alone", alone)] if alone else [])]:
        theirs = paper("table_3").get(base or "", {}).get(system)
        for name, values in ((system, ours), (f"{system}, the paper", theirs)):
            if values:
                rows.append([name, *(f"{values[task]:.1f}" if task in values else "-" for task in tasks)])
    return markdown(["system", *tasks], rows)


def tables(finished: Finished) -> list[str]:
    """The table of each base model."""
    lines: list[str] = []
    for base, (config, metrics) in finished.items():
        rows = table(accuracies(metrics), base, floors(config))
        lines += [f"{base or config.model.name}, accuracy in percent", "", *rows, ""]
    return lines[:-1]


def main() -> None:
    arguments, overrides = recipe_arguments(__doc__, base={"action": "append", "choices": BASES}, **FLAGS)
    small = "continual" if arguments.base else "continual_smollm2"
    arguments.config = config_for_machine(arguments, "continual", small)
    own_model = any(flag.startswith("--model.name") for flag in overrides)
    bases = arguments.base or (["llama-7b"] if arguments.config == "continual" and not own_model else [None])
    points = {base: [*(["--model.name", BASES[base]] if base else []), *overrides] for base in bases}
    run_points(load_config(arguments.config, overrides).name, points, arguments, tables, measured_tasks)


if __name__ == "__main__":
    run_recipe(main)
