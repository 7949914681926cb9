"""report.html in a real Chromium: what a reader sees and can do; model output stays inert."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlparse

import pages
import pytest
from PIL import Image

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

ROOT = Path(__file__).resolve().parent.parent.parent
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]


def count(page: sync_api.Page) -> str:
    return page.inner_text("#count")


def numbers(page: sync_api.Page) -> list[int]:
    return [
        int(text)
        for text in page.eval_on_selector_all(
            "#list button > span:nth-child(2)", "all => all.map(each => parseInt(each.textContent))"
        )
    ]


def test_each_comparison_shows_its_own_verdict_warning_and_pairs(visit):
    page = visit()
    page.select_option("#comparison", label="emo against mle, judged by smollm2_score")
    assert "This judge is for trying things out" in page.inner_text("main")
    assert page.inner_text("h1:visible").startswith("emo beats mle")
    page.keyboard.press("j")
    assert page.url.endswith("#pair-1-2")
    page.click("[data-choose='0']")
    assert "This judge is for trying things out" not in page.inner_text("main")
    assert page.input_value("#comparison") == "0"


def test_pairs_are_filtered_searched_and_sorted(visit):
    page = visit()
    assert count(page) == "805 of 805 pairs"
    assert len(numbers(page)) == 50  # one page, whatever the total
    for field, value, expected in (
        ("outcome", "win", 320),
        ("outcome", "unparsed", 1),
        ("outcome", "failed", 1),
        ("orders", "inconsistent", 161),
        ("dataset", "set 1", 268),
        ("length", "similar", 408),
    ):
        page.select_option(f"#{field}", value)
        assert count(page) == f"{expected} of 805 pairs", field
        page.click("#clear")
    page.select_option("#outcome", "failed")
    assert page.inner_text("#pair .head h3") == "Pair 22"
    assert "timeout" in page.inner_text("#pair")
    page.click("#clear")
    page.fill("#search", "WORDS 700")  # a phrase of the judge, in no answer
    sync_api.expect(page.locator("#count")).to_have_text("1 of 805 pairs")
    assert page.inner_text("#pair .head h3") == "Pair 701"
    page.fill("#search", "no text holds this")
    page.wait_for_selector("text=No pair fits these filters.")
    page.click("#clear")
    page.select_option("#sort", "candidate")
    assert numbers(page)[0] == 13  # the megabyte
    page.select_option("#sort", "result")
    assert page.inner_text("#list .badge >> nth=0") == "win"


def test_verdicts_and_replies_of_both_orders_are_shown_with_both_answers(visit):
    page = visit("#pair-0-105")
    text = page.inner_text("#pair")
    assert "candidate, 840 characters" in text and "other, " in text  # noqa: PT018
    assert "emo shown first" in text and "mle shown first" in text  # noqa: PT018
    assert "emo preferred" in text and "mle preferred" in text  # noqa: PT018
    assert text.count("words 104 the reply goes on") == 2
    assert "inconsistent" in page.inner_text("#pair .head")


def test_keys_step_through_the_filtered_pairs(visit):
    page = visit()
    page.select_option("#outcome", "loss")
    page.click("#pairs h2")
    shown = numbers(page)
    for key, expected in (("j", shown[1]), ("j", shown[2]), ("k", shown[1])):
        page.keyboard.press(key)
        assert page.inner_text("#pair .head h3") == f"Pair {expected}"
    assert page.evaluate("document.activeElement.id") == "pair"  # a screen reader continues from there
    page.keyboard.press("/")
    page.keyboard.type("j")  # typed as an ordinary letter
    assert page.input_value("#search") == "j"
    page.wait_for_timeout(300)  # the search runs when typing pauses
    page.click("#clear")
    start = int(page.inner_text("#pair .head h3").removeprefix("Pair "))
    for _ in range(51):
        page.click("#pair .step button:last-child")
    first = (start + 50) // 50 * 50 + 1  # the list follows, fifty at a time
    assert page.inner_text("#page") == f"{first} to {first + 49} of 805"


def test_a_link_opens_its_pair_whatever_the_filters(visit):
    page = visit("#pair-1-700")
    assert page.inner_text("#pair .head h3") == "Pair 700"
    assert page.input_value("#comparison") == "1"
    assert page.inner_text("#page") == "651 to 700 of 805"
    page.select_option("#outcome", "win")
    page.evaluate("location.hash = '#pair-0-4'")
    page.wait_for_selector("#pair .head h3:text('Pair 4')")
    assert count(page) == "805 of 805 pairs"
    for wrong in ("#pair-9-1", "#pair-0-9999", "#pair-x", "#%"):
        page.evaluate(f"location.hash = '{wrong}'")
    assert page.inner_text("#pair .head h3") == "Pair 4"


def test_dark_mode_follows_the_system_and_the_switch_which_is_remembered(visit):
    def paper(page: sync_api.Page) -> int:
        color = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(int(each) for each in re.findall(r"\d+", color)[:3])

    page = visit(color_scheme="dark")
    assert paper(page) < 150
    page.click("#theme")
    page.reload()
    page.wait_for_selector("#list button")
    assert paper(page) > 600
    assert paper(visit(color_scheme="light")) > 600


@pytest.mark.parametrize("number", range(len(pages.HOSTILE)))
def test_hostile_texts_are_shown_verbatim(visit, number):
    page = visit(f"#pair-0-{number + 1}")
    shown = page.eval_on_selector_all(
        "#pair .box.candidate .text, #pair .box.baseline .text", "all => all.map(e => e.textContent)"
    )
    assert shown == [pages.HOSTILE[number]] * 2
    assert page.eval_on_selector_all("#pair .text *, #list .excerpt *", "all => all.length") == 0
    said = page.eval_on_selector_all("#pair .words .text", "all => all.map(e => e.textContent)")
    assert said == [pages.prompt(number)] * 2


def test_an_answer_of_a_megabyte_is_cut_and_counted(visit):
    page = visit("#pair-0-13")
    assert page.inner_text("#pair .box.candidate .text").startswith("<b>long</b> xxx")
    assert "The first 20,000 characters of 1,000,012; the run holds the rest." in page.inner_text(
        "#pair .box.candidate"
    )


def test_controls_have_accessible_names(visit):
    unnamed = visit().evaluate(
        "[...document.querySelectorAll('button, select, input, section, nav, svg[role], img')].filter(e => "
        "!(e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || e.alt || e.textContent.trim() || "
        "(e.labels && e.labels.length))).map(e => e.outerHTML.slice(0, 80))"
    )
    assert unnamed == []


def test_the_readme_screenshot_is_made_by_its_command(address, tmp_path):
    run = Path(unquote(urlparse(address).path)).parent.parent
    output = tmp_path / "report.png"
    subprocess.run([sys.executable, ROOT / "docs" / "screenshot.py", run, "--output", output], check=True)
    with Image.open(output) as image:
        assert image.width == 2400
        assert image.height > 1200
