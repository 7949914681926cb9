"""The project's errors, and how a command ends with them: one line on stderr and an exit code."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence


class InstructError(Exception):
    """The work failed. Exit code 1."""

    exit_code = 1


class InputError(InstructError):
    """The call was wrong: the message is one line that names file, row, field and remedy. Exit code 2."""

    exit_code = 2


class InputErrors(InputError):
    """Several things were wrong with the call. `problems` has a line for each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = list(problems)


class Problems:
    """What is wrong, collected from checks that each raise InputError, so that all of it is reported at once."""

    def __init__(self) -> None:
        self.found: list[str] = []

    @contextlib.contextmanager
    def collected(self) -> Iterator[None]:
        """Keep the errors of a check instead of raising them."""
        try:
            yield
        except InputError as error:
            self.found += error.problems if isinstance(error, InputErrors) else [str(error)]

    def refuse(self) -> None:
        """Raise what was found, if anything."""
        found = list(dict.fromkeys(self.found))
        if len(found) == 1:
            raise InputError(found[0])
        if found:
            raise InputErrors(found)


class StoppedError(InstructError):
    """A budget or too many failures stopped the work; what was done is kept. Exit code 3."""

    exit_code = 3


class GateError(InstructError):
    """A figure in the report is below `--fail-under`; the report was written anyway. Exit code 4."""

    exit_code = 4


def run_guarded(work: Callable[[], None]) -> int:
    """Run `work`, turning an error that the user can act on into one line on stderr.

    Returns:
        The process's exit code: 0 done, 1 the work failed, 2 the call was wrong, 3 a budget or failures stopped it,
        4 a report is below `--fail-under`, 130 interrupted.
    """
    # No telemetry that the user did not ask for, and no library chatter around the lines that matter.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if os.environ.get("RANK", "0") != "0":  # of several training processes only the main one prints
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    try:
        work()
    except InstructError as error:
        for problem in error.problems if isinstance(error, InputErrors) else [error]:
            print(f"instruct: {one_line(problem, 1000)}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        if error.filename is None:  # not about a file that the user could correct
            raise
        reason = one_line(error.strerror, 100)
        print(
            f"instruct: {one_line(error.filename, 300)}: {reason}; correct the path, or its permissions",
            file=sys.stderr,
        )
        return 2
    except KeyboardInterrupt:
        print("instruct: interrupted; rerun the command to resume", file=sys.stderr)
        return 130
    return 0


def counted(number: int, noun: str) -> str:
    """`1 pair`, `2 pairs`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def one_line(text: object, limit: int = 300) -> str:
    """`text` on one line without control characters, cut to `limit`: safe inside an error message or a terminal."""
    line = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
