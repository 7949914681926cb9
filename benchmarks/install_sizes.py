"""Megabytes and seconds of each extra: the table of docs/installation.md.

    python -m benchmarks.install_sizes base train --output benchmarks/results/install-sizes.json

builds the wheel and installs it with uv into an empty environment for each extra, all files fetched anew.
Packages that the index lacks are skipped with the error. `--torch-backend cpu` takes torch's build without CUDA.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from instruct.base.machine import machine

ROOT = Path(__file__).resolve().parents[1]


def megabytes(folder: Path) -> float:
    """What the files below a folder hold, each counted once, in 10^6 bytes."""
    sizes = {(found := path.lstat()).st_ino: found.st_size for path in folder.rglob("*") if path.is_file()}
    return sum(sizes.values()) / 1e6


def install(wheel: Path, extra: str, options: list[str]) -> dict[str, object]:
    """The size of an environment with one extra, and how long uv took to fetch and install it."""
    wanted = str(wheel) if extra == "base" else f"{wheel}[{extra}]"
    with tempfile.TemporaryDirectory() as folder:
        python = Path(folder, "environment")
        subprocess.run(["uv", "venv", "-q", "--python", sys.executable, python], check=True)
        start = time.monotonic()
        command = ["uv", "pip", "install", "-q", "--no-cache", "--python", f"{python}/bin/python", *options, wanted]
        done = subprocess.run(command, capture_output=True, text=True)
        seconds = time.monotonic() - start
        if done.returncode:
            return {"extra": extra, "error": done.stderr.strip().splitlines()[0]}
        packages = len(list(python.glob("lib/*/site-packages/*.dist-info")))
        return {"extra": extra, "megabytes": round(megabytes(python)), "seconds": round(seconds), "packages": packages}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("extras", nargs="+", help="base, or an extra of pyproject.toml")
    parser.add_argument("--torch-backend", help="as uv's: cpu, auto")
    parser.add_argument("--output", type=Path, help="a JSON file")
    options = parser.parse_args()
    backend = ["--torch-backend", options.torch_backend] if options.torch_backend else []
    with tempfile.TemporaryDirectory() as folder:
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
        subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
        (wheel,) = Path(folder).glob("*.whl")
        rows = []
        for extra in options.extras:
            rows.append(install(wheel, extra, backend))
            print(json.dumps(rows[-1]), flush=True)
    if options.output:
        record = {"machine": machine(), "torch_backend": options.torch_backend, "installs": rows}
        options.output.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
