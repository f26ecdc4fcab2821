"""What became of the rows of a file: kept, refused, left out, each with its line."""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from elman.errors import DataError

BadRows = Literal["refuse", "skip"]
MOST_SHOWN = 10
MEND = "mend them"
MEND_OR_SKIP = "mend them, or leave them out with --set data.bad_rows=skip"
"""What training can be told; nothing else takes settings."""


class RowFault(NamedTuple):
    """A row that cannot be used: the line on which it begins, counted from 1, and the reason."""

    line: int
    what: str


@dataclass
class LineTally:
    """How often something was seen, and the first lines on which it was."""

    count: int = 0
    first_lines: list[int] = field(default_factory=list)

    def add(self, line: int) -> None:
        """Count one more, on `line`; 0 where a line says nothing, as among many files."""
        self.count += 1
        if line and len(self.first_lines) < MOST_SHOWN:
            self.first_lines.append(line)

    def told_lines(self) -> str:
        """Return the lines as a person reads them: "lines 2, 5 and 17 more"; "" without lines."""
        if not self.first_lines:
            return ""
        shown = ", ".join(map(str, self.first_lines))
        more = self.count - len(self.first_lines)
        return f"line{'s' * (self.count > 1)} {shown}" + (f" and {more} more" if more else "")


@dataclass
class RowLog:
    """Counts of one file while it is read; complete once its rows were read to the end.

    `bad_rows` says what becomes of a row that cannot be used. "refuse": the file is read to its
    end to find all of them, nothing more is given out, and one `DataError` names their lines.
    "skip": it is left out and counted.

    rows: rows given out. blank_lines: blank lines with a row after them. half_blank: rows left out
    because a text is blank (of a pair on one side, of a labelled text the text). both_blank: pairs
    left out because both sides are. faults: the first of `num_faults`. remarks: anything else that
    was left out, one line each. advice: what to do about rows that are refused. only_faults: a file
    of which every row is a fault is told like any other where they are skipped, not refused.
    """

    name: str
    bad_rows: BadRows = "refuse"
    rows: int = 0
    blank_lines: int = 0
    half_blank: LineTally = field(default_factory=LineTally)
    both_blank: LineTally = field(default_factory=LineTally)
    num_faults: int = 0
    faults: list[RowFault] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    advice: str = MEND
    only_faults: bool = False

    @property
    def refusing(self) -> bool:
        """Whether no row may be given out any more, because the file will be refused."""
        return self.bad_rows == "refuse" and self.num_faults > 0

    def fault(self, line: int, what: str) -> None:
        """Note a row that cannot be used, before it was counted as one."""
        self.num_faults += 1
        if len(self.faults) < MOST_SHOWN:
            self.faults.append(RowFault(line, what))

    def reject(self, line: int, what: str) -> None:
        """Note that a row already counted cannot be used."""
        self.rows -= 1
        self.fault(line, what)

    def drop_blank(self, line: int, *, both: bool = False) -> None:
        """Note that a row already counted is left out, for a blank text or two."""
        self.rows -= 1
        (self.both_blank if both else self.half_blank).add(line)

    def finish(self) -> None:
        """Raise `DataError` where rows are refused, or where there is no row at all."""
        if self.refusing:
            raise DataError(
                f"{self.name} has {_rows(self.num_faults)} that cannot be used",
                got=self.told_faults(),
                hint=self.advice,
            )
        if not self.rows and not (self.only_faults and self.num_faults):
            told = [*self.notices()] or ["it has no line with text"]
            raise DataError(f"{self.name} holds no row that can be used", got="; ".join(told))

    def told_faults(self) -> str:
        """Return the faults as one line, at most `MOST_SHOWN` of them."""
        told = "; ".join(f"line {fault.line}: {fault.what}" for fault in self.faults)
        more = self.num_faults - len(self.faults)
        return told + (f"; and {more} more" if more else "")

    def notices(self) -> tuple[str, ...]:
        """Return one line for each kind of thing that was left out."""
        told = []
        if self.num_faults:
            told.append(f"{self.name}: {_rows(self.num_faults)} skipped ({self.told_faults()})")
        if self.blank_lines:
            lines = "line" if self.blank_lines == 1 else "lines"
            told.append(f"{self.name}: {self.blank_lines} blank {lines} skipped")
        for tally, why in ((self.half_blank, "with a blank text"), (self.both_blank, "all blank")):
            if tally.count:
                lines = f" ({tally.told_lines()})" if tally.first_lines else ""
                told.append(f"{self.name}: {_rows(tally.count)} {why} left out{lines}")
        return (*told, *self.remarks)


def _rows(count: int) -> str:
    return f"{count} row{'s' * (count != 1)}"
