"""Does EMO only sharpen? Every objective against a truth that is known exactly: word pairs of a corpus, as a table.

    python recipes/tabular_truth.py --files ptb.train.txt.gz            # some 10 minutes of one core
    python recipes/tabular_truth.py --files ptb.train.txt.gz --dry-run

The truth is the distribution of the next word after each of the 300 most frequent words; the model is a table of
logits, which can express it. The transport costs, and the embeddings of energy, are those of a language model's tokens.
Each objective is optimized on the truth itself (infinite data: what is the objective's optimum?) and on 50,000 pairs
drawn from it, from three seeds. With samples it is stopped by two rules: where the cross-entropy of 10,000 other pairs
is lowest, and, because that is MLE's own loss, where the Jensen-Shannon divergence from them is. Next to each stands
the control: MLE at the temperature that has the objective's entropy. It is the exact sister of recipes/oracle.py, whose
PPL_oracle is exp(reverse cross-entropy) here: report.md has the temperatures that give MLE each objective's, and half
of its own.

The objectives are all of `instruct`'s; those that read each row of logits (gem, eaft_top) take an hour each with more
than 100 words and are left out there: --words 100 has all.

Results go to runs/NAME: results.json, report.md and a figure, without any word of the corpus. A finished optimization
is not repeated; rerun the command to resume.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from scratch import word_vectors
from study import markdown, run_recipe

from instruct.base.errors import InputError
from instruct.base.files import write_atomically
from instruct.data.cards import load_dataset_card
from instruct.data.rows import load_rows
from instruct.measuring.texts.predictions import DISTANCES, matching_temperatures, position_distances
from instruct.objectives import LogitLoss, Objective
from instruct.objectives.check import Expectation, descent, jensen_shannon
from instruct.reporting.figures.canvas import COLORS, FAINT, Drawing, axes_at, empty_figure
from instruct.training.emo_config import objective_of
from instruct.training.objective_names import OBJECTIVES

FINITE_JS = "finite, JS"
SMOOTHING = 0.01  # added to every count: the reverse cross-entropy needs a truth that is nowhere 0
FIGURES = ("forward_cross_entropy", "reverse_cross_entropy", "jensen_shannon", "total_variation", "entropy")
HEADINGS = ("forward CE", "reverse CE", "Jensen-Shannon", "total variation", "entropy")


# Objectives with arguments of their own; all others stand in the table with their defaults.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "MLE": ("mle", {}),
    "EMO, paper": ("emo", {"variant": "paper"}),
    "EMO, official": ("emo", {"variant": "official"}),
    "EMO, pypi": ("emo", {"variant": "pypi"}),
    "EMO, mode 2": ("emo", {"variant": "official", "emphasis": "emo"}),
    "energy, λ 2": ("energy", {"weight": 2.0}),
    "energy, λ 10": ("energy", {"weight": 10.0}),
    "energy, λ 50": ("energy", {"weight": 50.0}),
    "MixCE, γ 0.8": ("mixce", {"gamma": 0.8}),
    "TaiLr, γ 0.8": ("tailr", {"gamma": 0.8}),
    "TaiLr official, γ 0.8": ("tailr", {"gamma": 0.8, "variant": "official"}),
    "DFT": ("dft", {}),
    "ENT, 1.3": ("ent", {"threshold": 1.3}),
    "power, k 0.5": ("power", {"k": 0.5}),
}
# MLE on a part of the tokens has nothing of its own in expectation; a table has no reference model.
LEFT_OUT = ("goldfish", "asft", "distillation")
LARGEST_WITH_LOGITS = 100  # words; a loss that reads logits takes each row once for each label


def objectives(words: int = 0) -> dict[str, Objective]:
    """All of the package's objectives that a table of so many words can be optimized with, by heading."""
    varied = {name for name, _ in VARIANTS.values()}
    named = VARIANTS | {name: (name, {}) for name in OBJECTIVES if name not in varied and name not in LEFT_OUT}
    chosen = {heading: objective_of(name, arguments) for heading, (name, arguments) in named.items()}
    if words > LARGEST_WITH_LOGITS:
        chosen = {heading: objective for heading, objective in chosen.items() if not isinstance(objective, LogitLoss)}
    return chosen


@dataclass(frozen=True)
class Table:
    """`contexts`: the share of each word; `truth`: of each word, the distribution of the next; `vectors`: their
    embeddings. (words,), (words, words), (words, width), float64."""

    contexts: torch.Tensor
    truth: torch.Tensor
    vectors: torch.Tensor


def read_table(given: argparse.Namespace) -> Table:
    """The truth and the words' embeddings: the mean of their tokens' rows in the model's head."""
    card = load_dataset_card(given.card) if given.card else None
    rows = load_rows(card, files=given.files, format=None if card else "text")
    texts = [str(row["text"]).split() for row in rows.rows]
    counts = Counter(word for text in texts for word in text if word not in given.leave_out)
    words = [word for word, _ in counts.most_common(given.words)]
    if len(words) < given.words:
        raise InputError(f"{given.card or given.files[0]}: has {len(words)} different words; lower --words")
    place = {word: number for number, word in enumerate(words)}
    pairs = torch.zeros(len(words), len(words), dtype=torch.float64)
    for text in texts:
        for first, second in itertools.pairwise(text):
            if first in place and second in place:
                pairs[place[first], place[second]] += 1
    truth = pairs + SMOOTHING
    vectors = word_vectors([f" {word}" for word in words], given.model, "float64")
    return Table(pairs.sum(dim=1) / pairs.sum(), truth / truth.sum(dim=1, keepdim=True), vectors)


def optimize(
    expectation: Expectation, shares: torch.Tensor, given: argparse.Namespace, seed: int, held_out: torch.Tensor | None
) -> dict[str, tuple[torch.Tensor, int]]:
    """The log-probabilities that minimize the loss, by Adam from random logits, and the step that they are from.

    With `held_out` shares: those that are nearest to them, by cross-entropy and by the Jensen-Shannon divergence.
    """
    generator = torch.Generator().manual_seed(seed)
    start = logits = 0.1 * torch.randn(shares.shape, generator=generator, dtype=shares.dtype)
    if held_out is None:  # every context counts alike: each has its own row of the table
        *_, logits = descent(expectation, shares, start, given.steps, 0.3)
        return {"infinite": (torch.log_softmax(logits, dim=-1), given.steps)}
    best: dict[str, tuple[float, int, torch.Tensor]] = {}
    counts = held_out.sum(dim=-1)
    empirical = (held_out / counts.clamp(min=1e-12)[:, None]).clamp(min=1e-300).log()
    for step, logits in enumerate(descent(expectation, shares, start, given.steps, 0.02), start=1):
        logs = torch.log_softmax(logits, dim=-1)
        distances = {"finite": -(held_out * logs).sum(), FINITE_JS: counts @ jensen_shannon(empirical, logs)}
        for rule, distance in distances.items():
            if rule not in best or float(distance) < best[rule][0]:
                best[rule] = float(distance), step, logs
    return {rule: (logs, step) for rule, (_, step, logs) in best.items()}


def measured(logs: torch.Tensor, table: Table) -> dict[str, float]:
    """The model's distances from the truth and its entropy: means over contexts, by their shares."""
    figures = dict(zip(DISTANCES, position_distances(table.truth.log(), logs), strict=True))
    figures["entropy"] = -(logs.exp() * logs).sum(dim=-1)
    return {name: float((table.contexts * figures[name]).sum()) for name in FIGURES}


def at_temperature(logs: torch.Tensor, temperature: float) -> torch.Tensor:
    return (logs / temperature).log_softmax(dim=-1)


def control(mle: torch.Tensor, figure: str, value: float, table: Table) -> dict[str, float] | None:
    """MLE at the temperature that has this entropy, or this reverse cross-entropy; None: no temperature has."""

    def figures(temperatures: list[float]) -> list[float]:
        return [measured(at_temperature(mle, at), table)[figure] for at in temperatures]

    matched = matching_temperatures(figures, {"": value})
    if not matched:
        return None
    temperature, _ = matched[""]
    return {"temperature": temperature, **measured(at_temperature(mle, temperature), table)}


def drawn(table: Table, count: int, seed: int) -> torch.Tensor:
    """The shares of `count` pairs drawn from the truth."""
    joint = (table.contexts[:, None] * table.truth).flatten()
    pairs = torch.multinomial(joint, count, replacement=True, generator=torch.Generator().manual_seed(seed))
    return torch.bincount(pairs, minlength=len(joint)).reshape(table.truth.shape).double() / count


def run(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Optimize what is not in results.json yet."""
    table = read_table(given)
    settings = {name: getattr(given, name) for name in ("words", "leave_out", "model", "samples", "held_out", "steps")}
    path = folder / "results.json"
    results: dict[str, Any] = {"settings": settings, "rows": []}
    if path.is_file():
        results = json.loads(path.read_text())
    if results["settings"] != settings:
        raise InputError(f"{path}: was made with other flags; choose another --name or delete it")
    results["truth"] = measured(table.truth.log(), table)
    done = {(row["data"], row["objective"], row["seed"]) for row in results["rows"]}
    names = objectives(given.words)
    for rules, seed in itertools.product((["infinite"], ["finite", FINITE_JS]), given.seeds):
        missing = {name: [rule for rule in rules if (rule, name, seed) not in done] for name in names}
        if not any(missing.values()):
            continue
        shares, held_out = table.truth, None
        if "finite" in rules:
            shares, held_out = drawn(table, given.samples, seed), drawn(table, given.held_out, seed + 10_000)
        mle: dict[str, tuple[torch.Tensor, int]] = {}
        for name in (name for name in names if name == "MLE" or missing[name]):  # MLE first, which others need
            ends = optimize(Expectation(names[name], table.vectors), shares, given, seed, held_out)
            mle = mle or ends
            for rule in missing[name]:
                row = {"data": rule, "objective": name, "seed": seed, "step": ends[rule][1]}
                row |= compared(ends[rule][0], None if name == "MLE" else mle[rule][0], table)
                results["rows"].append(row)
                print(f"{rule:10} seed {seed}  {name:22} entropy {row['entropy']:.3f}", flush=True)
            write_atomically(path, json.dumps(results, indent=1) + "\n")
    return results


def compared(logs: torch.Tensor, mle: torch.Tensor | None, table: Table) -> dict[str, Any]:
    """A model's figures and its controls'; of MLE itself (None), the curve of its temperatures and the one that halves
    its perplexity under the truth."""
    figures = measured(logs, table)
    reverse = figures["reverse_cross_entropy"]
    if mle is not None:
        by = {"control": "entropy", "same_reverse": "reverse_cross_entropy"}
        return figures | {key: control(mle, figure, figures[figure], table) for key, figure in by.items()}
    temperatures = [0.5 + 0.05 * number for number in range(15)]
    curve = [[at, measured(at_temperature(logs, at), table)] for at in temperatures]
    halved = control(logs, "reverse_cross_entropy", reverse - math.log(2), table)
    return figures | {"control": None, "halved": halved, "curve": curve}


def summarized(results: dict[str, Any], data: str) -> list[dict[str, Any]]:
    """A line per objective: the means over seeds and the largest distance of a seed from it."""
    names = dict.fromkeys(row["objective"] for row in results["rows"] if row["data"] == data)
    lines = []
    for name in names:
        rows = [row for row in results["rows"] if (row["data"], row["objective"]) == (data, name)]
        line: dict[str, Any] = {"objective": name}
        for figure in FIGURES:
            line[figure] = statistics.mean(row[figure] for row in rows)
            line[f"{figure}_spread"] = max(abs(row[figure] - line[figure]) for row in rows)
        for key in ("control", "same_reverse", "halved"):
            controls = [row.get(key) for row in rows]
            by_figure = {figure: [row[figure] for row in controls] for figure in controls[0]} if all(controls) else None
            line[key] = by_figure and {figure: statistics.mean(values) for figure, values in by_figure.items()}
            line[f"{key}_range"] = by_figure and (min(by_figure["temperature"]), max(by_figure["temperature"]))
        lines.append(line)
    return lines


def report_text(results: dict[str, Any]) -> str:
    """report.md: for infinite data and for samples by each rule, a table of the objectives and one of temperatures."""
    settings, seeds = results["settings"], len({row["seed"] for row in results["rows"]})
    text = [
        "# Tabular truth\n",
        f"{settings['words']} words, costs from {settings['model']}; {seeds} seeds. Means over contexts in nats; the "
        "Jensen-Shannon divergence and the total variation of each context's next word, too. ± is the largest distance "
        f"of a seed from the mean. The truth has an entropy of {results['truth']['entropy']:.3f}.\n",
        "![Precision and recall](precision_recall.svg)\n",
    ]
    samples = f"{settings['samples']:,} samples, stopped by the"
    for data, title in (
        ("infinite", "Infinite data: each objective's own optimum"),
        ("finite", f"{samples} cross-entropy of {settings['held_out']:,} others"),
        (FINITE_JS, f"{samples} Jensen-Shannon divergence from {settings['held_out']:,} others"),
    ):
        if not (lines := summarized(results, data)):
            continue
        rows = []
        for line in lines:
            cells = [f"{line[name] + 0:.4f} ± {line[f'{name}_spread']:.4f}" for name in FIGURES]
            rows.append([line["objective"], *cells])
            if line["control"]:
                cells = [f"{max(line['control'][name], 0):.4f}" for name in FIGURES]
                rows.append([f"MLE at temperature {line['control']['temperature']:.2f}", *cells])
            elif line["objective"] != "MLE":
                rows.append(["MLE at no temperature", *[""] * len(FIGURES)])
        text += [f"## {title}\n", *markdown(["", *HEADINGS], rows), ""]
        if any(line["same_reverse"] for line in lines):
            text += [*temperatures_text(lines), ""]
    return "\n".join(text)


def temperatures_text(lines: list[dict[str, Any]]) -> list[str]:
    """The temperatures at which MLE has half of its oracle perplexity, and that of each objective."""
    rows = []
    for line in lines:
        of_mle = line["objective"] == "MLE"
        key, below = ("halved", math.log(2)) if of_mle else ("same_reverse", 0)
        cells = ["none", "", ""]
        if figures := line[key]:
            low, high = line[f"{key}_range"]
            distances = [f"{max(figures[name], 0):.4f}" for name in ("forward_cross_entropy", "jensen_shannon")]
            cells = [f"{figures['temperature']:.3f} ({low:.3f} to {high:.3f})", *distances]
        perplexity = math.exp(line["reverse_cross_entropy"] - below)
        rows.append(["half of MLE's" if of_mle else line["objective"], f"{perplexity:.2f}", *cells])
    intro = "The temperature at which MLE has the same oracle perplexity, exp(reverse CE), with its range over seeds:"
    header = ["", "oracle perplexity", "MLE's temperature", "forward CE there", "Jensen-Shannon there"]
    return [intro, "", *markdown(header, rows)]


def draw_plane(panels: Any) -> Any:
    """Forward against reverse cross-entropy, a panel for infinite data and one for samples."""
    figure = empty_figure(4.2, "Precision and recall", "Each objective, and MLE at temperatures from 0.5 to 1.2 (line)")
    for number, panel in enumerate(panels):
        axes = axes_at(figure, 0.7 + 3.1 * number, 0.95, 2.5, 2.6)
        recall, precision = zip(*panel["curve"], strict=True)
        axes.plot(recall, precision, "-", color=FAINT, linewidth=1.2, zorder=1)
        outside = []
        for index, (name, x, y) in enumerate(panel["points"]):
            if x > panel["limit"]:
                outside.append(name)
                x = y = math.nan  # for the legend
            style: dict[str, Any] = {"color": COLORS[index % len(COLORS)], "marker": "osD^"[index // len(COLORS)]}
            axes.scatter([x], [y], s=22, alpha=0.8, zorder=2, label=name, **style)
        names = {"xlabel": "forward cross-entropy (low: recall)", "ylabel": "reverse cross-entropy (low: precision)"}
        axes.set(title=panel["title"], xlim=(None, panel["limit"]), **names)
        if outside:
            corner: dict[str, Any] = {"transform": axes.transAxes, "ha": "right", "va": "top"}
            axes.text(0.98, 0.98, "far right: " + "\n".join(outside), fontsize=6.5, color=FAINT, **corner)
    axes.legend(loc="upper left", bbox_to_anchor=(1.05, 1), fontsize=7)
    return figure


def panels(results: dict[str, Any]) -> list[dict[str, Any]]:
    """What the figure shows, from the first seed's curve and the means over seeds."""
    recall, precision, *_ = FIGURES
    shown = []
    for data, title in (("infinite", "infinite data"), ("finite", f"{results['settings']['samples']:,} samples")):
        curve = next(row["curve"] for row in results["rows"] if row["data"] == data and row["objective"] == "MLE")
        lines = summarized(results, data)
        points = [[line["objective"], line[recall], line[precision]] for line in lines]
        plane = [[values[recall], values[precision]] for _, values in curve]
        shown.append({"title": title, "curve": plane, "points": points, "limit": lines[0][recall] + 0.25})
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--files", nargs="+", metavar="FILE", help="text files, one text a line")
    add("--card", help="a data set's card, instead of files")
    add("--name", default="tabular_truth", help="results go to runs/NAME (default: tabular_truth)")
    add("--words", type=int, default=300, help="the number of words (default: 300)")
    add("--leave-out", nargs="*", default=["<unk>", "N"], help="words that stand for others (default: <unk> N)")
    add("--model", default="smollm2-135m-instruct", help="whose head the costs are from (default: the bundled model)")
    add("--seeds", type=int, nargs="+", default=[1, 2, 3], help="(default: 1 2 3)")
    add("--samples", type=int, default=50_000, help="pairs to train on (default: 50,000)")
    add("--held-out", type=int, default=10_000, help="pairs to stop by (default: 10,000)")
    add("--steps", type=int, default=1000, help="of Adam, at most (default: 1,000)")
    add("--dry-run", action="store_true", help="print the plan and stop")
    arguments = parser.parse_args()
    if not arguments.files and not arguments.card:
        raise InputError("no corpus; give --files FILE, or --card NAME")
    folder = Path("runs") / arguments.name
    pairs = f"{len(arguments.seeds)} seeds, on the truth and on {arguments.samples:,} pairs"
    names = objectives(arguments.words)
    if without := [name for name in objectives() if name not in names]:
        print(f"note      without {', '.join(without)}: they need --words of at most {LARGEST_WITH_LOGITS}")
    print(f"plan      {len(names)} objectives, {pairs}; {arguments.words} words; to {folder}")
    if arguments.dry_run:
        return
    results = run(arguments, folder)
    Drawing("precision_recall", "Precision and recall", panels(results), draw_plane).save_into(folder)
    write_atomically(folder / "report.md", report_text(results))
    print(f"report: {folder / 'report.md'}")


if __name__ == "__main__":
    run_recipe(main)
