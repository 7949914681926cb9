"""A run for the tests of report.html: 805 pairs, two judges, and texts that try to inject markup or scripts."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import yaml

from instruct.base.files import write_atomically
from instruct.base.replies import Completion
from instruct.judging.store import Judgment, JudgmentStore
from instruct.reporting.cautions import figure_warnings
from instruct.reporting.model import ComparisonReport
from instruct.reporting.report import build_report, write_report
from instruct.run.directory import RunDirectory

PAIRS = 805
WIN, LOSS, TIE = ("first", "second"), ("second", "first"), ("tie", "tie")
UNREAD = ("unparsed", "unparsed")
HOSTILE = [
    "<script>window.broken = 1</script>",
    "</script><script>window.broken = 2</script>",
    "<img src=x onerror='window.broken = 3'><svg onload='window.broken = 4'>",
    "[click](javascript:window.broken=5) <a href='javascript:window.broken=6'>here</a>",
    "&lt;b&gt; &amp;amp; &#x3c;i&#x3e; <!-- <b>bold</b> -->",
    "{{ 7 * 7 }} {% include 'x' %} ${alert(1)} #{8 * 8}",
    "right \u202eto left\u202c, zero\u200bwidth \u2066isolated\u2069 \ufeff and \u05e2\u05d1\u05e8\u05d9\u05ea",
    "a NUL \x00 an escape \x1b[31m a line end \u2028 another \u2029 end",
    "<link rel=stylesheet href=http://example.invalid/x.css><img src=//example.invalid/x.png>",
    "__proto__ constructor %3Cscript%3E \\u003cscript\\u003e",
    "# Heading\n\n**bold** | table |\n|---|\n`code`",
    "",
]
LONG = "<b>long</b> " + "x" * 1_000_000


def rows_of(page: str) -> str:
    """Every row of every table of a page, in a line."""

    def cells(row: str) -> list[str]:
        return [html.unescape(re.sub("<[^>]*>", "", cell)) for cell in re.findall(r"<t[hd][ >].*?</t[hd]>", row)]

    return "\n".join(" | ".join(cells(row)) for row in re.findall(r"<tr[^>]*>(.*?)</tr>", page, re.DOTALL))


def prompt(number: int) -> str:
    text = HOSTILE[number] if number < len(HOSTILE) else ""
    return f"{text} prompt {number} " + "word " * 20


def verdicts(number: int) -> tuple[str, str]:
    """Verdicts with the candidate shown first and second: of five pairs, two wins, a tie, a loss and a disagreement."""
    if number in (20, 21):
        return ("unparsed", "first") if number == 20 else ("failed", "failed")
    return [("first", "second"), ("first", "second"), ("tie", "tie"), ("second", "first"), ("first", "first")][
        number % 5
    ]


def write_run(folder: Path) -> RunDirectory:
    """Pairs 0 to 11 are HOSTILE, pair 12 has an answer of a megabyte, 20 is unparsed and 21 failed."""
    run = RunDirectory(folder)
    run.folder.mkdir(parents=True)
    write_atomically(run.folder / "config.yaml", yaml.safe_dump({"name": "</title><script>window.broken = 8</script>"}))
    manifest = {"format": 3, "created": "2026-01-02T03:04:05+00:00", "machine": {}, "steps": {}}
    manifest["versions"] = {"instruct": "0.1.0"}
    write_atomically(run.manifest_path, json.dumps(manifest))
    for name in ("emo", "mle"):
        rows = []
        for number in range(PAIRS):
            output = HOSTILE[number] if number < len(HOSTILE) else LONG if number == 12 else f"answer of {name} " * 60
            if name == "mle" and number >= 12:
                output = "a shorter answer " * (50 if number % 2 else 90)
            rows.append(
                {"dataset": f"set {number % 3}", "instruction": prompt(number), "output": output, "generator": name}
            )
        write_atomically(run.outputs / f"{name}.json", json.dumps(rows))
    with JudgmentStore(run.store) as store:
        for judge in ("autoj", "smollm2_score"):
            judgments, replies = [], []
            for number in range(PAIRS):
                for position, verdict in zip(("first", "second"), verdicts(number), strict=True):
                    key = f"{judge}-{number}-{position}"
                    judgments.append(
                        Judgment(
                            judge, "emo", "mle", number, prompt(number), f"set {number % 3}", position, key, verdict,
                            reason="timeout" if verdict == "failed" else None,
                        )
                    )  # fmt: skip
                    said = prompt(number) if number < len(HOSTILE) else f"words {number} " + "the reply goes on " * 60
                    if verdict != "failed":
                        replies.append((key, Completion(said, label_logprobs={"A": -0.1, "B": -2.3}), 0.0))
            store.add_replies(judge, replies)
            store.add_judgments(judgments)
    return run


def write_test_page(folder: Path) -> Path:
    return write_report(write_run(folder).folder).path.with_suffix(".html")


def only_comparison(run: RunDirectory) -> ComparisonReport:
    (judge,) = build_report(run.folder).judges
    (comparison,) = judge.comparisons
    return comparison


def warned(comparison: ComparisonReport) -> list[str]:
    """The texts of a comparison's warnings, without those that follow from its figures, such as too few pairs."""
    of_figures = figure_warnings(comparison)
    return [warning.text for warning in comparison.warnings if warning not in of_figures]
