"""The lines of one sentence of a CoNLL file: its tokens, its tags, and where each tag stands."""

from collections.abc import Sequence
from typing import NamedTuple

from elman.data.conll_lines import (
    CONLLU_COLUMNS,
    conllu_column,
    conllu_kind,
    is_blank_line,
    is_document_start,
    numbered_column,
    tab_columns,
    two_column_spans,
)
from elman.data.row_log import RowFault, RowLog
from elman.errors import DataError, SettingError
from elman.text.reading import MARK

BEFORE_A_NEW_TAG = "\t"


class TagPlace(NamedTuple):
    """Where a token's tag stands: line `row` of the block, characters start to stop, after what."""

    row: int
    start: int
    stop: int
    before: str = ""


class TaggedSentence(NamedTuple):
    """The tokens of a sentence, their tags, and all of its lines.

    tags: one a token, or none where the file has no column but the tokens. line: that of the first
    token, from 1. comments: the lines in front that begin with # or -DOCSTART-. block: every line
    with its end as in the file, from the end of the sentence before; ranges, empty nodes and blank
    lines are among them. places: one a token, where in `block` its tag stands.
    """

    tokens: tuple[str, ...]
    tags: tuple[str, ...]
    line: int
    comments: tuple[str, ...]
    block: tuple[str, ...]
    places: tuple[TagPlace, ...]

    def filled(self, tags: Sequence[str]) -> str:
        """Return the block with `tags` in place of its own, every other character as it was.

        Raises `DataError` where their number is not that of the tokens, or where one is empty or
        holds a blank or a line end, which would change the columns.
        """
        if len(tags) != len(self.tokens):
            raise DataError(
                f"the sentence on line {self.line} needs a tag for each of its tokens",
                got=f"{len(tags)} tags for {len(self.tokens)} tokens",
            )
        lines = list(self.block)
        for tag, place in zip(tags, self.places, strict=True):
            # A tag that was read may hold spaces, where tabs part the columns; it may go back.
            if tag != lines[place.row][place.start : place.stop]:
                check_tag(tag)
            text = lines[place.row]
            lines[place.row] = text[: place.start] + place.before + tag + text[place.stop :]
        return "".join(lines)


def check_tag(tag: str) -> None:
    """Raise `DataError` where `tag` is empty or holds a space, a tab or a line end."""
    if not tag or any(sign in tag for sign in "\t\n\r "):
        raise DataError("a tag in CoNLL is not empty and has no blank within", got=repr(tag))


class ColumnChoice:
    """Which columns of a file are tokens and tags; of CoNLL, settled by its first token."""

    def __init__(self, *, is_conllu: bool, token_column: str, tag_column: str) -> None:
        self.is_conllu = is_conllu
        self._wanted = token_column, tag_column
        self.width = 0
        self.token_at = 0
        self.tag_at: int | None = None
        if is_conllu:
            self.width = len(CONLLU_COLUMNS)
            self.token_at = conllu_column(token_column or "FORM")
            self.tag_at = conllu_column(tag_column or "UPOS")
            self._check()

    def settle(self, width: int) -> None:
        """Choose the columns of a file of `width` columns; `SettingError` where they are not."""
        token_column, tag_column = self._wanted
        self.width = width
        self.token_at = numbered_column(token_column or "1", width)
        if width > 1 or tag_column:
            self.tag_at = numbered_column(tag_column or "-1", width)
            self._check()

    def _check(self) -> None:
        if self.token_at == self.tag_at:
            raise SettingError(
                "tokens and tags must stand in two columns",
                got=f"both in column {self.token_at + 1}",
                hint="name the column of the tags",
            )


class SentenceBlock:
    """Takes the lines of one sentence in; gives the sentence out, or its faults to the log."""

    def __init__(self, columns: ColumnChoice, lines: Sequence[str] = ()) -> None:
        self.columns = columns
        self.lines = list(lines)
        self.is_closed = False
        self._first_line = 0
        self._tokens: list[str] = []
        self._tags: list[str] = []
        self._places: list[TagPlace] = []
        self._comments: list[str] = []
        self._undecided: list[tuple[int, int, str]] = []
        self._faults: list[RowFault] = []

    @property
    def has_tokens(self) -> bool:
        """Whether a line of a token was taken in, be it a faulty one."""
        return bool(self._tokens or self._faults)

    def add(self, number: int, line: str) -> None:
        """Take in line `number` of the file, with its end."""
        self.lines.append(line)
        text = line.rstrip("\r\n")
        if number == 1:
            text = text.removeprefix(MARK)
        if is_blank_line(text):
            self.is_closed = self.has_tokens
            return
        row = len(self.lines) - 1
        hashed = text.startswith("#")
        if is_document_start(text) or (hashed and self.columns.is_conllu):
            self._comments.append(text)
        elif hashed and not self.has_tokens:
            self._undecided.append((row, number, text))
            self._decide()
        else:
            if not self.columns.width:
                self.columns.settle(len(two_column_spans(text)))
            self._decide()
            self._take(row, number, text)

    def finished(self, log: RowLog) -> TaggedSentence | None:
        """Return the sentence; None where it has faults, which then are in `log`."""
        if self._faults:
            for fault in self._faults:
                log.fault(*fault)
            return None
        log.rows += 1
        return TaggedSentence(
            tuple(self._tokens),
            tuple(self._tags),
            self._first_line,
            tuple(self._comments),
            tuple(self.lines),
            tuple(self._places),
        )

    def _decide(self) -> None:
        """Once the width of the file is known, tell tokens that begin with # from comments."""
        if not self.columns.width:
            return
        for row, number, text in self._undecided:
            if len(two_column_spans(text)) == self.columns.width:
                self._take(row, number, text)
            else:
                self._comments.append(text)
        self._undecided.clear()

    def _take(self, row: int, number: int, text: str) -> None:
        columns = self.columns
        spans = tab_columns(text) if columns.is_conllu else two_column_spans(text)
        if len(spans) != columns.width:
            told = f"{len(spans)} column{'s' * (len(spans) != 1)}, expected {columns.width}"
            tabs = ", parted by tabs" if columns.is_conllu and len(spans) == 1 else ""
            self._faults.append(RowFault(number, told + tabs))
            return
        if columns.is_conllu:
            try:
                kind = conllu_kind(spans[0].of(text))
            except ValueError as error:
                self._faults.append(RowFault(number, str(error)))
                return
            if kind != "token":
                return
        token = spans[columns.token_at].of(text)
        if not token:
            self._faults.append(RowFault(number, "an empty token"))
            return
        # The mark of a file is on its first line, in front of the text that was looked at.
        line = self.lines[row]
        shift = int(number == 1 and line.startswith(MARK))
        if columns.tag_at is None:
            end = shift + len(text)
            self._places.append(TagPlace(row, end, end, BEFORE_A_NEW_TAG))
        else:
            span = spans[columns.tag_at].without_spaces(text)
            tag = span.of(text)
            if not tag.strip(" "):
                self._faults.append(RowFault(number, "no tag"))
                return
            self._tags.append(tag)
            self._places.append(TagPlace(row, span.start + shift, span.stop + shift))
        self._tokens.append(token)
        self._first_line = self._first_line or number
