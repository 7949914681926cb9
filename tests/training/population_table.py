"""What becomes of types of models: docs/models.md, from walking each type in a process of its own.

    python tests/training/population_table.py          # the types that are tested
    python tests/training/population_table.py --all    # prints what becomes of all that transformers builds

It goes on where it was stopped (population.jsonl in the temporary folder), with 60 seconds and 8 GiB for each type.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import resource
import sys
import tempfile
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "training")]
PAGE = ROOT / "docs" / "models.md"
SECONDS, BYTES = 60, 8 << 30
# What a model of a type needs besides tokens, or a package that is not here: not something that this package refuses.
NEEDS = re.compile("No module named|requires? the|not installed|is required|must be installed|ImportError", re.I)


def outcome(kind: str, tokenizer: str) -> dict[str, str]:
    """The type's status and, if it does not go the whole way, the line that a user gets."""
    from test_population import walk

    from instruct.base.errors import InputError

    try:
        with tempfile.TemporaryDirectory() as folder:
            walk(kind, Path(folder) / "walk", Path(tokenizer), {"r": 2})
        return {"kind": kind, "status": "green", "line": ""}
    except InputError as error:
        line, status = str(error), "refused"
    except AssertionError as error:
        line, status = f"AssertionError: {error}", "differs"
    except BaseException as error:  # transformers has no limits to what it raises
        line, status = f"{type(error).__name__}: {error}", "fails"
    line = " ".join(line.split())[:200]
    return {"kind": kind, "status": "needs" if NEEDS.search(line) else status, "line": line}


def _walk(kind: str, tokenizer: str, file: str) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    warnings.simplefilter("ignore")
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    made = outcome(kind, tokenizer)
    with Path(file).open("a") as out:
        out.write(json.dumps(made) + "\n")
    os._exit(0)


def walk_all(file: Path, tokenizer: str, kinds: list[str]) -> dict[str, dict[str, str]]:
    """Those types that are not in `file` yet, each in a process that begins with the libraries loaded."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "transformers", "peft", "trl", "datasets", "test_population"])
    file.touch()
    for kind in kinds:
        if kind in _read(file):
            continue
        process = context.Process(target=_walk, args=(kind, tokenizer, str(file)))
        process.start()
        process.join(SECONDS)
        if process.is_alive():
            process.kill()
            process.join()
        if kind not in _read(file):
            with file.open("a") as out:
                line = f"no result in {SECONDS} s" if process.exitcode == -9 else f"ended with {process.exitcode}"
                out.write(json.dumps({"kind": kind, "status": "fails", "line": line}) + "\n")
    return _read(file)


def _read(file: Path) -> dict[str, dict[str, str]]:
    return {row["kind"]: row for row in map(json.loads, file.read_text().splitlines())}


def page(rows: dict[str, dict[str, str]]) -> str:
    """docs/models.md."""
    import transformers
    from population import TYPES

    lines = [
        "# Models",
        "",
        "<!-- Written by tests/training/population_table.py. -->",
        "",
        f"Of the {len(TYPES)} types that transformers {transformers.__version__} builds as a causal language model or "
        f"as an image-text-to-text model, these {len(rows)} are tested: a tiny random model of the type is trained "
        "with LoRA and whole for two steps, answers, is measured and is merged, and each stage gives the trainer's own "
        "log-probabilities to 1e-4 in float32. Others are loaded in the same way; a model whose head is more than a "
        "matrix, a scale and a softcap is refused in one line before it is trained.",
        "",
        "| type | train, answer, measure, merge |",
        "|---|---|",
        *(
            f"| `{kind}` | {'yes' if row['status'] == 'green' else row['status'] + ': ' + row['line']} |"
            for kind, row in sorted(rows.items())
        ),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    from conftest import byte_tokenizer
    from population import TYPES
    from test_population import GREEN

    file = Path(tempfile.gettempdir()) / "population.jsonl"
    with tempfile.TemporaryDirectory() as folder:
        byte_tokenizer().save_pretrained(folder)
        rows = walk_all(file, folder, TYPES if "--all" in sys.argv else GREEN)
    if "--all" in sys.argv:
        print("\n".join(f"{row['status']:<8} {kind:<24} {row['line']}" for kind, row in sorted(rows.items())))
    else:
        PAGE.write_text(page({kind: rows[kind] for kind in GREEN}))


if __name__ == "__main__":
    main()
