"""The errors that the command line turns into one line and an exit code."""


class InstructError(Exception):
    """The work failed. Exit code 1."""

    exit_code = 1


class InputError(InstructError):
    """The call was wrong: the message is one line that names file, row, field and remedy. Exit code 2."""

    exit_code = 2


class StoppedError(InstructError):
    """A budget or too many failures stopped the work; what was done is kept. Exit code 3."""

    exit_code = 3


class GateError(InstructError):
    """A report did not reach what `--fail-under` asks for; it was written all the same. Exit code 4."""

    exit_code = 4


def one_line(text: object, limit: int = 300) -> str:
    """`text` on one line without control characters, cut to `limit`: safe inside an error message or a terminal."""
    line = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
