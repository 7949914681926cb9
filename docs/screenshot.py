"""Take the README's picture of a report: the first screen of report.html, which shows no prompts and no answers.

    instruct report --annotations annotations.json --output runs/alpaca_7b
    python docs/screenshot.py runs/alpaca_7b

Needs playwright (the `dev` extra) and a Chromium on the path.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright

WIDTH = 1200


def take_screenshot(run: Path, output: Path) -> None:
    """Write the top of `run`/report/report.html as PNG, in light colors, at twice the screen resolution."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("Chromium is not on the path; install it (Debian: apt-get install chromium)")
    page_file = (run / "report" / "report.html").resolve()
    if not page_file.is_file():
        raise SystemExit(f"{page_file}: no such file; write it with: instruct report {run}")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=flags)
        page = browser.new_page(color_scheme="light", viewport={"width": WIDTH, "height": 700}, device_scale_factor=2)
        page.goto(page_file.as_uri())
        box = page.locator("#verdict").bounding_box()
        assert box is not None
        page.set_viewport_size({"width": WIDTH, "height": round(box["y"] + box["height"])})
        page.screenshot(path=output)
        browser.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="the README's picture of a run's report")
    parser.add_argument("run", type=Path, help="the run directory")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "report.png")
    arguments = parser.parse_args()
    take_screenshot(arguments.run, arguments.output)
