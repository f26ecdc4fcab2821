"""Bytes to text, strictly: what is not in the encoding is refused, never guessed."""

import codecs
from dataclasses import dataclass

import numpy as np

from elman.errors import DataError, SettingError

HEAD_BYTES = 1 << 16
# The longer mark first: that of UTF-32 begins like that of UTF-16.
MARKS = (
    (b"\xff\xfe\x00\x00", "UTF-32", "utf-32"),
    (b"\x00\x00\xfe\xff", "UTF-32", "utf-32"),
    (b"\xef\xbb\xbf", "UTF-8", "utf-8"),
    (b"\xff\xfe", "UTF-16", "utf-16"),
    (b"\xfe\xff", "UTF-16", "utf-16"),
)
PACKED = (
    (b"\xfd7zXZ\x00", "xz", "xz --decompress"),
    (b"\x28\xb5\x2f\xfd", "zstandard", "zstd --decompress"),
    (b"BZh", "bzip2", "bunzip2"),
    (b"PK\x03\x04", "zip", "unzip"),
    (b"\x04\x22\x4d\x18", "LZ4", "lz4 --decompress"),
    (b"\x1f\x9d", "compress", "uncompress"),
)
NOT_OF_FILES = ("idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined")
"""Codecs between text and bytes that are made for names and source code, not for files."""

BZIP2_BLOCK = b"1AY&SY"
# Shares of a column of bytes, every second or fourth one, that give an unmarked encoding away.
MOST, FEW, SOME = 0.8, 0.1, 0.05
MIN_BYTES_BY_COLUMN = 64


def checked_encoding(encoding: str) -> str:
    """Return Python's name of a text encoding; `SettingError` where there is none of that name."""
    try:
        name = codecs.lookup(encoding).name
        if name in NOT_OF_FILES:
            raise LookupError(name)
        b"ab".decode(encoding)
        codecs.getincrementaldecoder(encoding)
    except UnicodeError:
        pass  # two bytes may be too few for it, but it is a text encoding
    except (LookupError, ValueError, TypeError):
        raise SettingError(
            "text.encoding must be a text encoding that Python knows",
            got=repr(encoding),
            allowed="utf-8, utf-16, latin-1, cp1252, gb18030 …",
        ) from None
    return "utf-8" if name == "utf-8-sig" else name


def holds_surrogate(text: str) -> bool:
    """Return whether half of a surrogate pair stands in `text`, which then has no UTF-8."""
    return any("\ud800" <= character <= "\udfff" for character in text)


def refuse_other_bytes(head: bytes, encoding: str, name: str) -> None:
    """Raise `DataError` where the first bytes of a file show that it is not in `encoding`.

    Seen are marks of UTF-8, UTF-16 and UTF-32, the zero bytes of unmarked UTF-16 and UTF-32, and
    compressed files other than gzip.
    """
    for magic, kind, command in PACKED:
        if head.startswith(magic) and (kind != "bzip2" or head[4:10] == BZIP2_BLOCK):
            raise DataError(f"{name} is compressed with {kind}", hint=f"use {command} first")
    if encoding in ("utf-7",):
        return
    for mark, called, fitting in MARKS:
        if head.startswith(mark):
            if not _fits(encoding, mark, fitting):
                raise DataError(
                    f"{name} starts with the mark of {called} ({mark.hex(' ').upper()}), "
                    f"but is read as {encoding}",
                    hint=f"set --encoding {fitting} (text.encoding)",
                )
            return
    if not encoding.startswith(("utf-16", "utf-32")):
        unmarked = unmarked_encoding(head)
        if unmarked:
            raise DataError(
                f"{name} looks like {unmarked[:6].upper()} without a mark: the bytes at every "
                "second place are nearly all 00 or alike",
                hint=f"set --encoding {unmarked} (text.encoding)",
            )


def _fits(encoding: str, mark: bytes, fitting: str) -> bool:
    if encoding.startswith("utf-16") and mark.startswith(b"\xff\xfe"):
        fitting = "utf-16"  # U+0000 may follow the mark of UTF-16
    little = mark.startswith(b"\xff\xfe")
    return encoding == fitting or (
        fitting != "utf-8" and encoding == f"{fitting}-{'le' if little else 'be'}"
    )


def unmarked_encoding(head: bytes) -> str:
    """Return utf-16-le, utf-16-be, utf-32-le or utf-32-be where `head` looks like it, else "".

    ASCII in UTF-16 has 00 at every second byte. Other alphabets have their own number there (04 for
    Cyrillic) and 00 for blanks and line ends. UTF-32 has 00 at two neighbours of every four.
    """
    codes = np.frombuffer(head[: len(head) // 4 * 4], dtype=np.uint8).reshape(-1, 4)
    if len(codes):
        zeros = (codes == 0).mean(axis=0)
        if zeros[3] == 1 and zeros[2] >= MOST and zeros[0] < 0.5:
            return "utf-32-le"
        if zeros[0] == 1 and zeros[1] >= MOST and zeros[3] < 0.5:
            return "utf-32-be"
    pairs = np.frombuffer(head[: len(head) // 2 * 2], dtype=np.uint8).reshape(-1, 2)
    if not len(pairs):
        return ""
    for high, name in ((1, "utf-16-le"), (0, "utf-16-be")):
        if _is_high_column(pairs[:, high], pairs[:, 1 - high]):
            return name
    return ""


def _is_high_column(
    high: "np.ndarray[tuple[int], np.dtype[np.uint8]]",
    low: "np.ndarray[tuple[int], np.dtype[np.uint8]]",
) -> bool:
    counts = np.bincount(high, minlength=256) / len(high)
    low_zeros = float((low == 0).mean())
    if counts[0] >= MOST and low_zeros < FEW:
        return True
    if 2 * len(high) < MIN_BYTES_BY_COLUMN or counts[0] < SOME or low_zeros:
        return False
    other = int(counts[1:].argmax()) + 1
    return other < 0x20 and bool(counts[0] + counts[other] >= MOST)


@dataclass
class StrictDecoder:
    """Decodes the blocks of one file; what cannot be decoded raises `DataError` with its place."""

    name: str
    encoding: str

    def __post_init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder(self.encoding)(errors="strict")
        self._fed = 0
        self._lines = 0

    def decode(self, block: bytes, *, final: bool = False) -> str:
        """Return the text of the next block; bytes of an unfinished character are held."""
        held = self._decoder.getstate()[0]
        base = self._fed - len(held)
        try:
            text = self._decoder.decode(block, final)
        except UnicodeDecodeError as error:
            raise self._refusal(error, base) from None
        except UnicodeError as error:
            raise DataError(f"{self.name} is not valid {self.encoding}", got=str(error)) from None
        self._fed += len(block)
        self._lines += text.count("\n")
        return text

    def _refusal(self, error: UnicodeDecodeError, base: int) -> DataError:
        line = self._lines + error.object[: error.start].count(b"\n") + 1
        cut_off = "unexpected end" in error.reason or "truncated" in error.reason
        return DataError(
            f"{self.name} is not valid {self.encoding}",
            got=f"byte {error.object[error.start]:02X} at byte {base + error.start}, line {line}"
            + (", where the file ends within a character" if cut_off else ""),
            hint="set --encoding (text.encoding) to the encoding of the file, such as cp1252",
        )
