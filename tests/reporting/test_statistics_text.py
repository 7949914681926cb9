"""The statistics in report.md and on the terminal."""

from __future__ import annotations

from pages import LOSS, TIE, WIN

from instruct.base.files import write_atomically
from instruct.reporting.digits import number as shown
from instruct.reporting.digits import span
from instruct.reporting.report import build_report
from instruct.reporting.text import probability


def test_report_and_terminal_show_the_figures(run, card, write_answers, judge_pairs):
    card("j")
    write_answers("mle", 40, output="short")
    for name in ("emo", "mix"):
        text = write_answers(name, 40).read_text(encoding="utf-8")
        for number in range(40):  # after number 15, each is longer than the one before
            text = text.replace('"secret answer"', f'"{"x" * (5 + (number - 15) * (number > 15))}"', 1)
        write_atomically(run.outputs / f"{name}.json", text)
    judge_pairs(([WIN] * 3 + [LOSS]) * 9 + [TIE] * 4)
    judge_pairs(([LOSS] * 3 + [WIN]) * 9 + [TIE] * 4, candidate="mix")
    report = build_report(run.folder)
    comparison = report.judges[0].comparisons[0]
    (paired,) = report.paired
    line = "Sign test: p = 0.004 (36 pairs without ties)."
    assert comparison.smallest_difference is None  # beside a claim
    assert (paired.value, paired.n) == (45, 40)
    summary = str(report)
    assert f"\n  {line}\n" in summary
    assert "j: emo minus mix: difference of win rates +45 points (95 % CI " in summary
    assert "n = 40, both against mle)" in summary
    markdown = report.to_markdown()
    assert f"  - {line}" in markdown
    assert "| emo | mle | sign | 36 | 0.004 |" in markdown
    assert "| j | strict | emo | mix | mle | 40 | +45 |" in markdown
    term = comparison.length.term
    assert f"{shown(term.coefficient, term.interval, sign=True)} ({span(term.interval, sign=True)})" in markdown


def test_hostile_names_and_parts_are_shown_escaped(judge_run):
    datasets = ["<b>a|b</b>", "[red]plain"]
    run = judge_run([{"verdict": "first", "dataset": datasets[n % 2]} for n in range(10)])
    markdown = build_report(run.folder).to_markdown()
    assert "| emo | mle | &lt;b&gt;a\\|b&lt;/b&gt; | 5 | 5 | 0 | 0 | 100 | 48–100 |" in markdown
    assert "\\[red\\]plain" in markdown


def test_a_p_value_is_never_shown_as_zero():
    assert [probability(p) for p in (None, 1e-9, 0.00099, 0.001, 0.0456, 1.0)] == [
        "-", "< 0.001", "< 0.001", "0.001", "0.046", "1.000"
    ]  # fmt: skip
