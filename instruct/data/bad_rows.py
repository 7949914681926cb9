"""Rows that cannot be trained on: whether one stops the training or is left out, and which they are."""

from __future__ import annotations

from typing import Literal, get_args

from instruct.base.errors import InputError, Problems, counted
from instruct.base.output import warn

OnBadRow = Literal["stop", "skip"]
ON_BAD_ROW: tuple[OnBadRow, ...] = get_args(OnBadRow)
# Of the bad rows, as many are named.
LISTED = 20
# Without a choice, a template may reject this share of the rows. If it rejects more, the template is wrong.
MOST_REJECTED = 0.1


class BadRows:
    """The bad rows of a data set, as they are found.

    Args:
        choice: `stop` refuses all bad rows together, `skip` leaves them out. Without one, a malformed row stops, and a
            row that the chat template rejects is left out, unless it rejects more than MOST_REJECTED of them.
        most: a refusal names this many.
    """

    def __init__(self, choice: OnBadRow | None = "stop", most: int = LISTED) -> None:
        self.choice, self.most = choice, most
        self.malformed = self.rejected = self._said = 0
        self.listed: list[str] = []

    def add(self, error: InputError, *, malformed: bool = False) -> None:
        """Count a row and keep what is wrong with it.

        Raises:
            InputErrors: one bad row stops, and enough are found to be listed.
        """
        self.malformed += malformed
        self.rejected += not malformed
        if malformed and self.malformed == 1 and self.choice is None:  # it stops, those that were rejected do not
            self.listed = []
        if len(self.listed) < self.most:
            self.listed.append(str(error))
        if len(self.listed) == self.most and (self.choice == "stop" or (malformed and self.choice is None)):
            self.refuse()

    def check(self, rows: int) -> None:
        """Refuse what does not leave rows out; `rows`: how many were read.

        Raises:
            InputErrors: a row stops, or all are bad, or too many.
        """
        if self.choice == "stop" or (self.choice is None and self.malformed):
            self.refuse()
        most = rows * MOST_REJECTED if self.choice is None else rows - 1
        if rows and self.rejected + self.malformed > most:
            if self.rejected == rows or self.choice == "skip":
                self.refuse()
            self.refuse(
                f"the chat template rejects {self.rejected:,} of {counted(rows, 'row')}; fix them, or set "
                "on_bad_row: skip to train without them"
            )

    def check_so_far(self, rows: int, enough: bool) -> None:
        """`check` a stream while it is read, and warn whenever twice as many rows are left out.

        Args:
            rows: how many were read.
            enough: they are enough for the share of bad ones to be known.
        """
        left_out = self.rejected + self.malformed
        if self.choice == "stop" or enough:
            self.check(rows)
        if left_out and left_out >= 2 * self._said:
            self._said = left_out
            warn(f"left out: {left_out:,} of the {rows:,} rows read so far; the first: {self.listed[0]}")

    def refuse(self, *summary: str) -> None:
        """Raise what was found, if anything, and a summary of it."""
        problems = Problems()
        # What is wrong with every row is wrong with the template: it is said once.
        if len(self.listed) > 1 and len({problem.partition(": ")[2] for problem in self.listed}) == 1:
            # Places are "file:row" or "file, row 3"; of the first one's file, the row alone is named.
            first, *places = (problem.partition(": ")[0] for problem in self.listed)
            file = first.rstrip("0123456789")
            others = [f"row {place.removeprefix(file)}" if place.startswith(file) else place for place in places]
            more = ", …" if len(self.listed) == self.most else ""
            self.listed = [f"{self.listed[0]} (also {', '.join(others)}{more})"]
        problems.found += [*self.listed, *summary]
        problems.refuse()

    @property
    def counts(self) -> dict[str, int]:
        """How many rows were left out, by what was wrong; a reason without rows is absent."""
        return {name: count for name, count in (("malformed", self.malformed), ("rejected", self.rejected)) if count}
