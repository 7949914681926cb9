"""report.html as a file: its content, size and security policy. test_page_browser.py opens it in a browser."""

from __future__ import annotations

import base64
import hashlib
import html.parser
import json
import re
import zlib

import pytest
from pages import WIN

from instruct.reporting.read import read_run
from instruct.reporting.render.page import packed_pairs, render_page
from instruct.reporting.report import Report, build_report


class Outline(html.parser.HTMLParser):
    """The tags of a page with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))


def unpacked(packed: str) -> dict:
    return json.loads(zlib.decompress(base64.b64decode(packed)))


def pairs_of(run):
    """The packed pairs of a run."""
    return packed_pairs(read_run(run.folder).by_judge)


@pytest.fixture
def judged(judge_run):
    """A small run: one judge, with one win, one inconsistent pair and one unparsed pair."""
    return judge_run([WIN, ("first", "first"), ("unparsed", "second")], warning="weak <b>judge</b>")


def test_the_content_security_policy_allows_only_the_pages_own_blocks(judged):
    report = build_report(judged.folder)
    text = render_page(report, {}, pairs_of(judged))
    outline = Outline(text)
    policy = next(
        attrs["content"] for tag, attrs in outline.tags if attrs.get("http-equiv") == "Content-Security-Policy"
    )
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    hashes = [
        "sha256-" + base64.b64encode(hashlib.sha256(block.encode()).digest()).decode() for block in (script, style)
    ]
    assert policy == (
        f"default-src 'none'; script-src '{hashes[0]}'; style-src '{hashes[1]}'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
    names = [tag for tag, _ in outline.tags]
    assert names.index("meta") < names.index("style")
    assert not [attrs for _, attrs in outline.tags if any(name.startswith("on") or name == "style" for name in attrs)]
    links = [attrs.get("href") or attrs.get("src") for _, attrs in outline.tags if {"href", "src"} & attrs.keys()]
    assert links
    assert all(link.startswith(("#", "data:")) for link in links)
    assert "innerHTML" not in script


def test_a_page_from_report_json_alone_is_escaped_and_has_no_pairs(judged):
    """For example, of a report published without its pairs."""
    report = Report.model_validate_json(build_report(judged.folder).to_json())
    report.versions["tool"] = "<b>" + "x" * 60 + "\u202e"  # as long as a hash
    text = render_page(report, {}, None)
    assert "Weak &lt;b&gt;judge&lt;/b&gt;" in text
    assert "A &lt;b&gt;CPU&lt;/b&gt;" in text
    assert "<code>&lt;b&gt;xxx" in text
    assert not re.search("<b>judge|secret|\u202e", text)
    outline = Outline(text)
    assert "pairs" not in {attrs.get("id") for _, attrs in outline.tags}
    assert "#pairs" not in {attrs.get("href") for _, attrs in outline.tags}
    assert not [attrs for tag, attrs in outline.tags if attrs.get("type") == "application/json"]


def test_a_partly_judged_pair_is_marked_as_open(judge_run, judge_showings):
    run = judge_run([{"verdict": "first"}] * 2, order_policy="both", leading_policy="strict")
    judge_showings({"verdict": "second", "position": "second"})
    found = unpacked(pairs_of(run))
    assert [pair["o"] for pair in found["comparisons"][0]["pairs"]] == ["win", "open"]
