"""The tables of `elman data check`, as a person reads them."""

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from elman.data.row_log import LineTally
from elman.errors import one_line
from elman.recipes.check_tallies import MOST_LISTED, SHARES
from elman.recipes.data_check import FileCheck

MOST_COLUMNS = 20


def facts_table(file: FileCheck) -> Table:
    """Return one line a fact: what was read, then whatever is odd."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for label, told in facts(file):
        table.add_row(Text(label), Text(one_line(told)))
    return table


def facts(file: FileCheck) -> Iterator[tuple[str, str]]:
    """Yield what a person should know of a file, each with its label."""
    log = file.log
    yield "file", file.name
    yield "read as", file.told
    yield "rows", f"{log.rows:,}"
    for report in file.reports:
        yield (
            "text",
            f"{report.bytes_read:,} bytes, {report.characters:,} characters, "
            f"{len(file.characters.counts):,} of them different; lines: {report.lines:,}",
        )
    if log.num_faults:
        yield (
            "cannot be used",
            f"{log.num_faults:,} row{'s' * (log.num_faults != 1)}: {log.told_faults()}",
        )
    if log.blank_lines:
        yield "blank lines", f"{log.blank_lines:,}, skipped"
    for label, tally in (
        ("partly blank", file.partly_blank),
        ("all blank", file.all_blank),
        ("repeated rows", file.repeats.repeated),
        ("same input, other answer", file.repeats.conflicting),
    ):
        if tally.count:
            yield label, _told(tally)
    if file.is_answer_untold:
        yield "label", "no column is called so: rows are compared as a whole (--label-column)"
    for name, rows, inputs in zip(
        file.earlier_names, file.repeats.shared_rows, file.repeats.shared_inputs, strict=True
    ):
        yield "in an earlier file", f"{name}: {_shared(rows, inputs)}"
    yield from _unknown_facts(file)
    for place, column in enumerate(file.columns):
        if column.too_long.count:
            unit = file.unit_of(place)
            yield (
                f"too long, {column.name}",
                f"{_told(column.too_long)}; {column.cut_off:,} {unit} would be cut off",
            )
    yield from _text_facts(file)
    for remark in log.remarks:
        yield "left out", remark


def _unknown_facts(file: FileCheck) -> Iterator[tuple[str, str]]:
    for column in file.columns:
        unknown = column.unknown()
        if not unknown or column.all_numbers or not (unknown["symbols"] or unknown["words"]):
            continue
        symbols, words = unknown["symbol_list"], unknown["word_list"]
        assert isinstance(symbols, list)
        assert isinstance(words, list)
        listed = ", ".join(f"{one['code']} ({one['count']})" for one in symbols[:5])
        yield (
            f"not in the first, {column.name}",
            f"{unknown['symbols']:,} characters of {unknown['distinct_symbols']:,} kinds"
            + (f": {listed}" if listed else "")
            + f"; {unknown['words']:,} words of {column.num_words:,}"
            + (f", such as {words[0]['word']}" if words else ""),
        )


def _text_facts(file: FileCheck) -> Iterator[tuple[str, str]]:
    for report in file.reports:
        for count, what in (
            (report.crlf, "lines ended by CRLF, read as LF"),
            (report.carriage_returns, "carriage returns within lines, kept"),
            (report.nul, "NUL characters, kept"),
        ):
            if count:
                yield "line ends and NUL", f"{count:,} {what}"
    if file.unended:
        yield "last line", f"has no end in {', '.join(file.unended)}"
    odd = file.characters.odd()
    for one in odd[:MOST_LISTED]:
        yield "odd character", f"{one['code']} {one['name']}: {one['count']:,}"
    if len(odd) > MOST_LISTED:
        yield "odd character", f"and {len(odd) - MOST_LISTED} more kinds"
    if file.characters.not_nfc.count:
        yield "not in normal form NFC", _told(file.characters.not_nfc)


def column_table(file: FileCheck) -> Table:
    """Return the lengths of each column: how many characters or tokens a share of rows has."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("column")
    table.add_column("filled", justify="right")
    table.add_column("blank", justify="right")
    for _, name in SHARES:
        table.add_column(name, justify="right")
    table.add_column("holds")
    for place, column in enumerate(file.columns[:MOST_COLUMNS]):
        lengths = column.percentiles()
        holds = file.unit_of(place)
        if column.all_numbers and column.lengths:
            holds = "numbers"
        if place == file.input_at:
            holds += ", input"
        if place == file.answer_at:
            holds += ", answer"
        table.add_row(
            Text(one_line(column.name)),
            f"{column.lengths.total():,}",
            f"{column.blank.count:,}",
            *(f"{lengths[name]:,}" if name in lengths else "–" for _, name in SHARES),
            holds,
        )
    if len(file.columns) > MOST_COLUMNS:
        table.add_row(f"and {len(file.columns) - MOST_COLUMNS} more")
    return table


def label_table(file: FileCheck, place: int) -> Table | None:
    """Return how often each label of column `place` occurs; None where it holds none."""
    column, labels = file.columns[place], file.labels(place)
    if labels is None:
        return None
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(Text(one_line(f"{column.name}: {len(labels):,} different")))
    table.add_column("count", justify="right")
    table.add_column("share", justify="right")
    ordered = list(labels.items())
    total = sum(labels.values())
    for value, count in ordered[:MOST_LISTED]:
        table.add_row(Text(one_line(value)), f"{count:,}", f"{count / total:.1%}")
    if len(ordered) > MOST_LISTED:
        rest = sum(count for _, count in ordered[MOST_LISTED:])
        table.add_row(
            f"and {len(ordered) - MOST_LISTED:,} more", f"{rest:,}", f"{rest / total:.1%}"
        )
    return table


def _told(tally: LineTally) -> str:
    return f"{tally.count:,}" + (f" ({tally.told_lines()})" if tally.first_lines else "")


def _shared(rows: LineTally, inputs: LineTally) -> str:
    told = f"{rows.count:,} rows" + (f" ({rows.told_lines()})" if rows.first_lines else "")
    return f"{told}; {inputs.count:,} inputs"
