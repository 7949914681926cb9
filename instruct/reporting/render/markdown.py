"""The report as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from instruct.reporting.figures import outcome_names
from instruct.reporting.health import REPEATED_RULE
from instruct.reporting.render.markdown_statistics import paired_section, statistics_section, table
from instruct.reporting.render.text import (
    POLICIES,
    POSITIONS,
    escape_markdown,
    evidence,
    headline,
    judge_warnings,
    kappas,
    length_control,
    majority_headline,
    number,
    span,
    spent,
    trust,
    unjudged,
)
from instruct.reporting.schema import Comparison, Figure, Judge, Panel, Report, TallyFigures


def render_markdown(report: Report) -> str:
    """report.md, with the figures that stand beside it."""
    figures = {figure["name"]: figure for figure in report["figures"]}
    names = outcome_names(report["judges"])
    lines = [f"# {escape_markdown(report['run'])}", ""]
    for judge in report["judges"]:
        for warning in judge_warnings(judge):
            lines += [f"> **Warning, {escape_markdown(judge['name'])}:** {escape_markdown(warning, 1000)}", ""]
    for judge in report["judges"]:
        lines += _opening(judge)
    for panel in report["panels"]:
        lines += [f"- **{majority_headline(panel, escape_markdown)}**", ""]
    missing = [f"- {line}" for line in unjudged(report, escape_markdown)]
    if missing:
        lines += ["Comparisons without any verdict yet:", "", *missing, ""]
    money = spent(report, escape_markdown)
    lines += [f"{money[0].upper()}{money[1:]}.", ""] if money else []
    lines += _shown(figures, "win_rates")
    for judge in report["judges"]:
        lines += _judge_section(judge, _shown(figures, names[judge["name"]]))
    lines += _shown(figures, "length_difference")
    for panel in report["panels"]:
        lines += _panel(panel)
    lines += paired_section(report)
    lines += _systems(report) + _shown(figures, "answer_lengths")
    lines += [*_made_from(report), "", *_shown(figures, "training")]
    return "\n".join(lines).rstrip() + "\n"


def _opening(judge: Judge) -> list[str]:
    lines = []
    for comparison in judge["comparisons"]:
        lines.append(f"- **{headline(judge, comparison, escape_markdown)}**")
        for line in (evidence(comparison), length_control(comparison)):
            lines += [f"  - {escape_markdown(line, 400)}"] if line else []
        lines += [f"  - Warning: {escape_markdown(warning, 400)}" for warning in comparison["warnings"]]
    return [*lines, "", trust(judge, escape_markdown), ""]


def _shown(figures: Mapping[str, Figure], name: str) -> list[str]:
    figure = figures.get(name)
    return [f"![{escape_markdown(figure['title'])}]({figure['png']})", ""] if figure else []


def _judge_section(judge: Judge, figure: list[str]) -> list[str]:
    name = escape_markdown(judge["name"])
    lines = [f"## Verdicts of {name}", ""]
    for word, text in (("The judge", judge["description"]), ("Notes", judge["notes"])):
        if text:
            lines += [f"{word}: {escape_markdown(text, 1000)}", ""]
    notes = dict.fromkeys(note for comparison in judge["comparisons"] for note in comparison["notes"])
    lines += [f"- {escape_markdown(note, 1000)}" for note in notes] + [""] * bool(notes)
    lines += figure + _policies(judge["comparisons"]) + statistics_section(judge["comparisons"])
    lines += _positions(judge["comparisons"])
    return lines + _ratings(judge["comparisons"]) + _reasons(judge["comparisons"])


def _names(comparison: Comparison | Panel) -> list[str]:
    return [escape_markdown(comparison["candidate"]), escape_markdown(comparison["baseline"])]


def _tallies(header: Sequence[str], rows: Sequence[tuple[Sequence[str], TallyFigures]]) -> list[str]:
    """A table of tallies after columns of text; the discrete rate has its column where one is another than the rate."""
    weighted = any(figures["kind"] == "weighted" for _, figures in rows)
    counts = ["n", "win", "tie", "loss", "unparsed", "failed"]
    cells = []
    for names, figures in rows:
        rates = [number(figures["win_rate"]), *([number(figures["discrete_win_rate"])] if weighted else [])]
        numbers = [*(str(figures[key]) for key in counts), *rates, number(figures["standard_error"])]  # type: ignore[literal-required]
        cells.append([*names, *numbers, span(figures["interval"]), span(figures["bounds"])])
    columns = [
        *header,
        *counts,
        "win rate %",
        *(["discrete %"] if weighted else []),
        "std. error",
        "95 % interval",
        "bounds %",
    ]
    return table(columns, cells, left=len(header))


_RATES = (
    "The win rate is over the pairs with a verdict, a tie is half a win. Bounds: the win rate had every unparsed and "
    "failed pair been lost, or been won."
)
_WEIGHTED = (
    " Weighted: the win rate is the mean of the judge's preferences, which have shades; the discrete one counts "
    "which side of a draw they are on, as do win, tie and loss. Where a policy takes both orders, a pair's preference "
    "is the mean of the two."
)


def _policies(comparisons: Sequence[Comparison]) -> list[str]:
    rows = []
    for comparison in comparisons:
        for policy, figures in comparison["policies"].items():
            label = f"**{policy}**" if policy == comparison["leading"] else policy
            rows.append(([*_names(comparison), label], figures))
    lines = _tallies(["candidate", "baseline", "policy"], rows)
    used = dict.fromkeys(policy for comparison in comparisons for policy in comparison["policies"])
    meanings = "; ".join(f"{policy}: {POLICIES[policy]}" for policy in used)
    kinds = {figures["kind"] for comparison in comparisons for figures in comparison["policies"].values()}
    weighted = _WEIGHTED if "weighted" in kinds else ""
    return [*lines, "", f"Policies: {meanings}; the leading one is bold. {_RATES}{weighted}", ""]


def _positions(comparisons: Sequence[Comparison]) -> list[str]:
    rows = [
        [
            *_names(comparison),
            comparison["orders"],
            f"{comparison['pairs_judged']} of {comparison['pairs_expected']}",
            number(comparison["consistency"]),
            str(comparison["consistency_n"]),
            number(comparison["first_position_rate"]),
            str(comparison["first_position_n"]),
        ]
        for comparison in comparisons
    ]
    header = ["candidate", "baseline", "orders", "pairs judged", "consistency %", "of pairs"]
    return [
        *table([*header, "first position %", "of verdicts"], rows, left=3),
        "",
        POSITIONS,
        "",
    ]


def _ratings(comparisons: Sequence[Comparison]) -> list[str]:
    rows = [
        [
            *_names(comparison),
            *(f"{comparison['ratings'][side]:.2f}" for side in ("candidate", "baseline")),
            str(comparison["ratings"]["n"]),
        ]
        for comparison in comparisons
        if comparison["ratings"]
    ]
    if not rows:
        return []
    header = ["candidate", "baseline", "mean rating of the candidate", "of the baseline", "pairs"]
    text = "Each answer was rated alone: the higher rating wins, equal ones tie, and there is no place to prefer."
    return [*table(header, rows, left=2), "", text, ""]


def _reasons(comparisons: Sequence[Comparison]) -> list[str]:
    rows = [
        [*_names(comparison), each["verdict"], escape_markdown(each["reason"]), str(each["n"])]
        for comparison in comparisons
        for each in comparison["reasons"]
    ]
    if not rows:
        return []
    text = "Verdicts as shown: a pair in both orders has two."
    return [*table(["candidate", "baseline", "verdict", "reason", "verdicts"], rows, left=4), "", text, ""]


def _panel(panel: Panel) -> list[str]:
    candidate, baseline = _names(panel)
    lines = [f"## Panel: {candidate} against {baseline}", ""]
    policies = ", ".join(f"{escape_markdown(name)} ({policy})" for name, policy in panel["policies"].items())
    lines += [f"Judges, each under its leading policy: {policies}.", ""]
    lines += [f"- {kappas(agreement, escape_markdown)}" for agreement in panel["agreements"]]
    lines += ["", *_tallies(["by"], [(["majority"], panel["majority"])]), ""]
    text = "Majority: the outcome that most judges gave; a tie between judges is a tie, a missing verdict abstains."
    return [*lines, f"{text} {_RATES}", ""]


def _systems(report: Report) -> list[str]:
    rows = [
        [
            escape_markdown(system["name"]),
            escape_markdown(system["generator"]),
            escape_markdown(system["engine"] or "-"),
            str(system["n"]),
            number(system["mean_tokens"]),
            number(system["mean_characters"]),
            number(system["health"]["median_characters"]),
            *(_share(system["health"][fault], system["n"]) for fault in ("truncated", "empty", "repeated")),
        ]
        for system in report["systems"]
    ]
    header = ["system", "generator", "engine", "answers", "mean tokens", "mean characters", "median characters"]
    lines = ["## Answers", "", *table([*header, "truncated", "empty", "repeated"], rows, left=3), ""]
    text = "Truncated: cut off at the length limit. Tokens are the model's own, without the end token. Repeated:"
    return [*lines, f"{text} {REPEATED_RULE}. A dash: not known of answers from elsewhere.", ""]


def _share(count: int | None, n: int) -> str:
    return "-" if count is None else f"{count} ({100 * count / n:.1f} %)"


def _made_from(report: Report) -> list[str]:
    lines = ["## Made from", ""]
    lines += [f"- {name}: {escape_markdown(value, 400)}" for name, value in report["config"].items()]
    machine = report["machine"]
    gpus = ", ".join(map(str, machine.get("gpus") or [])) or "no GPU"
    processor, cores, memory = (machine.get(key, "?") for key in ("processor", "cores", "memory_gib"))
    lines += [f"- machine: {escape_markdown(f'{processor}, {cores} cores, {memory} GiB, {gpus}')}"]
    versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    lines += [f"- versions: {escape_markdown(versions, 400)}", f"- created: {escape_markdown(report['created'])}", ""]
    rows = [
        [
            escape_markdown(training["system"]),
            escape_markdown(training["objective"]),
            *(_text(training[key]) for key in ("rows", "truncated", "epochs", "steps", "learning_rate")),
        ]
        for training in report["trainings"]
    ]
    if rows:
        header = ["trained", "objective", "rows", "truncated", "epochs", "steps", "learning rate"]
        lines += [*table(header, rows, left=2), ""]
    rows = [
        [*map(escape_markdown, (phase["step"], phase["status"])), number(phase["minutes"]), str(phase["attempts"])]
        for phase in report["phases"]
    ]
    if rows:
        lines += [*table(["phase", "status", "minutes", "attempts"], rows, left=2), ""]
    hashes = [*report["sha256"].items(), *((f"answers of {s['name']}", s["sha256"]) for s in report["systems"])]
    rows = [[escape_markdown(name), escape_markdown(digest)] for name, digest in hashes]
    return [*lines, *table(["made from", "SHA-256"], rows, left=2)]


def _text(value: float | None) -> str:
    return "-" if value is None else escape_markdown(f"{value:g}" if isinstance(value, float) else value)
