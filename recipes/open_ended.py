"""Fine-tune on a corpus with each objective, continue prefixes of its test set, compare with human text by MAUVE.

    python recipes/open_ended.py                 # with a GPU: GPT-2, six corpora, three seeds; without: SmolLM2-135M
    python recipes/open_ended.py --corpus ptb --corpus ag_news
    python recipes/open_ended.py --model.name facebook/opt-125m --name open_ended_opt

Tables 1 and 4 of the EMO paper. Each corpus is a run of its own, runs/NAME_CORPUS; rerun the command to resume. The
control of each system is MLE, sampled at the temperature that gives it that system's entropy: what a system gains over
it is more than sharpening. At the end MAUVE is printed next to the paper's, and written to runs/NAME.md.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from instruct.base.errors import InputError
from instruct.base.output import run_guarded
from instruct.command.arguments import recipe_arguments

CORPORA = ("wikitext2", "wikitext103", "webtext", "ptb", "writing_prompts", "ag_news")
# 168 sentences of PTB's test set are long enough, too few for MAUVE.
FLAGS = {"ptb": ["--continuations.windows", "true"]}
SEEDS = "[0, 1, 2]"
HEAD = ["| corpus | system | MAUVE, ours | seeds | MAUVE, the paper's Table 1 |", "| --- | --- | --: | --: | --: |"]
# MAUVE in percent, Table 1 of the paper: mean of 5 runs of sampling and 3 seeds, in the order of CORPORA.
PAPER: dict[str, dict[str, tuple[float, ...]]] = {
    "gpt2": {
        "mle": (77.5, 77.1, 75.5, 76.1, 83.6, 75.0),
        "tailr": (79.6, 78.0, 76.5, 73.8, 84.1, 75.8),
        "mixce": (78.3, 77.6, 76.3, 76.9, 82.7, 76.6),
        "emo": (87.5, 82.1, 80.5, 79.6, 87.4, 84.9),
    },
    "opt-125m": {
        "mle": (77.2, 75.8, 74.7, 83.6, 84.1, 82.1),
        "tailr": (78.4, 75.2, 74.2, 82.2, 83.4, 81.8),
        "mixce": (78.6, 75.4, 75.3, 81.5, 83.5, 83.2),
        "emo": (82.9, 81.0, 80.7, 86.1, 87.9, 84.8),
    },
}


def table(found: Mapping[str, Mapping[str, float]], corpus: str | None, model: str) -> list[str]:
    """The rows of a corpus: MAUVE in percent, mean and standard deviation over seeds, next to the paper's.

    Args:
        found: by the name without its seed, the MAUVE of each system.
        corpus: of CORPORA; None: another one, of which the paper says nothing.
    """
    paper = PAPER.get(model.rpartition("/")[2], {})
    rows = []
    for name, values in found.items():
        mean = 100 * statistics.fmean(values.values())
        spread = f" ± {100 * statistics.stdev(values.values()):.1f}" if len(values) > 1 else ""
        theirs = f"{paper[name][CORPORA.index(corpus)]:.1f}" if corpus in CORPORA and name in paper else "-"
        rows.append(f"| {corpus or 'own'} | {name} | {mean:.1f}{spread} | {len(values)} | {theirs} |")
    return rows


def by_objective(mauve: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """Systems by their names without seeds: `mle-matched-emo-seed1` is one of `mle-matched-emo`."""
    found: dict[str, dict[str, float]] = {}
    for system, value in mauve.items():
        found.setdefault(re.sub(r"-seed\d+$", "", system), {})[system] = value
    return found


def run(corpora: Sequence[str | None], arguments: argparse.Namespace, overrides: list[str]) -> None:
    """Run each corpus, then print and write the table. One that cannot be run does not keep the others from it.

    Raises:
        InputError: a corpus could not be run.
    """
    from instruct.base.files import write_atomically
    from instruct.config import load_config
    from instruct.measuring.metrics import read_metrics
    from instruct.phases.experiment import run_experiments, run_folder
    from instruct.run.directory import RunDirectory

    name = load_config(arguments.config, overrides).name
    points: dict[str, list[str]] = {}
    for corpus in corpora:
        flags = [] if corpus is None else ["--data.card", corpus, "--continuations.card", f"{corpus}_test"]
        # What the command line says comes last.
        flags = [*flags, *FLAGS.get(corpus or "", []), *overrides]
        points[corpus or name] = [*flags, "--name", name if corpus is None else f"{name}_{corpus}"]
    done, refused = run_experiments(arguments.config, points, arguments.dry_run, arguments.first, arguments.last)
    lines = list(HEAD)
    for point, config in done.items():
        corpus = point if point in corpora else config.data.card
        texts = read_metrics(RunDirectory(run_folder(config))).texts
        mauve = {system: each.mauve.mauve.value for system, each in texts.items() if each.mauve}
        lines += table(by_objective(mauve), corpus, config.model.name)
    if lines != HEAD:
        path = Path("runs") / f"{name}.md"
        write_atomically(path, "\n".join(lines) + "\n")
        print("\n".join([*lines, f"table: {path}"]))
    if refused:
        raise InputError("; ".join(refused))


def main() -> None:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--corpus", action="append", choices=CORPORA)
    own, rest = parser.parse_known_args(sys.argv[1:])
    arguments, overrides = recipe_arguments(rest, __doc__)

    import torch

    small = arguments.config is None and not torch.cuda.is_available()
    arguments.config = arguments.config or ("open_ended_smollm2" if small else "open_ended")
    if arguments.config == "open_ended":
        overrides = ["--seeds", SEEDS, *overrides]
    corpora = own.corpus or (CORPORA if arguments.config == "open_ended" else [None])
    run(corpora, arguments, overrides)


if __name__ == "__main__":
    sys.exit(run_guarded(main))
