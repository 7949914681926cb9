"""Hostile text in report.md and on the terminal is escaped; headlines name the winner."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from pages import WIN

from instruct.base.errors import one_line
from instruct.reporting.render.lines import escape_markdown
from instruct.reporting.report import build_report, write_report
from instruct.reporting.text import probability

pytestmark = pytest.mark.usefixtures("without_figures")

HOSTILE = [
    "<script>alert(1)</script>",
    "a|b\n\n# heading",
    "![x](http://evil.example/x.png) [y](javascript:0) www.evil.example a@evil.example",
    "**bold** _it_ `code` ~~no~~ $x$ \\",
    "\x1b[31mred\x1b[0m [bold]rich[/bold] \u202egpj.exe",
    "&lt;b&gt; &amp;",
]
ROOT = Path(__file__).resolve().parents[2]
MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


@given(st.text(max_size=80) | st.text(alphabet="\\`*_[]()<>&|~$#!{}-+.:/@wW aé1\n", max_size=80))
@example(HOSTILE[0])
@example(HOSTILE[3])
@example("WWW.example.com")
def test_escaped_text_renders_unchanged(text):
    escaped = escape_markdown(text)
    assert html.unescape(MARKDOWN.renderInline(escaped)) == one_line(text, 200)
    assert "<" not in MARKDOWN.renderInline(escaped)
    assert not re.search(r"://|www\.|@", escaped, re.IGNORECASE)
    row = MARKDOWN.render(f"| a | b |\n| - | - |\n| {escaped} | 1 |\n")
    assert (row.count("<td"), row.count("<tr")) == (2, 2)


@pytest.fixture
def hostile_run(run, card, write_answers, judge_pairs):
    for number, name in enumerate(HOSTILE):
        card(
            f"j{number}",
            description=name,
            warning=name,
            notes=name,
            model=name,
            human_agreement={name: {"pairs": 9, "accuracy": 50.0}},
        )
        judge_pairs([("first", "second")] * 7, judge=f"j{number}", candidate=name, baseline=HOSTILE[number - 1])
    write_answers("emo", 1, output=HOSTILE[0])
    return run


def test_hostile_names_are_escaped_in_the_report(hostile_run):
    text = write_report(hostile_run.folder).path.read_text(encoding="utf-8")
    page = MARKDOWN.render(text)
    tags = set(re.findall(r"<[^>]*>", re.sub(r' style="[^"]*"', "", page)))
    assert [tag for tag in tags if not re.fullmatch(r"</?(h[123]|p|ul|li|strong|blockquote|t[a-z]+)>", tag)] == []
    assert re.findall(r"<h1>(.*)</h1>", page) == ["small"]
    for table in re.findall(r"<table>.*?</table>", page, re.DOTALL):
        head, *rows = table.split("</tr>")[:-1]
        assert {row.count("<td") for row in rows} == {head.count("<th") - head.count("<thead")}
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_hostile_names_are_escaped_on_the_terminal(hostile_run):
    text = str(build_report(hostile_run.folder))
    assert all(character.isprintable() or character == "\n" for character in text)
    assert "[31mred [0m [bold]rich[/bold]" in text
    assert "heading" not in [line.strip("# ") for line in text.splitlines()]


def test_what_changes_a_claim_is_said_everywhere(judge_run, instruct):
    """Three of eight pairs have a winner, and the judge contradicted itself on the others."""
    run = judge_run([WIN] * 3 + [("first", "first")] * 4 + [("unparsed", "first")], warning="for tests")
    texts = [
        "too few: 3 pairs with a winner of 7 judged; a finding needs at least 6 decided pairs",
        "1 of 8 pairs have no verdict (1 unparsed, 0 failed): with them lost or won the win rate of emo is 62–75 %",
        "inconsistent: the verdict changed with the order of the answers for 4 of 7 pairs (57.1 %)",
    ]
    report, path = write_report(run.folder)
    (comparison,) = report.judges[0].comparisons
    assert [(warning.severity, warning.text) for warning in comparison.warnings] == [("claim", text) for text in texts]
    assert report.warnings() == [*(f"j, emo against mle: {text}" for text in texts), "j: for tests"]
    written = [*(path.with_suffix(ending).read_text() for ending in (".md", ".html", ".json")), str(report)]
    for text in texts:
        assert all(text[1:] in form for form in written), text
    quiet = instruct("report", run.folder, "--quiet")[1].splitlines()
    assert quiet == [*report.headlines(), "WARNING: 4 warnings in report.md"]


def test_a_p_value_is_never_shown_as_zero():
    assert [probability(p) for p in (None, 1e-9, 0.00099, 0.001, 0.0456, 1.0)] == [
        "-", "< 0.001", "< 0.001", "0.001", "0.046", "1.000"
    ]  # fmt: skip
