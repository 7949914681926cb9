"""Whether the tests still see the faults in `faults.py`: each is put into a copy, in which its test must then fail.

Run it with `make mutants`, before and after tests are deleted. Words choose the faults whose names have them:
`python -m tests.mutants budget "row weight"`.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.mutants.faults import FAULTS, Fault

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 300  # of a test; one that hangs has not seen the fault
FAILED = 1  # pytest's exit code for tests that ran and failed; others are of tests that were not collected
CHOSEN = "not slow and not full"  # those of `make test`


def chosen(words: list[str]) -> list[Fault]:
    """The faults whose name has one of the words; all without words."""
    if unknown := [word for word in words if not any(word in fault.name for fault in FAULTS)]:
        sys.exit(f"mutants: no fault has {unknown[0]!r} in its name; see tests/mutants/faults.py")
    return [fault for fault in FAULTS if not words or any(word in fault.name for word in words)]


def copy_tracked(folder: Path) -> None:
    """Copy the files that git tracks, as they are in the working tree."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def with_fault(fault: Fault, right: Path) -> str:
    """The text of the fault's file with the fault in it; `right`: a copy without."""
    path = right / fault.file
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    if (count := text.count(fault.right)) != 1:
        sys.exit(f"mutants: {fault.name}: {fault.file} has {fault.right!r} {count} times, not once; correct the fault")
    faulty = text.replace(fault.right, fault.wrong)
    ast.parse(faulty)
    return faulty


def run_tests(folder: Path, tests: list[str]) -> subprocess.CompletedProcess[str]:
    """Run tests in a copy of the repository, whose `instruct` they import, in processes that they start, too."""
    data = os.environ.get("INSTRUCT_SHARED_DATA", str(ROOT.parent / "shared" / "data"))
    environment = {**os.environ, "PYTHONPATH": str(folder), "INSTRUCT_SHARED_DATA": data}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--tb=short", "-p", "no:cacheprovider", "-m", CHOSEN]
    command.append(f"--timeout={SECONDS}")
    return subprocess.run([*command, *tests], cwd=folder, env=environment, capture_output=True, text=True)


def try_fault(fault: Fault, right: Path) -> tuple[Fault, bool, float]:
    """Whether the fault's test fails in a copy with the fault, and the seconds that this took."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(right, copy)
        (copy / fault.file).write_text(with_fault(fault, right), encoding="utf-8")
        ended = run_tests(copy, [fault.test])
    caught = ended.returncode == FAILED and "Timeout" not in ended.stdout
    return fault, caught, time.monotonic() - begun


def main(words: list[str]) -> int:
    """Print a line for each fault; returns 1 if one is not caught."""
    faults = chosen(words)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(len(os.sched_getaffinity(0))) as workers:
        right = Path(folder)
        copy_tracked(right)
        for fault in faults:
            with_fault(fault, right)
        tests = list(dict.fromkeys(fault.test for fault in faults))
        ended = run_tests(right, tests)
        if ended.returncode or "skipped" in ended.stdout:
            print(ended.stdout, ended.stderr, sep="\n")
            sys.exit("mutants: without a fault, the tests above do not pass; mend them first")
        missed = 0
        print("| fault | file | test | | seconds |", "|---|---|---|---|---|", sep="\n")
        for fault, caught, seconds in workers.map(lambda fault: try_fault(fault, right), faults):
            missed += not caught
            said = "caught" if caught else "NOT CAUGHT"
            print(f"| {fault.name} | {fault.file} | {fault.test} | {said} | {seconds:.0f} |", flush=True)
    print(f"{len(faults) - missed} of {len(faults)} faults are caught")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
