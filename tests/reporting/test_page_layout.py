"""How report.html looks in a real Chromium: the first screen, a phone, paper, and for readers who do not see it."""

from __future__ import annotations

import io
import itertools
import re
import unicodedata

import pytest
from pypdf import PdfReader

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]

PHONE = {"viewport": {"width": 390, "height": 664}, "has_touch": True, "is_mobile": True}  # an iPhone below its bars
DESKTOP = {"viewport": {"width": 1280, "height": 720}}
PAPER = {"viewport": {"width": 688, "height": 1000}}  # A4 within its margins

ON_SCREEN = """[...document.querySelectorAll('main *')].filter(each => {
    const box = each.getBoundingClientRect();
    return each.getClientRects().length && box.bottom <= innerHeight
        && [...each.childNodes].some(node => node.nodeType === 3);
}).map(each => each.innerText ?? each.textContent).join(' | ')"""


def first_screen(page) -> str:
    return re.sub(r"\s+", " ", page.evaluate(ON_SCREEN))


@pytest.mark.parametrize("screen", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_the_first_screen_has_winner_rate_interval_decided_pairs_trust_and_largest_tie(visit, screen):
    text = first_screen(visit(**screen))
    for said in (
        "emo beats mle",
        "59.9 %",
        "with 2 missing lost or won",
        "481 of 803",
        "161 of 803 pairs: the judge contradicted itself; 2 of 805 without a verdict; judged in both orders",
        "autoj: κ 0.37 (accuracy 60.0 % of 1392",
    ):
        assert said in text


def test_verdict_bar_and_warnings_are_on_the_first_screen_and_what_follows_the_pairs_is_folded(visit):
    page = visit(viewport={"width": 1280, "height": 800})
    ends = page.evaluate(
        "[...document.querySelectorAll('article:not([hidden]) :is(h1, .bar, .interval, .cautions)')]"
        ".map(each => each.getBoundingClientRect().bottom)"
    )
    assert len(ends) >= 4
    assert max(ends) <= 800
    assert page.eval_on_selector_all("main > section > details", "all => all.map(each => each.open)") == [False] * 3
    warnings = page.eval_on_selector_all("article:not([hidden]) div.cautions li", "all => all.length")
    assert warnings <= 3


def unfold(page) -> None:
    """Open what a phone shows folded."""
    page.evaluate("document.querySelectorAll('details').forEach(fold => { fold.open = true })")


@pytest.mark.parametrize("width", [360, 390])
def test_a_phone_scrolls_only_vertically(visit, width):
    page = visit("#pair-0-13", **PHONE | {"viewport": {"width": width, "height": 740}})
    unfold(page)
    page.evaluate("document.querySelectorAll('.name').forEach(each => { each.textContent = 'x'.repeat(100) })")
    assert page.evaluate("document.documentElement.scrollWidth") == width


BROKEN_WORDS = """[...document.querySelectorAll('main *:not(.text):not(code):not(option)')].flatMap(each =>
    each.closest('.text, .excerpt, svg') || !each.getClientRects().length ? [] :
    [...each.childNodes].filter(node => node.nodeType === 3).flatMap(node =>
        [...node.data.matchAll(/[^\\s–/-]{2,24}/g)].filter(word => {
            const range = document.createRange();
            range.setStart(node, word.index);
            range.setEnd(node, word.index + word[0].length);
            const lines = [...range.getClientRects()].filter(box => box.width).map(box => Math.round(box.top));
            return new Set(lines).size > 1;
        }).map(word => word[0])))"""


@pytest.mark.parametrize("screen", [PHONE, DESKTOP, PAPER], ids=["phone", "desktop", "paper"])
def test_no_word_is_broken(visit, screen):
    page = visit(**screen)
    unfold(page)
    if screen is PAPER:
        page.emulate_media(media="print")
    assert page.evaluate(BROKEN_WORDS) == []


def test_headings_tables_and_language_are_marked_up_for_screen_readers(visit):
    page = visit()
    assert page.get_attribute("html", "lang") == "en"
    levels = page.eval_on_selector_all(
        "h1, h2, h3, h4", "all => all.filter(e => e.getClientRects().length).map(e => Number(e.tagName[1]))"
    )
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    assert page.eval_on_selector_all("table", "all => all.filter(e => !e.caption).length") == 0
    assert page.eval_on_selector_all("th", "all => all.filter(e => !e.scope).length") == 0
    assert page.eval_on_selector_all("tbody tr", "all => all.filter(e => e.querySelector('th[scope=row]')).length") > 19


def test_the_pdf_has_title_date_every_comparison_every_table_and_no_controls(visit):
    page = visit(color_scheme="dark")
    captions = page.eval_on_selector_all("caption", "all => all.map(e => e.textContent)")
    document = PdfReader(io.BytesIO(page.pdf()))
    texts = [" ".join(unicodedata.normalize("NFKC", each.extract_text()).split()) for each in document.pages]
    whole = " ".join(texts)
    assert "window.broken = 8" in texts[0]  # the run's name
    assert "emo beats mle" in texts[0]
    assert "judged by smollm2_score" in whole
    assert "This judge is for trying things out" in whole
    assert [caption for caption in captions if " ".join(caption.split()) not in whole] == []
    for control in ("Print / PDF", "Search", "Skip to", "Previous", "scroll sideways", "Comparison "):
        assert control not in whole
