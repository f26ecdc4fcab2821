"""Files as text: marks, encodings, line ends, compression, folders, and their reports."""

import bz2
import gzip
import hashlib
import io
import lzma
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elman.config.text_settings import TextSettings
from elman.errors import DataError, SettingError
from elman.text.building import build_tokenizer
from elman.text.reading import (
    TextSource,
    count_format_characters,
    iter_lines,
    joined_chunks,
    open_sources,
    read_text,
)

CHUNK_SIZES = (1, 2, 3, 5, 1 << 20)


def write(folder: Path, content: bytes, name: str = "a.txt") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def symbols_of(text: str, level: str) -> set[str]:
    settings = TextSettings(level=level, unknown="refuse")  # type: ignore[arg-type]
    return set(build_tokenizer([text], settings).vocabulary.symbols)


def test_the_mark_of_every_file_is_removed_and_a_mark_inside_is_kept(tmp_path: Path) -> None:
    # case A01
    content = b"\xef\xbb\xbfthe cat\nthe dog\n"
    paths = [write(tmp_path, content, "a.txt"), write(tmp_path, content, "b.txt")]
    text, reports = read_text(paths)
    assert text == "the cat\nthe dog\n" * 2
    assert text.count("the") == 4
    assert symbols_of(text, "word") == {"the", "cat", "dog", "\n"}
    assert "\ufeff" not in symbols_of(text, "char")
    assert [report.invisible for report in reports] == [0, 0]

    inside = write(tmp_path, b"\xef\xbb\xbfa\xef\xbb\xbfb\n", "c.txt")
    text, (report,) = read_text([inside])
    assert text == "a\ufeffb\n"
    assert report.invisible == 1
    assert (report.bytes_read, report.utf8_bytes) == (9, 6)


@pytest.mark.parametrize("size", CHUNK_SIZES)
def test_a_mark_is_removed_however_small_the_chunks_are(tmp_path: Path, size: int) -> None:
    for encoding in ("utf-8-sig", "utf-16", "utf-32"):
        path = write(tmp_path, "\u00e9\nb".encode(encoding))
        source = TextSource(str(path), encoding=encoding)
        assert "".join(source.chunks(size)) == "\u00e9\nb"
    twice = write(tmp_path, b"\xef\xbb\xbf\xef\xbb\xbfa")
    assert "".join(TextSource(str(twice)).chunks(size)) == "\ufeffa"


@pytest.mark.parametrize(
    ("encoding", "called"),
    [("utf-16", "UTF-16"), ("utf-32", "UTF-32")],
)
def test_a_marked_wide_file_is_refused_by_name_and_read_with_the_option(
    tmp_path: Path, encoding: str, called: str
) -> None:
    # case A02
    path = write(tmp_path, "hi\nyo\n".encode(encoding))
    with pytest.raises(DataError, match=f"{called}.*--encoding {encoding}"):
        read_text([path])
    with pytest.raises(DataError, match=called):
        read_text([path], encoding="latin-1")
    text, (report,) = read_text([path], encoding=encoding)
    assert text == "hi\nyo\n"
    assert report.characters == 6


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize(
    "text",
    [
        "hi\nyo\n",
        "Привет, мир! Это простой текст.\nЕщё одна строка, и ещё одна.\n" * 3,
        "Καλημέρα κόσμε, τι κάνεις σήμερα;\nΌλα καλά, ευχαριστώ πολύ.\n" * 3,
    ],
)
def test_an_unmarked_wide_file_is_refused_and_read_with_the_option(
    tmp_path: Path, encoding: str, text: str
) -> None:
    # case A02
    path = write(tmp_path, text.encode(encoding))
    for wrong in ("utf-8", "latin-1"):
        with pytest.raises(DataError, match=f"--encoding {encoding}"):
            read_text([path], encoding=wrong)
    assert read_text([path], encoding=encoding)[0] == text
    assert "\0" not in read_text([path], encoding=encoding)[0]


def test_a_mark_that_contradicts_the_encoding_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, b"\xef\xbb\xbfabc")
    with pytest.raises(DataError, match=r"mark of UTF-8.*--encoding utf-8"):
        read_text([path], encoding="latin-1")
    big = write(tmp_path, b"\xfe\xff\x00a")
    with pytest.raises(DataError, match="UTF-16"):
        read_text([big], encoding="utf-16-le")


@pytest.mark.parametrize("size", CHUNK_SIZES)
def test_crlf_becomes_lf_also_on_a_chunk_border_and_a_lone_cr_survives(
    tmp_path: Path, size: int
) -> None:
    # case A04
    source = TextSource(str(write(tmp_path, b"a\r\nb\r\n")))
    assert "".join(source.chunks(size)) == "a\nb\n"
    assert (source.report().crlf, source.report().lines, source.report().characters) == (2, 2, 4)
    assert symbols_of("a\nb\n", "char") == {"a", "b", "\n"}

    lone = TextSource(str(write(tmp_path, b"a\rb\r\r\nc\r")))
    assert "".join(lone.chunks(size)) == "a\rb\r\nc\r"
    assert (lone.report().crlf, lone.report().carriage_returns) == (1, 3)


@pytest.mark.parametrize("size", CHUNK_SIZES)
def test_nul_is_kept_and_counted(tmp_path: Path, size: int) -> None:
    # case A05
    source = TextSource(str(write(tmp_path, b"ab\x00cd\n")))
    assert "".join(source.chunks(size)) == "ab\x00cd\n"
    assert (source.report().characters, source.report().nul) == (6, 1)


def test_only_a_line_feed_ends_a_line() -> None:
    # case A08
    kept = "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029 \t\u00a0\u3000"
    text = f"a{kept}b\nc"
    assert list(iter_lines([text])) == [f"a{kept}b", "c"]
    assert list(iter_lines(["first\u2028half\nse", "cond\n"])) == ["first\u2028half", "second"]
    assert list(iter_lines(["\n", "\n", "a"])) == ["", "", "a"]
    assert list(iter_lines([])) == []


@given(text=st.text(alphabet="ab\n\r\u2028"), size=st.integers(1, 4))
@settings(derandomize=True, deadline=None)
def test_lines_do_not_depend_on_chunks(text: str, size: int) -> None:
    chunks = [text[start : start + size] for start in range(0, len(text), size)]
    expected = text.split("\n")
    assert list(iter_lines(chunks)) == (expected if expected[-1] else expected[:-1])


def test_gzip_is_known_by_its_bytes_and_not_by_its_name(tmp_path: Path) -> None:
    # case A16
    packed = gzip.compress(b"hello\nhello\n")
    for name in ("c.txt.gz", "c.txt"):
        text, (report,) = read_text([write(tmp_path, packed, name)])
        assert text == "hello\nhello\n"
        assert (report.characters, report.bytes_read) == (12, 12)
    assert read_text([write(tmp_path, b"plain\n", "d.gz")])[0] == "plain\n"
    two_members = write(tmp_path, packed + gzip.compress(b"more"), "e")
    assert read_text([two_members])[0] == "hello\nhello\nmore"


def test_damaged_or_empty_gzip_is_one_clear_error(tmp_path: Path) -> None:
    # case A16
    packed = gzip.compress(b"hello\n" * 1000)
    damaged = bytes([*packed[:40], packed[40] ^ 255, *packed[41:]])
    for content in (packed[:-9], packed[:5], damaged, b"\x1f\x8bnonsense", packed + b"junk"):
        with pytest.raises(DataError, match="damaged gzip"):
            read_text([write(tmp_path, content)])
    with pytest.raises(DataError, match="is empty"):
        read_text([write(tmp_path, gzip.compress(b""))])


@pytest.mark.parametrize(
    ("content", "called"),
    [
        (bz2.compress(b"hello\n" * 9), "bzip2"),
        (lzma.compress(b"hello\n" * 9), "xz"),
        (b"\x28\xb5\x2f\xfd\x04\x00", "zstandard"),
        (b"PK\x03\x04\x14\x00", "zip"),
    ],
)
def test_other_compressed_files_are_refused_whatever_the_encoding(
    tmp_path: Path, content: bytes, called: str
) -> None:
    # case A16
    for encoding in ("utf-8", "latin-1"):
        with pytest.raises(DataError, match=f"compressed with {called}"):
            read_text([write(tmp_path, content)], encoding=encoding)


@pytest.mark.parametrize("size", CHUNK_SIZES)
def test_an_invalid_byte_is_told_with_its_place(tmp_path: Path, size: int) -> None:
    path = write(tmp_path, "é\nab".encode() + b"\xe9 c")
    with pytest.raises(
        DataError, match=r"a\.txt is not valid utf-8; got byte E9 at byte 5, line 2"
    ):
        list(TextSource(str(path)).chunks(size))
    cut_off = write(tmp_path, "ab\u20ac".encode()[:-1], "b.txt")
    with pytest.raises(DataError, match="byte E2 at byte 2, line 1, where the file ends within"):
        list(TextSource(str(cut_off)).chunks(size))
    assert read_text([path], encoding="latin-1")[0] == "Ã©\nabé c"


@pytest.mark.parametrize(
    "name", ["no-such-encoding", "hex", "rot13", "idna", "unicode_escape", "", "a\0b"]
)
def test_an_unknown_encoding_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(SettingError, match=r"text\.encoding"):
        open_sources([write(tmp_path, b"a")], encoding=name)


def test_a_folder_means_its_files_in_order_without_hidden_and_empty_ones(tmp_path: Path) -> None:
    for name in ("b.txt", "a/z.txt", "a/.hidden", ".git/config", "a.txt"):
        write(tmp_path, name.encode() + b"\n", name)
    write(tmp_path, b"", "empty.txt")
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    assert read_text([tmp_path])[0] == "a/z.txt\na.txt\nb.txt\n"
    with pytest.raises(DataError, match="holds no file"):
        open_sources([nothing])


def test_missing_and_empty_files_are_told_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere\.txt does not exist"):
        open_sources([tmp_path / "nowhere.txt"])
    with pytest.raises(DataError, match="is empty"):
        open_sources([write(tmp_path, b"")])
    with pytest.raises(DataError, match="is empty"):
        read_text([write(tmp_path, b"\xef\xbb\xbf")])
    with pytest.raises(DataError, match="no text to read"):
        open_sources([])


@pytest.mark.parametrize("packed", [False, True])
def test_standard_input_is_read_like_a_file(monkeypatch: pytest.MonkeyPatch, packed: bool) -> None:
    content = b"\xef\xbb\xbfa\r\nb"
    stream = io.TextIOWrapper(io.BytesIO(gzip.compress(content) if packed else content))
    monkeypatch.setattr(sys, "stdin", stream)
    text, (report,) = read_text(["-"])
    assert text == "a\nb"
    assert (report.name, report.crlf, report.lines) == ("standard input", 1, 2)


def test_the_last_line_of_a_file_is_not_joined_to_the_next_file(tmp_path: Path) -> None:
    paths = [write(tmp_path, b"the cat", "a"), write(tmp_path, b"dog\n", "b")]
    assert read_text([*paths, paths[0]])[0] == "the cat\ndog\nthe cat"
    assert "".join(joined_chunks([["a", ""], [], ["b\n"], ["c"]])) == "a\nb\nc"


def test_a_report_tells_the_decoded_text(tmp_path: Path) -> None:
    content = "caf\u00e9 \u200bx\r\n\u202ey".encode("utf-16")
    source = open_sources([write(tmp_path, content)], encoding="utf-16")[0]
    with pytest.raises(RuntimeError):
        source.report()
    text = "".join(source.chunks())
    report = source.report()
    assert text == "caf\u00e9 \u200bx\n\u202ey"
    assert report.bytes_read == len(content)
    assert (report.characters, report.lines, report.invisible, report.crlf) == (10, 2, 2, 1)
    assert report.utf8_bytes == len(text.encode())
    assert report.sha256 == hashlib.sha256(text.encode()).hexdigest()


def test_format_characters_are_those_of_unicode() -> None:
    for point in (*range(0xD800), *range(0xE000, sys.maxunicode + 1)):
        category = unicodedata.category(chr(point))
        if category == "Cf" or (category != "Cn" and point in range(0x80, 0x3000)):
            assert count_format_characters(chr(point)) == (category == "Cf"), hex(point)
    visible = "".join(
        c
        for c in map(chr, range(0x80, 0x20000))
        if unicodedata.category(c) in ("Lu", "Ll", "Lo", "Mn", "Mc", "Nd", "Po", "So", "Zs")
    )
    assert count_format_characters(visible) == 0


@given(text=st.text(alphabet="a\u00e9\u20ac\U0001f469\n\r\0", min_size=1), size=st.integers(1, 7))
@settings(derandomize=True, deadline=None)
def test_the_text_does_not_depend_on_the_chunks(
    tmp_path_factory: pytest.TempPathFactory, text: str, size: int
) -> None:
    path = write(tmp_path_factory.mktemp("any"), ("x" * 9 + text).encode())
    source = TextSource(str(path))
    assert "".join(source.chunks(size)) == "x" * 9 + text.replace("\r\n", "\n")
    small = source.report()
    list(source.chunks())
    assert source.report() == small
