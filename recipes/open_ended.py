"""Fine-tune on a corpus with each objective, continue prefixes of its test set, compare with human text by MAUVE.

    python recipes/open_ended.py                 # with a GPU: GPT-2, six corpora, three seeds; without: SmolLM2-135M
    python recipes/open_ended.py --corpus ptb --corpus ag_news
    python recipes/open_ended.py --model.name facebook/opt-125m --name open_ended_opt

Tables 1 and 4 of the EMO paper. Each corpus is a run of its own, runs/NAME_CORPUS; rerun the command to resume. The
control of each system is MLE, sampled at the temperature that gives it that system's entropy: what a system gains over
it is more than sharpening. At the end MAUVE is printed next to the paper's, and written to runs/NAME.md.
"""

from __future__ import annotations

from collections.abc import Mapping

import study
from study import by_system, markdown, mean_and_spread, numbers, paper, recipe_arguments, run_points

from instruct.config import load_config

CORPORA = ("wikitext2", "wikitext103", "webtext", "ptb", "writing_prompts", "ag_news")
# 168 sentences of PTB's test set are long enough, too few for MAUVE.
FLAGS = {"ptb": ["--continuations.windows", "true"]}
SEEDS = "[0, 1, 2]"
HEADER = ("corpus", "system", "MAUVE, ours", "seeds", "MAUVE, the paper's Table 1")


def rows(mauve: Mapping[str, float], corpus: str | None, model: str) -> list[list[str]]:
    """The rows of a corpus: MAUVE in percent, mean and standard deviation over seeds, next to the paper's.

    Args:
        mauve: of each system.
        corpus: of CORPORA; None: another one, of which the paper says nothing.
    """
    figures = paper("table_1").get(model.rpartition("/")[2], {})
    lines = []
    for name, values in by_system(mauve).items():
        theirs = figures.get(name, {}).get(corpus or "")
        ours = mean_and_spread([100 * value for value in values], 1)
        lines.append([corpus or "own", name, ours, str(len(values)), "-" if theirs is None else f"{theirs:.1f}"])
    return lines


def table(finished: study.Finished) -> list[str]:
    """The rows of all corpora."""
    lines: list[list[str]] = []
    for corpus, (config, metrics) in finished.items():
        scores = {system: values["MAUVE"] for system, values in numbers(metrics, ["MAUVE"]).items()}
        mauve = {system: value for system, value in scores.items() if value is not None}
        lines += rows(mauve, corpus or config.data.card, config.model.name)
    return markdown(HEADER, lines, left=2) if lines else []


def main() -> None:
    arguments, overrides = recipe_arguments(__doc__, corpus={"action": "append", "choices": CORPORA})
    arguments.config = study.config_for_machine(arguments, "open_ended", "open_ended_smollm2")
    papers = arguments.config == "open_ended"
    if papers:
        overrides = ["--seeds", SEEDS, *overrides]
    points: dict[str | None, list[str]] = {}
    for corpus in arguments.corpus or (CORPORA if papers else [None]):
        flags = ["--data.card", corpus, "--continuations.card", f"{corpus}_test"] if corpus else []
        points[corpus] = [*flags, *FLAGS.get(corpus, []), *overrides]  # what the command line says comes last
    run_points(load_config(arguments.config, overrides).name, points, arguments, table)


if __name__ == "__main__":
    study.run_recipe(main)
