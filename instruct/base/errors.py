"""The project's errors, each with the exit code of a command that it ends, and words for messages."""

from __future__ import annotations

import contextlib
import re
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails


_PACKAGE = Path(__file__).resolve().parents[1]


class InstructError(Exception):
    """The work failed. Exit code 1."""

    exit_code = 1


class InputError(InstructError):
    """The call was wrong: the message is one line that names file, row, field and remedy. Exit code 2."""

    exit_code = 2


class UnknownNameError(InputError):
    """A name that nothing has. `problem` says that alone, without the names that are known."""

    def __init__(self, problem: str, known: str) -> None:
        super().__init__(problem + known)
        self.problem = problem


class InputErrors(InputError):
    """Several things were wrong with the call. `problems` has a line for each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = list(problems)


class Problems:
    """What is wrong, collected from checks that each raise InputError, so that all of it is reported at once."""

    def __init__(self, found: Sequence[str] = ()) -> None:
        self.found = list(found)

    @contextlib.contextmanager
    def collected(self) -> Iterator[None]:
        """Keep the errors of a check instead of raising them."""
        try:
            yield
        except InputError as error:
            self.found += error.problems if isinstance(error, InputErrors) else [str(error)]

    def refuse(self) -> None:
        """Raise what was found, if anything; what is wrong alike in several rows is said of the first."""
        alike: dict[str, list[str]] = {}
        for problem in dict.fromkeys(self.found):
            alike.setdefault(re.sub(r"\brow [\d,]+|\(given: .*?\)", "", problem), []).append(problem)
        problems = [
            first + (f" (the first of {1 + len(others)} such rows that were read)" if others else "")
            for first, *others in alike.values()
        ]
        if len(problems) == 1:
            raise InputError(problems[0])
        if problems:
            raise InputErrors(problems)


class StoppedError(InstructError):
    """A budget or too many failures stopped the work; what was done is kept. Exit code 3."""

    exit_code = 3


class GateError(InstructError):
    """A figure in the report is below `--fail-under`; the report was written anyway. Exit code 4."""

    exit_code = 4


class UnparsedError(InstructError):
    """A judge replied, and none of its verdicts could be read; the report was written anyway. Exit code 5."""

    exit_code = 5


@contextlib.contextmanager
def refused_by_library(problem: str, remedy: str, kind: type[InstructError] = InputError) -> Iterator[None]:
    """Turn what another package raises meanwhile into one line; our own errors and a lack of memory go through.

    Args:
        problem: what failed; the error follows in parentheses, and then the remedy.

    Raises:
        InstructError: of this `kind`.
    """
    try:
        yield
    except Exception as error:
        (*_, last) = traceback.extract_tb(error.__traceback__)
        if "OutOfMemory" in type(error).__name__ or _PACKAGE in Path(last.filename).parents:
            raise
        raise kind(f"{problem} ({type(error).__name__}: {one_line(error, 200)}); {remedy}") from error


def first_problem(error: ValidationError) -> str:
    """The first place that pydantic finds wrong in the content of a file, and why."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = one_line(".".join(map(str, first["loc"])), 80) or "(top level)"
    return f"{place}: {one_line(problem_words(first), 120)}"


# What pydantic says by the type of its error, in words of a config; the others of its messages say it well.
_WORDS = (
    (r"model_type|model_attributes_type|dataclass_type|dict_type|mapping_type", "must be a mapping of keys to values"),
    (r"string_type", "must be text"),
    (r"(int|float|decimal)_from_float|int_(type|parsing|parsing_size)", "must be a whole number"),
    (r"float_(type|parsing)", "must be a number"),
    (r"bool_(type|parsing)", "must be true or false"),
    (r"(list|tuple|set|iterable)_type", "must be a list"),
    (r"greater_than_equal", "must be at least {ge:g}"),
    (r"greater_than", "must be more than {gt:g}"),
    (r"less_than_equal", "must be at most {le:g}"),
    (r"less_than", "must be less than {lt:g}"),
    (r"(string_)?too_short", "is too short, with fewer {what} than {min_length}"),
    (r"(string_)?too_long", "is too long, with more {what} than {max_length}"),
)


def problem_words(detail: ErrorDetails) -> str:
    """What one of pydantic's errors says, in our words."""
    kind, context = detail["type"], detail.get("ctx") or {}
    words = next((words for pattern, words in _WORDS if re.fullmatch(pattern, kind)), None)
    if words is None:
        return re.sub(r"^(Value error, |Assertion failed, )", "", detail["msg"]).replace("Input should", "must")
    return words.format(**context, what="characters" if kind.startswith("string") else "entries")


def counted(number: int, noun: str) -> str:
    """`1 pair`, `2 pairs`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def one_line(text: object, limit: int = 300) -> str:
    """`text` on one line without control characters, cut to `limit`: safe inside an error message or a terminal."""
    line = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
