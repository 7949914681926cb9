"""The report as Markdown and as text for the terminal."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from instruct.errors import one_line
from instruct.reporting.schema import Comparison, Judge, Report, TallyFigures

_SPECIAL = re.compile(r"[\\`*\[\]|~$#!{}]|(?<![^\W_])_|_(?![^\W_])")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "&#64;", "://": "&#58;//", "www.": "www&#46;"}
_POLICIES = {
    "single": "one order a pair",
    "strict": "both orders, disagreement is a tie",
    "upstream": "as the judge's authors count",
}


def escape_markdown(text: object, limit: int = 200) -> str:
    """Foreign text as one line of Markdown that shows it and does nothing else: no markup, table cell, HTML or link."""
    line = _SPECIAL.sub(lambda match: "\\" + match.group(), one_line(text, limit))
    for mark, entity in _ENTITIES.items():
        line = re.sub(re.escape(mark), entity, line, flags=re.IGNORECASE)
    return line


def render_markdown(report: Report, figures: dict[str, str]) -> str:
    """report.md. `figures` maps a judge's name to its figure's path beside the file."""
    lines = [f"# {escape_markdown(report['run'])}", ""]
    for judge in report["judges"]:
        if judge["warning"]:
            name, warning = escape_markdown(judge["name"]), escape_markdown(judge["warning"], 1000)
            lines += [f"> **Warning, {name}:** {warning}", ""]
    for judge in report["judges"]:
        lines += _opening(judge)
    missing = [f"- {line}" for line in _unjudged(report, escape_markdown)]
    if missing:
        lines += ["The config names comparisons without any verdict yet:", "", *missing, ""]
    for judge in report["judges"]:
        lines += _judge_section(judge, figures[judge["name"]])
    lines += _systems(report) + _made_from(report)
    return "\n".join(lines).rstrip() + "\n"


def headline(judge: Judge, comparison: Comparison, escape: Callable[[object], str]) -> str:
    """Who won under the leading policy, by how much, from how many pairs, and how sure that is."""
    figures = comparison["policies"][comparison["leading"]]
    candidate, baseline = escape(comparison["candidate"]), escape(comparison["baseline"])
    by = f"{escape(judge['name'])}: "
    if figures["win_rate"] is None:
        return f"{by}no verdict on {candidate} against {baseline} ({_unread(figures)})."
    error = figures["standard_error"]
    rate = (
        f"{candidate}'s win rate is {figures['win_rate']:.1f} % (n = {figures['n_judged']}, "
        f"{'no standard error' if error is None else f'standard error {error:.1f}'})"
    )
    if figures["finding"] == "too few":
        return f"{by}too few pairs to tell {candidate} from {baseline}: {rate}."
    low, high = figures["interval"] or (0.0, 100.0)
    interval = f"its 95 % interval, {low:.1f} to {high:.1f}"
    if figures["finding"] == "no difference":
        return f"{by}no difference shown between {candidate} and {baseline}: {rate}; {interval}, includes 50."
    won, lost = (candidate, baseline) if figures["finding"] == "candidate" else (baseline, candidate)
    margin = abs(figures["win_rate"] - 50)
    sentence = f"{by}{won} won against {lost} by {margin:.1f} points over an even 50: {rate}; {interval}."
    if figures["reversible"]:
        sentence += f" The pairs without a verdict ({_unread(figures)}) could reverse that."
    return sentence


def trust(judge: Judge, escape: Callable[[object], str]) -> str:
    """How far the judge agrees with people, as far as anybody measured it."""
    measured = "; ".join(f"{key} {value}" for key, value in (judge["human_agreement"] or {}).items())
    words = escape(measured) if measured else "not measured"
    return f"Judge {escape(judge['name'])} ({escape(judge['model'])}); agreement with people: {words}."


def render_summary(report: Report) -> str:
    """The report for a terminal: plain text without control characters, and without brackets that rich would read."""
    lines = [
        f"WARNING: {_plain(judge['name'])}: {_plain(judge['warning'], 1000)}"
        for judge in report["judges"]
        if judge["warning"]
    ]
    for judge in report["judges"]:
        for comparison in judge["comparisons"]:
            lines.append(headline(judge, comparison, _plain))
            lines += [f"  WARNING: {_plain(warning)}" for warning in comparison["warnings"]]
        lines += [trust(judge, _plain), ""]
        header = ["candidate", "baseline", "policy", "win", "tie", "loss", "unread", "win rate", "std. err."]
        rows = []
        for comparison in judge["comparisons"]:
            for policy, figures in comparison["policies"].items():
                names = [_plain(comparison["candidate"], 28), _plain(comparison["baseline"], 28), policy]
                counts = [figures["win"], figures["tie"], figures["loss"], figures["unparsed"] + figures["failed"]]
                rows.append(
                    [*names, *map(str, counts), _number(figures["win_rate"]), _number(figures["standard_error"])]
                )
        lines += [*_columns(header, rows, left=3), ""]
    lines += [f"NOT JUDGED YET: {line}" for line in _unjudged(report, _plain)]
    return "\n".join(lines).rstrip() + "\n"


def _unjudged(report: Report, escape: Callable[[object], str]) -> list[str]:
    return [
        f"{escape(each['judge'])}: {escape(each['candidate'])} against {escape(each['baseline'])}"
        for each in report["not_judged"]
    ]


def _opening(judge: Judge) -> list[str]:
    lines = []
    for comparison in judge["comparisons"]:
        lines.append(f"- **{headline(judge, comparison, escape_markdown)}**")
        lines += [f"  - Warning: {escape_markdown(warning, 400)}" for warning in comparison["warnings"]]
    return [*lines, "", trust(judge, escape_markdown), ""]


def _judge_section(judge: Judge, figure: str) -> list[str]:
    name = escape_markdown(judge["name"])
    lines = [f"## Verdicts of {name}", ""]
    for word, text in (("The judge", judge["description"]), ("Notes", judge["notes"])):
        if text:
            lines += [f"{word}: {escape_markdown(text, 1000)}", ""]
    lines += [f"![Wins, ties and losses by the verdicts of {name}]({figure})", ""]
    rows = []
    for comparison in judge["comparisons"]:
        names = [escape_markdown(comparison["candidate"]), escape_markdown(comparison["baseline"])]
        for policy, figures in comparison["policies"].items():
            label = f"**{policy}**" if policy == comparison["leading"] else policy
            counts = [figures[key] for key in ("n", "win", "tie", "loss", "unparsed", "failed")]
            numbers = [_number(figures["win_rate"]), _number(figures["standard_error"]), _span(figures["bounds"])]
            rows.append([*names, label, *map(str, counts), *numbers])
    header = ["candidate", "baseline", "policy", "n", "win", "tie", "loss", "unparsed", "failed"]
    lines += _table([*header, "win rate %", "std. error", "bounds %"], rows, left=3)
    used = dict.fromkeys(policy for comparison in judge["comparisons"] for policy in comparison["policies"])
    meanings = "; ".join(f"{policy}: {_POLICIES[policy]}" for policy in used)
    lines += [
        "",
        f"Policies: {meanings}; the leading one is bold. The win rate is over the pairs with a verdict, a tie is half "
        "a win. Bounds: the win rate had every unparsed and failed pair been lost, or been won.",
        "",
    ]
    rows = [
        [
            escape_markdown(comparison["candidate"]),
            escape_markdown(comparison["baseline"]),
            comparison["orders"],
            f"{comparison['pairs_judged']} of {comparison['pairs_expected']}",
            _number(comparison["consistency"]),
            str(comparison["consistency_n"]),
            _number(comparison["first_position_rate"]),
            str(comparison["first_position_n"]),
        ]
        for comparison in judge["comparisons"]
    ]
    header = ["candidate", "baseline", "orders", "pairs judged", "consistency %", "of pairs"]
    lines += _table([*header, "first position %", "of verdicts"], rows, left=3)
    lines += [
        "",
        "Consistency: the same answer preferred in both orders, over pairs readable in both. First position: verdicts "
        "other than ties that went to the answer shown first; without a preference for a place it is 50.",
        "",
    ]
    return lines


def _systems(report: Report) -> list[str]:
    rows = [
        [
            escape_markdown(system["name"]),
            escape_markdown(system["generator"]),
            escape_markdown(system["engine"] or "-"),
            str(system["n"]),
            _number(system["mean_tokens"]),
            _number(system["mean_characters"]),
            _text(system["truncated"]),
        ]
        for system in report["systems"]
    ]
    header = ["system", "generator", "engine", "answers", "mean tokens", "mean characters", "truncated"]
    lines = ["## Answers", "", *_table(header, rows, left=3), ""]
    return [*lines, "Truncated: cut at the length limit. Tokens are the model's own, without the end token.", ""]


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
        lines += [*_table(header, rows, left=2), ""]
    rows = [
        [*map(escape_markdown, (phase["step"], phase["status"])), _number(phase["minutes"]), str(phase["attempts"])]
        for phase in report["phases"]
    ]
    if rows:
        lines += [*_table(["phase", "status", "minutes", "attempts"], rows, left=2), ""]
    hashes = [*report["sha256"].items(), *((f"answers of {s['name']}", s["sha256"]) for s in report["systems"])]
    rows = [[escape_markdown(name), escape_markdown(digest)] for name, digest in hashes]
    return [*lines, *_table(["made from", "SHA-256"], rows, left=2)]


def _text(value: float | None) -> str:
    return "-" if value is None else escape_markdown(f"{value:g}" if isinstance(value, float) else value)


def _unread(figures: TallyFigures) -> str:
    return f"{figures['unparsed']} unparsed, {figures['failed']} failed"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _span(values: Sequence[float] | None) -> str:
    return "-" if values is None else f"{values[0]:.1f} to {values[1]:.1f}"


def _plain(text: object, limit: int = 300) -> str:
    return one_line(text, limit).replace("[", "(").replace("]", ")")


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], left: int) -> list[str]:
    """A Markdown table whose first `left` columns are text and the others numbers."""
    rule = ["---" if index < left else "---:" for index in range(len(header))]
    return ["| " + " | ".join(cells) + " |" for cells in [header, rule, *rows]]


def _columns(header: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> list[str]:
    widths = [max(len(row[index]) for row in [header, *rows]) for index in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        padded = [
            f"{cell:<{w}}" if i < left else f"{cell:>{w}}"
            for i, (cell, w) in enumerate(zip(cells, widths, strict=True))
        ]
        return "  ".join(padded).rstrip()

    return [line(header), line(["-" * width for width in widths]), *map(line, rows)]
