"""Take the README's picture of a terminal: a command, run in a terminal of 96 columns, and what it prints.

instruct report --annotations alpaca-7b.alpaca_eval_gpt4.annotations.json --output runs/alpaca_7b
python docs/terminal.py instruct report runs/alpaca_7b
"""

from __future__ import annotations

import argparse
import io
import os
import pty
import re
import shlex
import subprocess
from pathlib import Path

from rich.console import Console
from rich.text import Text

COLUMNS = 96


def run_in_terminal(command: list[str]) -> str:
    """What the command prints to a terminal; it fails if the command does."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, stdout=theirs, stderr=theirs, env=os.environ | {"COLUMNS": str(COLUMNS)})
    os.close(theirs)
    printed = b""
    while True:
        try:
            printed += (part := os.read(ours, 1 << 16))
        except OSError:  # the terminal is closed
            break
        if not part:
            break
    if process.wait():
        raise SystemExit(f"{shlex.join(command)} ended with {process.returncode}:\n{printed.decode()}")
    return printed.decode().replace("\r\n", "\n")


def draw(command: str, printed: str) -> str:
    """The picture as SVG, which loads no font from elsewhere."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), color_system="truecolor", legacy_windows=False)
    console.print(Text(f"$ {command}", style="bold"))
    console.print(Text.from_ansi(printed))
    return re.sub(r"@font-face \{.*?\}", "", console.export_svg(title="instruct"), flags=re.DOTALL)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="the README's picture of a terminal")
    parser.add_argument("command", nargs="+")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "terminal.svg")
    arguments = parser.parse_args()
    arguments.output.write_text(
        draw(shlex.join(arguments.command), run_in_terminal(arguments.command)), encoding="utf-8"
    )
