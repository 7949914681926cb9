"""MkDocs hooks: pages from outside docs/, tables of keys, an API reference page per package, links that work here."""

from __future__ import annotations

import posixpath
import re
import subprocess
from pathlib import Path

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
PAGES = {
    "index.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "security.md": "SECURITY.md",
    "benchmarks.md": "benchmarks/README.md",
    "faults.md": "tests/faults/README.md",
}
FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"\A```(\w+) (\S+)$", re.MULTILINE)
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
EXTERNAL_ASSET = re.compile(r"""<(?:(?:script|img|iframe|source)[^>]+src|link[^>]+href)=["']?(?:https?:)?//""")


def reference_pages() -> dict[str, list[str]]:
    """The public modules of each page of the reference: one page per package, one for the top level."""
    pages: dict[str, list[str]] = {}
    for path in sorted((ROOT / "instruct").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if any(part.startswith("_") for part in parts):
            continue
        package = parts[1] if len(parts) > 2 else "instruct"
        pages.setdefault(f"reference/{package}.md", []).append(".".join(parts))
    return pages


def on_config(config):
    config.nav.append({"API reference": sorted(reference_pages())})
    return config


def on_files(files, config):
    for name, source in PAGES.items():
        files.append(File.generated(config, name, content=(ROOT / source).read_text(encoding="utf-8")))
    for name, modules in reference_pages().items():
        content = f"# {Path(name).stem}\n\n" + "".join(f"::: {module}\n\n" for module in modules)
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown, page, config, files):
    """Tables of keys; links to pages of the site, or plain text for other files; a block's file as its title."""
    here = page.file.src_uri
    source = PAGES.get(here, f"docs/{here}")
    if "<!-- keys: " in markdown:  # from the package's models, which .venv has the dependencies of
        command = [".venv/bin/python", "-m", "instruct.command.reference", source]
        markdown = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout

    def rewrite(match: re.Match[str]) -> str:
        image, label, target, anchor = match.groups(default="")
        if re.match(r"[a-z]+:", target):
            return match[0]
        file = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        name = next((page for page, path in PAGES.items() if path == file), file.removeprefix("docs/"))
        if files.get_file_from_path(name) is None:
            return label
        return f"{image}[{label}]({posixpath.relpath(name, posixpath.dirname(here) or '.')}{anchor})"

    return "".join(
        FILE.sub(r'```\1 title="\2"', part) if FENCE.fullmatch(part) else LINK.sub(rewrite, part)
        for part in FENCE.split(markdown)
    )


def on_post_build(config):
    """The site must work offline.

    Raises:
        PluginError: a page loads something from another server.
    """
    for path in Path(config.site_dir).rglob("*.html"):
        if match := EXTERNAL_ASSET.search(path.read_text(encoding="utf-8")):
            raise PluginError(f"{path}: loads from another server: {match[0]}...; serve the file from docs/ instead")
