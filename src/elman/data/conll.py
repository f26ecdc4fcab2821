r"""Sentences of tagged tokens: CoNLL of two columns or more, and CoNLL-U, written back unchanged.

The reader is our own and goes line by line. The package `conllu` parses a sentence into values and
writes those out anew: spaces, CRLF, a missing last line end, the mark of UTF-8 and whatever is not
quite standard would change on the way, and with them bytes that nobody predicted. Here a tag is a
place within a line, and a prediction replaces what stands there and nothing else. The tests compare
what is read with what `conllu` reads.
"""

import codecs
import hashlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

from elman.data.conll_block import ColumnChoice, SentenceBlock, TaggedSentence
from elman.data.conll_lines import is_blank_line
from elman.data.formats import format_of
from elman.data.row_log import RowLog
from elman.errors import DataError, SettingError
from elman.text.encodings import HEAD_BYTES, MARKS, StrictDecoder, refuse_other_bytes
from elman.text.raw_files import read_blocks
from elman.text.reading import CHUNK_CHARACTERS, TextSource


class TaggedFile:
    r"""The sentences of one file, in order; `sentences` may be called again for a file.

    `format`: "conll", "conllu", or "auto": by the ending, "conll" where that names none.

    CoNLL: a line is a token and its columns, parted by tabs if it has one and else by runs of
    spaces; blank lines part sentences. `token_column` is 1 and `tag_column` the last one unless a
    number says otherwise (-1: the last). Lines of -DOCSTART- are no tokens; neither are lines that
    begin with # before the first token of a sentence, unless they have as many columns as the
    tokens of the file. With one column there are no tags to read, and `write_tagged` adds them.

    CoNLL-U: ten columns parted by tabs; `token_column` is FORM and `tag_column` UPOS unless a name
    or a number says otherwise. Ranges (1-2), empty nodes (5.1) and comments are no tokens.

    A line with another number of columns, an ID that is none, and an empty token or tag are faults
    in `log`, which counts sentences as rows. With bad_rows "skip" their sentence is not given out,
    and is written back as it is. Only \n ends a line; each \r before it is part of the line end.
    """

    def __init__(
        self,
        source: TextSource,
        log: RowLog,
        *,
        format: str = "auto",
        token_column: str = "",
        tag_column: str = "",
    ) -> None:
        self.source, self.log = source, log
        self.format = format_of(source.path, named=format, otherwise="conll")
        if self.format not in ("conll", "conllu"):
            raise SettingError(
                f"{source.name} cannot be read as tagged sentences",
                got=self.format,
                allowed="conll or conllu",
            )
        self._wanted = token_column, tag_column
        self._choice()  # names of columns that there are not are told now
        self.codec = source.encoding
        self._exact = True

    @property
    def is_exact(self) -> bool:
        """Whether the file, decoded and encoded again, has the same bytes; once it was read."""
        return self._exact

    def sentences(self) -> Iterator[TaggedSentence]:
        """Yield every sentence with a token; the lines after the last belong to its block."""
        block = SentenceBlock(self._choice())
        columns = block.columns
        held: TaggedSentence | None = None
        for number, line in enumerate(self._lines(), 1):
            if block.is_closed and not is_blank_line(line):
                found = block.finished(self.log)
                if found is not None and held is not None:
                    yield held
                held = found or held
                keeps = found is None and not self.log.refusing
                block = SentenceBlock(columns, block.lines if keeps else ())
                if self.log.refusing:
                    held = None
            block.add(number, line)
        rest = tuple(block.lines)
        if block.has_tokens:
            last = block.finished(self.log)
            if last is not None:
                if held is not None:
                    yield held
                held, rest = last, ()
        if held is not None and not self.log.refusing:
            yield held._replace(block=held.block + rest)
        self.log.finish()

    def _choice(self) -> ColumnChoice:
        token_column, tag_column = self._wanted
        return ColumnChoice(
            is_conllu=self.format == "conllu", token_column=token_column, tag_column=tag_column
        )

    def _lines(self) -> Iterator[str]:
        unfinished: list[str] = []
        for text in self._texts():
            *lines, last = text.split("\n")
            for line in lines:
                yield "".join([*unfinished, line, "\n"])
                unfinished = []
            if last:
                unfinished.append(last)
        if unfinished:
            yield "".join(unfinished)

    def _texts(self) -> Iterator[str]:
        """Decode the file as it is: marks and line ends stay."""
        source = self.source
        blocks = read_blocks(source.path, source.name, CHUNK_CHARACTERS, head_bytes=HEAD_BYTES)
        head = next(blocks)
        refuse_other_bytes(head, source.encoding, source.name)
        self.codec = codec_that_keeps_marks(head, source.encoding)
        decoder = StrictDecoder(source.name, self.codec)
        encoder = codecs.getincrementalencoder(self.codec)()
        given, again = hashlib.sha256(), hashlib.sha256()
        for block in blocks:
            given.update(block)
            text = decoder.decode(block, final=not block)
            again.update(encoder.encode(text, not block))
            if text:
                yield text
        self._exact = given.digest() == again.digest()


def codec_that_keeps_marks(head: bytes, encoding: str) -> str:
    """Return the codec that reads and writes what `encoding` reads, and drops or adds no mark.

    Python's utf-16 and utf-32 take the order of bytes from the mark and drop it; those whose names
    say the order leave it in the text as U+FEFF.
    """
    if encoding not in ("utf-16", "utf-32"):
        return encoding
    order = sys.byteorder
    for mark, _, fitting in MARKS:
        if fitting == encoding and head.startswith(mark):
            order = "little" if mark.startswith(b"\xff") else "big"
            break
    return f"{encoding}-{'le' if order == 'little' else 'be'}"


def write_tagged(
    file: BinaryIO,
    tagged: TaggedFile,
    predicted: Iterable[tuple[TaggedSentence, Sequence[str]]],
) -> int:
    """Write the sentences of `tagged` with their predicted tags to `file`; return how many.

    `predicted` are all of its sentences, in order, each with a tag for each token; it may read them
    while they are written. Every byte but those of the tags is that of the (decompressed) file:
    comments, other columns, spaces, blank lines, line ends, a mark. Raises `DataError` for tags
    that do not fit, and at the end where the file spells its text otherwise than Python does, as
    some encodings allow.
    """
    encoder: codecs.IncrementalEncoder | None = None
    count = 0
    for sentence, tags in predicted:
        # The codec is known only once reading has begun.
        encoder = encoder or codecs.getincrementalencoder(tagged.codec)()
        try:
            file.write(encoder.encode(sentence.filled(tags)))
        except UnicodeEncodeError as error:
            raise DataError(
                f"a tag cannot be written in {tagged.codec}, the encoding of {tagged.source.name}",
                got=repr(error.object[error.start : error.end]),
            ) from None
        count += 1
    if encoder is not None:
        file.write(encoder.encode("", True))
    if not tagged.is_exact:
        raise DataError(
            f"{tagged.source.name} cannot be written back byte for byte in {tagged.codec}",
            hint="convert it to UTF-8 first",
        )
    return count
