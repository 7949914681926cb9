"""What a person must be able to see of report.html, in a real Chromium, and do there; model output stays inert."""

from __future__ import annotations

import io
import itertools
import re
import shutil
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pages import HOSTILE, prompt, write_test_page
from pypdf import PdfReader

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]

DESKTOP = {"viewport": {"width": 1280, "height": 800}}
PHONE = {"viewport": {"width": 390, "height": 664}, "has_touch": True, "is_mobile": True}  # an iPhone below its bars
DARK = DESKTOP | {"color_scheme": "dark"}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A real Chromium, for one module: while playwright drives it, an asyncio loop runs in this thread."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        pytest.skip("there is no Chromium on this machine")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=flags)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> str:
    return write_test_page(tmp_path_factory.mktemp("page") / "run").as_uri()


@pytest.fixture
def visit(browser, address) -> Iterator[Callable[..., Any]]:
    """`visit(fragment, **context)`: the page with its pairs; at the end, no script may have run and nothing loaded."""
    seen: list[str] = []
    opened = []

    def go(fragment: str = "", **context: object) -> Any:
        page = browser.new_context(**DESKTOP | context).new_page()
        page.on("console", lambda message: seen.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: seen.append(f"error: {error}"))
        page.on("dialog", lambda dialog: seen.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: seen.append(request.url[:200]) if not own(request.url) else None)
        page.goto(address + fragment)
        page.wait_for_selector("#list button")
        opened.append(page)
        return page

    def own(url: str) -> bool:
        return url.split("#")[0] == address or url.startswith("data:")

    yield go
    for page in opened:
        assert page.evaluate("window.broken") is None
        page.context.close()
    assert seen == []


# Elements with a text of their own that are shown, and those that end on the first screen.
SHOWN = """[...document.querySelectorAll('body *')].filter(each => each.getClientRects().length
    && [...each.childNodes].some(node => node.nodeType === 3 && node.data.trim()))"""
FIRST_SCREEN = f"""{SHOWN}.filter(each => each.closest('main') && each.getBoundingClientRect().bottom <= innerHeight)
    .map(each => each.innerText ?? each.textContent).join(' | ')"""
BROKEN_WORDS = f"""{SHOWN}.filter(each => !each.closest('.text, .excerpt, svg, code, option')).flatMap(each =>
    [...each.childNodes].filter(node => node.nodeType === 3).flatMap(node =>
        [...node.data.matchAll(/[^\\s–/-]{{2,24}}/g)].filter(word => {{
            const range = document.createRange();
            range.setStart(node, word.index);
            range.setEnd(node, word.index + word[0].length);
            const lines = [...range.getClientRects()].filter(box => box.width).map(box => Math.round(box.top));
            return new Set(lines).size > 1;
        }}).map(word => word[0])))"""
# Each text with its color and that of what is behind it; in a bar, that of its part or of the pattern's ground.
COLORS = f"""{SHOWN}.filter(each => !each.closest('option')).map(each => {{
    const style = getComputedStyle(each);
    if (each.closest('svg.bar')) {{
        const part = each.getAttribute('class').replace('on-', '');
        const ground = document.querySelector(`.patterns rect.${{part}}`) ?? document.querySelector(`rect.${{part}}`);
        return [each.textContent, style.fill, getComputedStyle(ground).fill];
    }}
    const paper = above => {{
        const color = getComputedStyle(above).backgroundColor;
        return color === 'rgba(0, 0, 0, 0)' ? paper(above.parentElement) : color;
    }};
    return [each.textContent.trim().slice(0, 40), each.closest('svg') ? style.fill : style.color, paper(each)];
}})"""


def contrast(one: str, other: str) -> float:
    """WCAG 2.2's contrast ratio of two colors, as a browser writes them."""
    shares = []
    for color in (one, other):
        channels = [int(each) / 255 for each in re.findall(r"\d+", color)[:3]]
        linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in channels]
        shares.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] + 0.05)
    return max(shares) / min(shares)


@pytest.mark.parametrize("screen", [DESKTOP, PHONE, DARK], ids=["desktop", "phone", "dark"])
def test_the_finding_is_on_the_first_screen_and_everything_can_be_read(visit, screen):
    page = visit(**screen)
    first = re.sub(r"\s+", " ", page.evaluate(FIRST_SCREEN))
    for said in (
        "emo beats mle",
        "59.9 %",
        "with 2 missing lost or won",
        "161 of 803 pairs: the judge contradicted itself",
        "2 of 805 pairs have no verdict",
    ):
        assert said in first
    if screen is not PHONE:
        parts = "article:not([hidden]) :is(.bar, .interval, .cautions)"
        ends = page.eval_on_selector_all(parts, "all => all.map(each => each.getBoundingClientRect().bottom)")
        assert len(ends) >= 3
        assert max(ends) <= 800
    assert page.eval_on_selector_all("main > section > details", "all => all.map(each => each.open)") == [False] * 3
    page.evaluate("document.querySelectorAll('details').forEach(fold => { fold.open = true })")
    assert page.evaluate(BROKEN_WORDS) == []
    texts = page.evaluate(COLORS)
    assert len(texts) > 100
    assert [(text, ratio) for text, *both in texts if (ratio := contrast(*both)) < 4.5] == []
    page.evaluate("document.querySelectorAll('.name').forEach(each => { each.textContent = 'x'.repeat(100) })")
    assert page.evaluate("document.documentElement.scrollWidth") == screen["viewport"]["width"]


def test_paper_has_the_finding_every_comparison_every_table_and_no_controls(visit):
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


def chosen(page: Any) -> str:
    return page.inner_text("#pair .head h3")


def numbers(page: Any) -> list[int]:
    script = "all => all.map(each => parseInt(each.textContent))"
    return page.eval_on_selector_all("#list button > span:nth-child(2)", script)


def test_pairs_are_found_with_their_verdicts_and_replies(visit):
    page = visit()
    assert len(numbers(page)) == 50  # one page, whatever the total
    for field, value, expected in (
        ("outcome", "win", 320),
        ("outcome", "failed", 1),
        ("orders", "inconsistent", 161),
        ("dataset", "set 1", 268),
        ("length", "similar", 408),
    ):
        page.select_option(f"#{field}", value)
        assert page.inner_text("#count") == f"{expected} of 805 pairs", field
        page.click("#clear")
    page.fill("#search", "WORDS 700")  # a phrase of the judge, in no answer
    page.wait_for_selector("text=1 of 805 pairs")
    assert chosen(page) == "Pair 701"
    page.click("#clear")
    page.select_option("#sort", "candidate")
    assert numbers(page)[0] == 13  # the megabyte
    page.select_option("#comparison", label="emo against mle, judged by smollm2_score")
    assert "This judge is for trying things out" in page.inner_text("main")
    page.evaluate("location.hash = '#pair-0-105'")  # as a link
    page.wait_for_selector("#pair .head h3:text('Pair 105')")
    assert page.input_value("#comparison") == "0"
    assert "This judge is for trying things out" not in page.inner_text("main")
    text = page.inner_text("#pair")
    for said in ("840 characters", "emo shown first", "mle shown first", "emo preferred", "mle preferred"):
        assert said in text
    assert text.count("words 104 the reply goes on") == 2
    for wrong in ("#pair-9-1", "#pair-0-9999", "#pair-x", "#%"):
        page.evaluate(f"location.hash = '{wrong}'")
    assert chosen(page) == "Pair 105"


def test_a_keyboard_and_a_screen_reader_are_enough(visit):
    page = visit()
    page.select_option("#outcome", "loss")
    page.click("#pairs h2")
    shown = numbers(page)
    for key, expected in (("j", shown[1]), ("j", shown[2]), ("k", shown[1])):
        page.keyboard.press(key)
        assert chosen(page) == f"Pair {expected}"
    assert page.evaluate("document.activeElement.id") == "pair"  # a screen reader continues from there
    page.keyboard.press("/")
    page.keyboard.type("j")  # typed as an ordinary letter
    assert page.input_value("#search") == "j"
    levels = page.eval_on_selector_all(
        "h1, h2, h3, h4", "all => all.filter(e => e.getClientRects().length).map(e => Number(e.tagName[1]))"
    )
    assert (levels[0], levels.count(1)) == (1, 1)
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    lacking = page.evaluate(
        "[...document.querySelectorAll('button, select, input, section, nav, svg[role], img')].filter(e => "
        "!(e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || e.alt || e.textContent.trim() || "
        "(e.labels && e.labels.length))).concat("
        "[...document.querySelectorAll('table')].filter(e => !e.caption), "
        "[...document.querySelectorAll('th')].filter(e => !e.scope)).map(e => e.outerHTML.slice(0, 80))"
    )
    assert lacking == []


def test_hostile_texts_are_shown_verbatim_and_do_nothing(visit):
    def texts(selector: str) -> list[str]:
        return page.eval_on_selector_all(selector, "all => all.map(e => e.textContent)")

    page = visit("#pair-0-1")
    for number, text in enumerate(HOSTILE):
        page.evaluate(f"location.hash = '#pair-0-{number + 1}'")
        page.wait_for_selector(f"#pair .head h3:text-is('Pair {number + 1}')")
        assert texts("#pair .box.candidate .text, #pair .box.baseline .text") == [text] * 2
        assert texts("#pair .text *, #list .excerpt *") == []
        assert texts("#pair .words .text") == [prompt(number)] * 2
    page.evaluate("location.hash = '#pair-0-13'")
    page.wait_for_selector("#pair .head h3:text-is('Pair 13')")
    (answer,) = texts("#pair .box.candidate")
    assert "<b>long</b> xxx" in answer
    assert "The first 20,000 characters of 1,000,012; the run holds the rest." in answer
