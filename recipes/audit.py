"""Which objectives help a small chat model, where it knows the form of the answers and where it does not?

    python recipes/audit.py --data.files alpaca_gpt4.jsonl --evaluation.tasks.folder FOLDER
    timeout --signal INT 2h python recipes/audit.py ...         # in pieces: rerun the command to resume

Runs `instruct bench` once for each cell: ten objectives with LoRA and five seeds, on dates in a made-up notation that
the recipe writes (runs/audit_dates) and on Alpaca-GPT4 (runs/audit_alpaca); four of them with all weights and two seeds
(runs/audit_dates_full, runs/audit_alpaca_full). MLE with other numbers of steps is a control. Then compares
the untrained model with MLE, and each objective with MLE in the thirds of the test rows by the untrained model's
cross-entropy (runs/audit.md), of the cells that are done.

What is tested and what would be concluded is in docs/results/audit_smollm2/plan.md, written before the first training.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path

import yaml
from study import RecipeParser, markdown, run_recipe, write_table

from instruct.analysis.claims import settle
from instruct.analysis.results import Claim
from instruct.base.errors import InputError
from instruct.base.files import write_atomically
from instruct.command.flags import split_overrides
from instruct.config import load_config, make_config
from instruct.phases.bench import BenchOptions, bench
from instruct.phases.experiment import run_experiment, run_folder
from instruct.reporting.bench import (
    ENTROPY,
    EXACT,
    GREEDY,
    MLE,
    RATE,
    Measured,
    Scores,
    bench_results,
    claim_between,
    measured_in,
)
from instruct.reporting.read import read_run
from instruct.reporting.text import difference, finding
from instruct.run.measurements import Measurement
from instruct.training.options import SystemOptions, without_seed

FOLDER = Path("runs/audit-rows")
CHOOSING, TESTING, DATES = 150, 300, 834
THIRDS = ("likeliest", "middle", "unlikeliest")
FULL, FULL_RATES = ("mle", "emo", "dft", "power"), [1e-5, 3e-5, 1e-4]
CONTROLS = {"mle_tenth": 0.1, "mle_half": 0.5, "mle_double": 2.0}
MONTHS = ("vor", "ith", "quel", "dam", "ush", "pel", "gon", "zir", "bask", "nool", "fenn", "tark")
LETTERS = "kymosbaltu"
# The model's own template without the system prompt that it puts before every chat.
TEMPLATE = (
    "{%- for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif -%}\n"
)


def main() -> None:
    parser = RecipeParser(__doc__)
    parser.add_argument("--cells", help="the cells to run, with commas between them (default: all, in this order)")
    parser.add_argument("--dry-run", action="store_true", help="check access and memory, print the plan and stop")
    rest, overrides = split_overrides(sys.argv[1:])
    arguments = parser.parse_args(rest)
    write_atomically(FOLDER / "chat.jinja", TEMPLATE)
    write_atomically(FOLDER / "dates.jsonl", "".join(json.dumps(row) + "\n" for row in velth_dates(DATES, seed=1)))
    template = ["--data.chat_template", str(FOLDER / "chat.jinja")]
    dates = [*template, "--data.files", f"[{FOLDER}/dates.jsonl]"]
    cells = {
        "dates": ("audit_dates", dates),
        "alpaca": ("audit_alpaca", template),
        "dates_full": ("audit_dates", [*dates, "--name", "audit_dates_full", "--lora", "null"]),
        "alpaca_full": ("audit_alpaca", [*template, "--name", "audit_alpaca_full", "--lora", "null"]),
    }
    chosen = arguments.cells.split(",") if arguments.cells else list(cells)
    if unknown := [cell for cell in chosen if cell not in cells]:
        raise InputError(f"--cells {unknown[0]}: unknown; use {', '.join(cells)}")
    finished: dict[str, Path] = {}
    for cell in chosen:
        config, flags = cells[cell]
        full = cell.endswith("_full")
        options = BenchOptions(choosing=CHOOSING, testing=TESTING, seeds=2 if full else 5)
        if full:
            options.rates = FULL_RATES
        experiment = load_config(config, [*overrides, *flags])
        if full:
            experiment.systems = {key: system for key, system in experiment.systems.items() if key in ("base", *FULL)}
        bench(experiment, options, arguments.dry_run)
        finished[cell] = run_folder(experiment)
        if not (full or arguments.dry_run):
            experiment.systems |= trained_controls(finished[cell])
            bench(experiment, options)
    if not arguments.dry_run:
        contents = {cell: read_run(folder) for cell, folder in finished.items()}
        lines = thirds_table({cell: measured_in(found) for cell, found in contents.items()})
        for cell, found in contents.items():
            results = bench_results(found)
            assert results is not None
            lines += ["", cell, "", *figures_table(results.measurements), "", *rates_table(results.measurements)]
        write_table(Path("runs/audit.md"), lines)


def trained_controls(cell: Path) -> dict[str, SystemOptions]:
    """MLE with a tenth, half and twice of a finished cell's steps, with its learning rate and seeds, as arms."""
    done = yaml.safe_load((cell / "config.yaml").read_text(encoding="utf-8"))
    mle = {key: system for key, system in done["systems"].items() if without_seed(key, system["seed"]) == "mle"}
    arms = {}
    for name, share in CONTROLS.items():
        steps = round(share * done["train"]["max_steps"])
        content = done | {
            "name": f"{done['name']}-{name}",
            "systems": mle,
            "train": done["train"] | {"max_steps": steps, "eval_steps": steps, "save_steps": steps},
            **dict.fromkeys(("answers", "continuations", "evaluation", "primary")),
            "comparisons": [],
        }
        control = make_config(content, [], name)
        run_experiment(control, last="train")
        folders = [str(run_folder(control) / "adapters" / key) for key in control.trained]
        arms[name] = SystemOptions(objective="none", adapter=folders)
    return arms


def velth_dates(count: int, seed: int) -> Iterator[dict[str, str]]:
    """Different days of the years 2000 to 2099 in a notation that no text has: a word for the month, the day, the
    tens of the year and a letter for its ones, as in "gon 14'3y" for 14 July 2031."""
    first = date(2000, 1, 1).toordinal()
    for ordinal in random.Random(seed).sample(range(first, date(2100, 1, 1).toordinal()), count):
        day = date.fromordinal(ordinal)
        tens, ones = divmod(day.year % 100, 10)
        yield {
            "instruction": f"Velth date of {day.day} {day:%B} {day.year}?",
            "output": f"{MONTHS[day.month - 1]} {day.day}'{tens}{LETTERS[ones]}",
        }


def thirds_table(cells: Mapping[str, Measured]) -> list[str]:
    """The untrained model minus MLE, and each objective minus MLE in the thirds of the test rows, whose tests are
    corrected together in each cell."""
    rows = []
    for cell, measured in cells.items():
        for claims in (untrained(measured), thirds(measured)):
            settle(claims)
            for claim in claims:
                third = claim.params.get("third", "all")
                rows.append([cell, claim.measure, third, claim.candidate, difference(claim), finding(claim)])
    return markdown(["cell", "measure", "rows", "objective", "minus MLE (95 % CI)", "finding"], rows, left=4)


def figures_table(figures: Sequence[Measurement]) -> list[str]:
    """Of each system the learning rate, and the means over its trainings with the standard deviation between them."""
    found = {(row.system, row.metric): row for row in figures}
    primary = EXACT if any(metric == EXACT for _, metric in found) else GREEDY

    def cell(system: str, metric: str, digits: int) -> str:
        row = found.get((system, metric))
        if row is None or row.value is None:
            return "-"
        deviation = getattr(row.details, "deviation", None)
        return f"{row.value:.{digits}f}" + (f" ± {deviation:.{digits}f}" if deviation is not None else "")

    rows = []
    for system in dict.fromkeys(row.system for row in figures):
        rate = found.get((system, RATE))
        shown = "-" if rate is None or rate.value is None else f"{rate.value:g}"
        rows.append([system, shown, *(cell(system, *about) for about in ((primary, 4), (ENTROPY, 4), ("entropy", 3)))])
    return markdown(["system", "learning rate", primary, ENTROPY, "entropy"], rows, left=1)


def rates_table(figures: Sequence[Measurement]) -> list[str]:
    """The cross-entropy on the rows that choose by objective and learning rate."""
    rates_of = {row.system: getattr(row.details, "rates", {}) for row in figures if row.metric == RATE}
    tried = {system: scores for system, scores in rates_of.items() if scores}
    rates = sorted({rate for scores in tried.values() for rate in scores}, key=float)
    rows = [[system, *(_nats(scores, rate) for rate in rates)] for system, scores in tried.items()]
    return markdown(["objective", *rates], rows, left=1)


def _nats(scores: Mapping[str, float | None], rate: str) -> str:
    if rate not in scores:
        return "-"
    return "diverged" if scores[rate] is None else f"{scores[rate]:.4f}"


def compared_by(measured: Measured) -> tuple[str, str]:
    """The primary outcome of a cell, and cross-entropy."""
    return EXACT if EXACT in measured.scores else GREEDY, ENTROPY


def untrained(measured: Measured) -> list[Claim]:
    """The claims of a cell's positive control by measure: the untrained model, which no seed changes, minus MLE."""
    about = {"candidate": "base", "baseline": MLE, "family": "untrained", "params": {}}
    claims = []
    for measure in compared_by(measured):
        mle = measured.of(measure, measured.names[MLE])
        claims.append(claim_between(measure, [measured.scores[measure]["base"]] * len(mle), mle, None, **about))
    return claims


def thirds(measured: Measured) -> list[Claim]:
    """The claims of a cell by third of the untrained model's cross-entropy and by measure, of what is measured.

    Raises:
        InputError: the rows of a measure are not those of cross-entropy.
    """
    scores, names = measured.scores, measured.names
    by_likelihood = sorted(scores[ENTROPY]["base"], key=lambda key: scores[ENTROPY]["base"][key] or 0.0)
    claims = []
    for place, third in enumerate(THIRDS):
        ids = set(by_likelihood[place * len(by_likelihood) // 3 : (place + 1) * len(by_likelihood) // 3])
        for measure in compared_by(measured):
            if not ids <= scores[measure][names[MLE][0]].keys():
                raise InputError(f"{measure} and cross-entropy name their rows in two ways; no thirds")
            mle = within(ids, scores[measure], names[MLE])
            for key in names:
                if key != MLE and measured.of(measure, names[key]):
                    ours = within(ids, scores[measure], names[key])
                    about = {"candidate": key, "baseline": MLE, "family": "thirds", "params": {"third": third}}
                    claims.append(claim_between(measure, ours, mle, None, **about))
    return claims


def within(ids: set[str], scores: Mapping[str, Scores], names: Sequence[str]) -> list[Scores]:
    """The scores of some rows alone."""
    return [{key: score for key, score in scores[name].items() if key in ids} for name in names]


if __name__ == "__main__":
    run_recipe(main)
