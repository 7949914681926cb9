"""Every Markdown file: the files and headings that it links exist, and so do the names that its Python imports."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("docs", "tests", "benchmarks")
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob(".github/*.md"),
        *(page for name in FOLDERS for page in ROOT.glob(f"{name}/**/*.md") if "golden" not in page.parts),
    ]
)
FENCE = re.compile(r"^( *)(`{3,}|~{3,}).*?^\1\2`*~*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)\s]+)(?: \"[^\"]*\")?\)")


def anchors(page: Path) -> set[str]:
    """The headings' anchors, as code hosting sites and the documentation site make them."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ +(.*?)#* *$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        found.add(
            slug if slug not in found else next(f"{slug}-{n}" for n in range(1, 99) if f"{slug}-{n}" not in found)
        )
    return found


def broken_links(page: Path) -> list[str]:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    broken = []
    for target in LINK.findall(CODE.sub("code", text)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = unquote(target).partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            broken.append(target)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_have_a_target(page):
    assert broken_links(page) == []


def missing_imports(page: Path) -> list[str]:
    """What the page's Python takes from this package, which has no such name."""
    missing = []
    for code in re.findall(r"^```python[^\n]*\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "instruct":
                module = importlib.import_module(str(node.module))
                missing += [f"{node.module}.{name.name}" for name in node.names if not hasattr(module, name.name)]
    return missing


def test_the_python_of_every_page_imports_names_that_exist():
    assert {str(page.relative_to(ROOT)): missing for page in PAGES if (missing := missing_imports(page))} == {}
