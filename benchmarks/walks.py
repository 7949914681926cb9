"""The files that one row, prompt, text, pair or report passes through: how far apart what belongs together is.

    python -m benchmarks.walks [FOLDER]

Each phase runs on SmolLM2-135M with two inputs and with three, each in a batch of its own. A function that is called
more often with three has seen the input, and its file is part of the walk, with the number of such functions. Of the
report, every file counts whose functions run. FOLDER is another version's clone, to compare with.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROFILE = """
import atexit, collections, json, os, sys, threading
calls = collections.Counter()
place = os.environ["INSTRUCT_PACKAGE"]
def profile(frame, event, argument):
    code = frame.f_code
    # Functions alone have fast locals (CO_OPTIMIZED): the bodies of modules and classes, which run on import, do not
    # count, nor do a module's own comprehensions.
    if event == "call" and code.co_filename.startswith(place) and code.co_flags & 1 and code.co_qualname[0] != "<":
        calls[code.co_filename[len(place) + 1:] + " " + code.co_qualname] += 1
def write():
    with open(os.environ["INSTRUCT_CALLS"], "w") as file:
        json.dump(calls, file)
atexit.register(write)
threading.setprofile(profile)
sys.setprofile(profile)
from instruct.__main__ import main
sys.exit(main())
"""


def calls_of(root: Path, folder: Path, *arguments: str) -> Counter[str]:
    """How often each function of the package in `root` was called by the command."""
    counts = folder / "calls.json"
    package = str(root / "instruct")
    known = {**os.environ, "PYTHONPATH": str(root), "INSTRUCT_PACKAGE": package, "INSTRUCT_CALLS": str(counts)}
    done = subprocess.run(
        [sys.executable, "-c", PROFILE, *arguments], cwd=folder, env=known, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return Counter(json.loads(counts.read_text()))


def write_inputs(folder: Path, number: int) -> None:
    """Rows to train on, prompts to answer, texts to measure and two systems' answers: `number` of each."""
    words = ["red", "green", "blue"][:number]
    rows = [{"instruction": f"Name something {word}.", "input": "", "output": f"A {word} door."} for word in words]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "texts.txt").write_text("".join(f"The door of the old house was {word} then.\n" for word in words))
    for system, ending in (("ours", "door"), ("theirs", "car")):
        answers = [{**row, "output": f"{row['output']} And a {ending}.", "generator": system} for row in rows]
        (folder / f"{system}.json").write_text(json.dumps(answers))


def walks(root: Path, folder: Path, number: int) -> dict[str, Counter[str]]:
    """The calls of each phase with `number` inputs, and of the report."""
    folder.mkdir()
    write_inputs(folder, number)
    model = ["--model", "smollm2-135m-instruct", "--objective", "emo", "--name", "x", "--data.files", "rows.jsonl"]
    training = ["--train.per_device_train_batch_size", "1", "--train.num_train_epochs", "1", "--train.max_length", "64"]
    answers = [
        "--answers.files", "rows.jsonl", "--answers.generation.batch_size", "1",
        "--answers.generation.engine", "transformers", "--answers.generation.max_new_tokens", "2",
    ]  # fmt: skip
    texts = ["--evaluation.texts.held_out.files", "texts.txt", "--evaluation.texts.metrics", "[perplexity]"]
    judge = ["--judge", "smollm2_score", "--candidate", "ours.json", "--baseline", "theirs.json", "--output", "runs/y"]
    return {
        "row to adapter": calls_of(root, folder, "train", *model, *training),
        "prompt to answer": calls_of(root, folder, "generate", "runs/x", *answers),
        "text to number": calls_of(root, folder, "evaluate", "runs/x", *texts),
        "pair to verdict": calls_of(root, folder, "judge", *judge),
        "verdicts to report": calls_of(root, folder, "report", "runs/y"),
    }


def main() -> None:
    root = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT
    with tempfile.TemporaryDirectory() as name:
        two, three = (walks(root, Path(name) / str(number), number) for number in (2, 3))
    for walk, calls in three.items():
        more = calls if walk == "verdicts to report" else calls - two[walk]
        files = Counter[str]()
        for function in more:
            files[function.split(" ")[0]] += 1
        print(f"{walk}: {len(files)} files\n  " + "\n  ".join(f"{file} ({n})" for file, n in sorted(files.items())))


if __name__ == "__main__":
    main()
