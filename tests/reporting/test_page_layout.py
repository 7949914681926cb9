"""How report.html looks in a real Chromium: the first screen, a phone, paper, and for readers who do not see it."""

from __future__ import annotations

import io
import itertools
import re
import unicodedata

import numpy as np
import pytest
from PIL import Image

from instruct.judging.store import Judgment, JudgmentStore
from instruct.reporting.report import write_report

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


def pixels(page, locator: str, **options) -> np.ndarray:
    """A screenshot of an element as gray values."""
    shot = page.locator(locator).first.screenshot(**options)
    return np.asarray(Image.open(io.BytesIO(shot)).convert("L"), dtype=int)


@pytest.fixture
def visit_small(run, write_answers, browser):
    """`visit_small(verdicts, **context)`: the page of a small run, judged by autoj as given."""
    opened = []

    def go(verdicts: list[tuple[str, str]], **context):
        for name in ("emo", "mle"):
            write_answers(name, len(verdicts))
        judgments = [
            Judgment("autoj", "emo", "mle", number, f"secret prompt {number}", "d", position, "k", verdict)
            for number, pair in enumerate(verdicts)
            for position, verdict in zip(("first", "second"), pair, strict=True)
        ]
        with JudgmentStore(run.store) as store:
            store.add_judgments(judgments)
        page = browser.new_context(**context).new_page()
        page.goto(write_report(run.folder).path.with_suffix(".html").as_uri())
        page.wait_for_selector("#list button")
        opened.append(page)
        return page

    yield go
    for page in opened:
        page.context.close()


@pytest.mark.parametrize("screen", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_the_first_screen_has_winner_rate_interval_decided_pairs_trust_and_largest_tie(visit, screen):
    text = first_screen(visit(**screen))
    assert "emo beats mle" in text
    assert "59.9 %" in text
    assert "with 2 missing lost or won" in text
    assert "481 of 803" in text
    assert "161 of 803 pairs: the judge contradicted itself; 2 of 805 without a verdict; judged in both orders" in text
    assert "κ 0.37" in text
    assert "autoj: κ 0.37 (accuracy 60.0 % of 1392" in text


@pytest.mark.parametrize("screen", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_the_first_screen_of_3_decided_pairs_of_32_names_no_winner(visit_small, screen):
    verdicts = [("first", "second")] * 2 + [("second", "first")] + [("first", "first")] * 28 + [("tie", "tie")]
    text = first_screen(visit_small(verdicts, **screen))
    assert "Too few pairs to compare emo with mle" in text
    assert "51.6 % | 95 % CI 45.0–58.1" in text
    assert "3 of 32 | 28 of 32 pairs: the judge contradicted itself; judged in both orders" in text


def test_without_verdicts_the_first_screen_says_so(visit_small):
    text = first_screen(visit_small([("unparsed", "failed")] * 10, **PHONE))
    assert "No verdict on emo against mle" in text
    assert "none | no pair has a verdict" in text
    assert "10 of 10 without a verdict" in text


def test_a_baseline_that_wins_is_named_with_its_own_rate(visit_small):
    text = first_screen(visit_small([("second", "first")] * 9 + [("first", "second")], **DESKTOP))
    assert "mle beats emo" in text
    assert re.search(r"Win rate of ?\|? ?mle \| (mle \| )?90 % \| 95 % CI 55–100; emo: 10 %", text)


def test_warnings_that_change_a_claim_are_unfolded_and_the_legend_has_what_there_is(visit):
    page = visit()
    text = page.inner_text("article:not([hidden])")
    assert "Sign test: p < 0.001 (481 pairs without ties; with 2 missing lost or won)" in text
    assert "exploratory, not corrected" in text
    text = page.inner_text("article:not([hidden]) div.cautions")
    assert "2 of 805 pairs have no verdict (1 unparsed, 1 failed): with them lost or won the win rate of emo" in text
    assert "Inconsistent: the verdict changed with the order of the answers for 161 of 803 pairs (20.0 %)" in text
    assert "The winner's answers (emo) are 76 % longer" in text
    legend = page.inner_text(".legend")
    assert "emo better 320" in legend
    assert "judge contradicted itself 161" in legend
    assert "no verdict 2" in legend


def unfold(page) -> None:
    """Open what a phone shows folded."""
    page.evaluate("document.querySelectorAll('details').forEach(fold => { fold.open = true })")


def test_a_phone_folds_long_sections_and_a_link_to_one_opens_it(visit_small):
    page = visit_small([("first", "second")] * 6 + [("second", "first")] * 4, **PHONE)
    assert page.evaluate("document.documentElement.scrollHeight") < 4500
    assert not page.is_visible("#numbers table")
    page.click("nav a[href='#numbers']")
    assert page.is_visible("#numbers table")


@pytest.mark.parametrize("width", [360, 390])
def test_a_phone_scrolls_only_vertically(visit, width):
    page = visit("#pair-0-13", **PHONE | {"viewport": {"width": width, "height": 740}})
    unfold(page)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    lefts = page.eval_on_selector_all("#pair .two .box", "all => all.map(e => e.getBoundingClientRect().left)")
    assert len(set(lefts)) == 1  # one below the other


def test_names_of_a_hundred_letters_do_not_widen_a_phone(visit_small, run):
    page = visit_small([("first", "second")] * 3, **PHONE)
    unfold(page)
    page.evaluate("document.querySelectorAll('.name').forEach(each => { each.textContent = 'x'.repeat(100) })")
    assert page.evaluate("document.documentElement.scrollWidth") == 390


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


def test_a_table_wider_than_a_phone_has_a_shade_where_it_goes_on(visit):
    page = visit(**PHONE)
    unfold(page)
    wide, narrow = [
        page.eval_on_selector_all(
            ".table-box",
            f"all => all.findIndex(e => e.getClientRects().length && (e.scrollWidth {sign} e.clientWidth))",
        )
        for sign in (">", "<=")
    ]
    edge = """(box, by) => { box.scrollLeft = by; const { x, y, width } = box.getBoundingClientRect();
        return { x: x + scrollX + width - 6, y: y + scrollY + 10, width: 4, height: 12 }; }"""

    def darkness(table: int, by: int) -> int:
        box = page.locator(".table-box").nth(table).evaluate(edge, by)
        shot = page.screenshot(clip=box, full_page=True)
        return 255 - int(np.asarray(Image.open(io.BytesIO(shot)).convert("L"), dtype=int).mean())

    assert darkness(wide, 0) > 30
    assert darkness(wide, 10_000) < 3  # nothing more to the right
    assert darkness(narrow, 0) < 3
    assert "Tables wider than this screen scroll sideways." in page.inner_text("#numbers")


def test_figures_on_a_phone_are_as_large_as_on_paper_and_scroll(visit):
    page = visit(**PHONE)
    unfold(page)
    for width, box, room in page.eval_on_selector_all(
        "figure img", "all => all.map(e => [e.clientWidth, e.parentElement.scrollWidth, e.parentElement.clientWidth])"
    ):
        assert width >= 704  # 576 points: letters of 8 points have 9.8 pixels
        assert box >= width > room


def test_whatever_can_be_tapped_is_at_least_40_pixels_high(visit):
    page = visit(**PHONE)
    unfold(page)
    small = """[...document.querySelectorAll('a, button, select, input')].filter(e => e.getClientRects().length
        && !e.closest('.skip') && e.getBoundingClientRect().height < 40).map(e => e.outerHTML.slice(0, 80))"""
    assert page.evaluate(small) == []


CONTRAST = """(() => {
    const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    const rgba = (color) => {
        canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    const linear = (c) => c <= 10.31475 ? c / 3294.6 : ((c / 255 + 0.055) / 1.055) ** 2.4;
    const light = ([red, green, blue]) => 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
    const paper = (each) => {
        for (; each; each = each.parentElement) {
            const found = rgba(getComputedStyle(each).backgroundColor);
            if (found[3] === 255) return found;
        }
        return [255, 255, 255, 255];
    };
    return [...document.querySelectorAll('body *')].filter(each => each.getClientRects().length && !each.closest('svg')
        && !each.disabled && [...each.childNodes].some(node => node.nodeType === 3 && node.data.trim())).map(each => {
        const [ink, ground] = [light(rgba(getComputedStyle(each).color)), light(paper(each))];
        return [(Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05), each.outerHTML.slice(0, 80)];
    });
})()"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_visible_text_has_the_contrast_of_wcag_aa(visit, scheme):
    found = visit(color_scheme=scheme).evaluate(CONTRAST)
    assert len(found) > 300
    assert [each for each in found if each[0] < 4.5] == []


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


def test_what_scrolls_can_be_reached_by_the_keyboard_and_shows_the_focus(visit):
    page = visit()
    assert page.eval_on_selector_all(".scroll", "all => all.filter(e => e.tabIndex !== 0).length") == 0
    page.focus(".scroll")
    page.keyboard.press("Tab")  # focus by the keyboard, not by script
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_nothing_moves_for_readers_who_prefer_reduced_motion(visit):
    page = visit(reduced_motion="reduce")
    assert page.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == "auto"
    durations = page.eval_on_selector_all("*", "all => all.map(e => getComputedStyle(e).transitionDuration)")
    assert set(durations) == {"0s"}


def test_one_click_prints(visit):
    page = visit()
    page.evaluate("() => { window.printed = 0; window.print = () => { window.printed += 1 }; }")
    page.click("text=Print / PDF")
    assert page.evaluate("window.printed") == 1


def test_the_pdf_has_title_date_every_comparison_every_table_and_no_controls(visit):
    pypdf = pytest.importorskip("pypdf")
    page = visit(color_scheme="dark")
    captions = page.eval_on_selector_all("caption", "all => all.map(e => e.textContent)")
    document = pypdf.PdfReader(io.BytesIO(page.pdf()))
    texts = [" ".join(unicodedata.normalize("NFKC", each.extract_text()).split()) for each in document.pages]
    whole = " ".join(texts)
    assert "window.broken = 8" in texts[0]  # the run's name
    assert "evaluation report, 2026-01-02" in texts[0]
    assert "emo beats mle" in texts[0]
    for judge in ("autoj", "smollm2_score"):
        assert f"judged by {judge}" in whole
    assert "This judge is for trying things out" in whole
    assert [caption for caption in captions if " ".join(caption.split()) not in whole] == []
    for section in ("Figures", "Numbers"):
        assert any(re.match(rf"\d+ / \d+ {section}", text) for text in texts), f"{section} does not begin a page"
    for control in ("Print / PDF", "Search", "Skip to", "Previous", "scroll sideways", "Comparison "):
        assert control not in whole
    assert f"1 / {len(texts)}" in texts[0]


def test_on_paper_nothing_is_dark_cut_or_missing(visit):
    page = visit(color_scheme="dark", **PAPER)
    page.click("#theme")  # light, and back
    page.click("#theme")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    cut = """[...document.querySelectorAll('table, figure img, h1, .facts, .bar')]
        .filter(e => e.getClientRects().length && e.getBoundingClientRect().right > innerWidth + 1)
        .map(e => e.tagName + (e.caption ? e.caption.textContent : ''))"""
    assert page.evaluate(cut) == []
    figure = pixels(page, "figure img")
    assert np.median(figure) > 250  # drawn on white
    assert (figure < 200).mean() > 0.02  # and it is there
    bar = pixels(page, ".bar")
    assert (bar < 200).mean() > 0.5


def test_the_page_of_compared_runs_fits_a_phone(run, write_answers, judge_pairs, card, browser, tmp_path, monkeypatch):
    from instruct.command.main import main

    card("j")
    for name in ("emo", "mle", "theirs"):
        write_answers(name, 12)
    for name in ("emo", "mle"):
        judge_pairs([("first", "second")] * 8 + [("second", "first")] * 4, candidate=name, baseline="theirs")
    monkeypatch.setattr("sys.argv", ["instruct", "compare", str(run.folder), "--output", str(tmp_path / "c.html")])
    assert main() == 0
    context = browser.new_context(**PHONE)
    page = context.new_page()
    page.goto((tmp_path / "c.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert page.evaluate(BROKEN_WORDS) == []
    assert "scroll sideways" in page.inner_text("main")
    context.close()
