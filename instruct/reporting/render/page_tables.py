"""The page's tables: every number of report.json, as plain text for a template that escapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from instruct.errors import one_line
from instruct.reporting.render.text import POLICIES, POSITIONS, number, probability, span
from instruct.reporting.schema import Comparison, Panel, Report, TallyFigures

_COUNTS = ("n", "win", "tie", "loss", "unparsed", "failed")


@dataclass(frozen=True)
class Table:
    """`left`: how many of the first columns are text; the others are numbers. `note` explains them."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1
    note: str = ""


def comparison_tables(comparison: Comparison) -> list[Table]:
    """One comparison's figures; a table without rows is left out."""
    more: Mapping[str, Any] = comparison
    tables = [
        _policies(comparison),
        _tests(more.get("significance") or {}, more.get("power") or {}),
        _positions(comparison),
        _ratings(comparison),
        _parts(more.get("parts") or []),
        *_length(more.get("length") or {}, comparison),
        Table(
            "Verdicts with a reason",
            ("verdict", "reason", "verdicts"),
            [(each["verdict"], clean(each["reason"]), str(each["n"])) for each in comparison["reasons"]],
            left=2,
            note="Verdicts as shown: a pair in both orders has two.",
        ),
    ]
    return [table for table in tables if table.rows]


def report_tables(report: Report) -> list[Table]:
    """What belongs to no single comparison: panels, systems, training."""
    tables = [table for panel in report["panels"] for table in _panel(panel)]
    tables += [_paired(report), _systems(report), _trainings(report)]
    return [table for table in tables if table.rows]


def lineage_tables(report: Report) -> list[Table]:
    """From what the report was made: the experiment, its phases, versions and hashes."""
    machine = report["machine"]
    gpus = ", ".join(map(str, machine.get("gpus") or [])) or "no GPU"
    processor, cores, memory = (machine.get(key, "?") for key in ("processor", "cores", "memory_gib"))
    experiment = [
        *report["config"].items(),
        ("machine", f"{processor}, {cores} cores, {memory} GiB, {gpus}"),
        ("created", report["created"]),
    ]
    hashes = [*report["sha256"].items(), *((f"answers of {s['name']}", s["sha256"]) for s in report["systems"])]
    phases = [
        (clean(each["step"]), clean(each["status"]), number(each["minutes"]), str(each["attempts"]))
        for each in report["phases"]
    ]
    tables = [
        Table("Experiment", ("part", "what"), [(clean(name), clean(text, 600)) for name, text in experiment], left=2),
        Table("Phases", ("phase", "status", "minutes", "attempts"), phases, left=2),
        Table(
            "Versions", ("package", "version"), [(clean(k), clean(v)) for k, v in report["versions"].items()], left=2
        ),
        Table("Made from", ("what", "SHA-256"), [(clean(name), clean(digest)) for name, digest in hashes], left=2),
    ]
    return [table for table in tables if table.rows]


def clean(text: object, limit: int = 200) -> str:
    """Foreign text on one line without control and direction characters; the template escapes the rest."""
    return one_line(text, limit)


def _tally(figures: TallyFigures, weighted: bool) -> list[str]:
    rates = [number(figures["win_rate"]), *([number(figures["discrete_win_rate"])] if weighted else [])]
    counts = [str(figures[key]) for key in _COUNTS]  # type: ignore[literal-required]
    spread = [number(figures["standard_error"]), span(figures["interval"]), span(figures["bounds"])]
    return [*counts, *rates, *spread]


def _tally_header(weighted: bool) -> list[str]:
    return [*_COUNTS, "win rate %", *(["discrete %"] if weighted else []), "std. error", "95 % interval", "bounds"]


def _policies(comparison: Comparison) -> Table:
    policies = comparison["policies"]
    weighted = any(figures["kind"] == "weighted" for figures in policies.values())
    rows = [
        [f"{policy} (leads)" if policy == comparison["leading"] else policy, *_tally(figures, weighted)]
        for policy, figures in policies.items()
    ]
    note = "; ".join(f"{policy}: {POLICIES[policy]}" if policy in POLICIES else policy for policy in policies)
    note += (
        ". The win rate is over the pairs with a verdict, a tie is half a win. Bounds: the win rate had every unparsed "
        "and failed pair been lost, or been won."
    )
    return Table("Verdicts under each policy", ["policy", *_tally_header(weighted)], rows, note=note)


def _tests(significance: Mapping[str, Any], power: Mapping[str, Any]) -> Table:
    rows = []
    if significance:
        sign, permutation = significance["sign_test"], significance["permutation_test"]
        rows.append((f"sign test p, over {sign['n']} pairs that are no tie", probability(sign["p"])))
        rows.append((f"permutation test p, {permutation['resamples']} resamples", probability(permutation["p"])))
    if power:
        smallest = number(power["smallest_difference"])
        rows.append(("smallest difference that so many pairs show in four of five cases, points", smallest))
        rows.append(("pairs needed for the difference seen", _value(power["pairs_needed"])))
    return Table("Significance and power", ("figure", "value"), rows, note=clean(power.get("note") or "", 600))


def _positions(comparison: Comparison) -> Table:
    row = (
        comparison["orders"],
        f"{comparison['pairs_judged']} of {comparison['pairs_expected']}",
        number(comparison["consistency"]),
        str(comparison["consistency_n"]),
        number(comparison["first_position_rate"]),
        str(comparison["first_position_n"]),
        str(comparison["trimmed"]),
        str(comparison["requests"]),
    )
    header = ("orders", "pairs judged", "consistency %", "of pairs", "first position %", "of verdicts", "trimmed")
    return Table("Orders", (*header, "requests"), [row], note=POSITIONS)


def _ratings(comparison: Comparison) -> Table:
    found = comparison["ratings"]
    rows = [(f"{found['candidate']:.2f}", f"{found['baseline']:.2f}", str(found["n"]))] if found else []
    note = "Each answer was rated alone: the higher rating wins, equal ones tie."
    return Table("Mean ratings", ("candidate", "baseline", "pairs"), rows, left=0, note=note)


def _parts(parts: Sequence[Mapping[str, Any]]) -> Table:
    counts = ("n", "win", "tie", "loss", "unread")
    rows = [
        [clean(part.get("dataset")), *(_value(part.get(key)) for key in counts), number(part.get("win_rate")),
         span(part.get("interval"))]
        for part in parts
    ]  # fmt: skip
    return Table("By sub-dataset", ("dataset", *counts, "win rate %", "95 % interval"), rows)


def _length(length: Mapping[str, Any], comparison: Comparison) -> list[Table]:
    rows = [
        [f"{_value(part.get('low'))} to {_value(part.get('high'))}", _value(part.get("n")),
         number(part.get("win_rate")), span(part.get("interval"))]
        for part in length.get("by_difference") or []
    ]  # fmt: skip
    adjusted = length.get("adjusted") or {}
    summary = []
    if length:
        means = (number(length.get("candidate_mean")), number(length.get("baseline_mean")))
        summary.append(("mean characters, candidate and baseline", f"{means[0]} and {means[1]}"))
    if adjusted:
        rate = number(adjusted.get("win_rate"))
        summary.append(("length-adjusted win rate %", f"{rate} ({span(adjusted.get('interval'))})"))
    controlled = comparison["length_control"]
    if controlled:
        error = number(controlled["standard_error"])
        summary.append(
            ("AlpacaEval's length-controlled rate %", f"{number(controlled['win_rate'])} (std. error {error})")
        )
    notes = [adjusted.get("model"), adjusted.get("note"), controlled["note"] if controlled else None]
    note = " ".join(clean(f"{note}.", 600) for note in notes if note)
    header = ("candidate longer by, characters", "n", "win rate %", "95 % interval")
    return [
        Table("Length", ("figure", "value"), summary, note=note),
        Table("Win rate by length difference", header, rows),
    ]


def _panel(panel: Panel) -> list[Table]:
    title = f"Panel: {clean(panel['candidate'])} against {clean(panel['baseline'])}"
    agreements = [
        (" and ".join(map(clean, each["judges"])), str(each["n"]), number(each["agreement"]),
         "-" if each["kappa"] is None else f"{each['kappa']:.2f}")
        for each in panel["agreements"]
    ]  # fmt: skip
    text = "Majority: the outcome that most judges gave; a tie between judges is a tie, a missing verdict abstains."
    majority = ["majority", *_tally(panel["majority"], False)]
    return [
        Table(f"{title}, majority", ["by", *_tally_header(False)], [majority], note=text),
        Table(f"{title}, agreement", ("judges", "pairs", "agreement %", "Cohen's kappa"), agreements),
    ]


def _paired(report: Report) -> Table:
    more: Mapping[str, Any] = report
    names = ("judge", "policy", "first", "second", "baseline")
    rows = [
        [*(clean(each[name]) for name in names), str(each["n"]), number(each["difference"]), span(each["interval"]),
         probability(each["p"])]
        for each in more.get("paired") or []
    ]  # fmt: skip
    note = "The first's win rate minus the second's, in points, over the prompts judged for both."
    header = (*names, "prompts", "difference", "95 % interval", "p")
    return Table("Systems with one baseline, pair by pair", header, rows, left=5, note=note)


def _systems(report: Report) -> Table:
    """The answers' health; what nobody measured has no column."""
    columns: dict[str, list[str]] = {}
    for system in report["systems"]:
        health: Mapping[str, Any] = system.get("health") or {}
        cells = {
            "system": clean(system["name"]),
            "generator": clean(system["generator"]),
            "engine": clean(system["engine"] or "-"),
            "answers": str(system["n"]),
            "truncated": _value(system["truncated"]),
            "empty": _value(health.get("empty")),
            "repeated": _value(health.get("repeated")),
            "mean tokens": number(system["mean_tokens"]),
            "mean characters": number(system["mean_characters"]),
            "median characters": number(health.get("median_characters")),
        }
        for name, cell in cells.items():
            columns.setdefault(name, []).append(cell)
    columns = {name: cells for name, cells in columns.items() if set(cells) != {"-"} or name == "truncated"}
    note = "Truncated: cut at the length limit. Tokens are the model's own, without the end token."
    left = 2 + ("engine" in columns)
    return Table("Answers' health", list(columns), list(zip(*columns.values(), strict=True)), left=left, note=note)


def _trainings(report: Report) -> Table:
    keys = ("rows", "truncated", "epochs", "steps", "learning_rate")
    rows = [
        [clean(each["system"]), clean(each["objective"]), *(_value(each[key]) for key in keys)]  # type: ignore[literal-required]
        for each in report["trainings"]
    ]
    header = ("system", "objective", "rows", "truncated", "epochs", "steps", "learning rate")
    return Table("Training", header, rows, left=2)


def _value(value: Any) -> str:
    return "-" if value is None else clean(f"{value:g}" if isinstance(value, float) else value)
