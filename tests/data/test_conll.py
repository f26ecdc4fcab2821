r"""Tagged sentences: read as another reader reads them, written back byte for byte."""

import gzip
import io
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elman.data.conll import TaggedFile, codec_that_keeps_marks, write_tagged
from elman.data.conll_block import TaggedSentence
from elman.data.row_log import BadRows, RowLog
from elman.errors import DataError, SettingError
from elman.text.reading import TextSource

A13 = (
    "# text = du chat\n"
    "1-2\tdu\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "1\tde\tde\tADP\t_\t_\t3\tcase\t_\t_\n"
    "2\tle\tle\tDET\t_\t_\t3\tdet\t_\t_\n"
    "3\tchat\tchat\tNOUN\t_\t_\t0\troot\t_\t_\n"
    "3.1\tvu\tvoir\tVERB\t_\t_\t_\t_\t3:x\t_\n"
    "\n"
)


def tagged_file(
    path: Path,
    content: bytes | str,
    *,
    bad_rows: BadRows = "refuse",
    encoding: str = "utf-8",
    token_column: str = "",
    tag_column: str = "",
    format: str = "auto",
) -> TaggedFile:
    path.write_bytes(content.encode(encoding) if isinstance(content, str) else content)
    return TaggedFile(
        TextSource(str(path), encoding=encoding),
        RowLog(path.name, bad_rows),
        format=format,
        token_column=token_column,
        tag_column=tag_column,
    )


def rewritten(
    tagged: TaggedFile, tag: Callable[[TaggedSentence], list[str] | tuple[str, ...]]
) -> bytes:
    out = io.BytesIO()
    write_tagged(out, tagged, ((one, tag(one)) for one in tagged.sentences()))
    return out.getvalue()


def read(tagged: TaggedFile) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    return [(one.tokens, one.tags) for one in tagged.sentences()]


def test_a13_words_are_forms_and_ranges_and_empty_nodes_are_kept_byte_for_byte(
    tmp_path: Path,
) -> None:
    tagged = tagged_file(tmp_path / "a.conllu", A13)
    assert read(tagged) == [(("de", "le", "chat"), ("ADP", "DET", "NOUN"))]
    written = rewritten(tagged, lambda one: ["X", "YY", "Z"]).decode()
    expected = A13.replace("\tADP", "\tX").replace("\tDET", "\tYY").replace("\tNOUN", "\tZ")
    assert written == expected
    assert "\tVERB\t" in written


def test_a13_a_line_with_nine_columns_is_an_error_with_its_number(tmp_path: Path) -> None:
    content = A13 + "1\tx\tx\tADP\t_\t_\t3\tcase\t_\n"
    with pytest.raises(DataError, match="line 8: 9 columns, expected 10"):
        read(tagged_file(tmp_path / "a.conllu", content))
    log_of = tagged_file(tmp_path / "a.conllu", content, bad_rows="skip")
    assert [tokens for tokens, _ in read(log_of)] == [("de", "le", "chat")]
    assert (log_of.log.rows, log_of.log.num_faults) == (1, 1)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("1 a b ADP _ _ 0 x _ _", "1 column, expected 10, parted by tabs"),
        ("x\ta\ta\tX\t_\t_\t0\tx\t_\t_", "'x' is no ID"),
        ("²\ta\ta\tX\t_\t_\t0\tx\t_\t_", "'²' is no ID"),
        ("1\t\ta\tX\t_\t_\t0\tx\t_\t_", "an empty token"),
        ("1\ta\ta\t \t_\t_\t0\tx\t_\t_", "no tag"),
    ],
)
def test_a_line_that_is_no_token_of_conllu_is_told(tmp_path: Path, line: str, fault: str) -> None:
    with pytest.raises(DataError, match=f"line 3: .*{fault}"):
        read(tagged_file(tmp_path / "a.conllu", f"# a\n\n{line}\n"))


def test_any_column_of_conllu_can_be_the_tag_by_name_or_number(tmp_path: Path) -> None:
    for column, tags in (
        ("DEPREL", ("case", "det", "root")),
        ("deprel", ("case", "det", "root")),
        ("7", ("3", "3", "0")),
        ("-8", ("de", "le", "chat")),
    ):
        tagged = tagged_file(tmp_path / "a.conllu", A13, tag_column=column)
        assert read(tagged)[0][1] == tags
    with pytest.raises(SettingError, match="allowed: ID, FORM"):
        tagged_file(tmp_path / "a.conllu", A13, tag_column="POS")
    with pytest.raises(SettingError, match="two columns"):
        tagged_file(tmp_path / "a.conllu", A13, tag_column="FORM")


def test_conll_is_parted_by_tabs_or_spaces_and_the_tag_is_last_unless_numbered(
    tmp_path: Path,
) -> None:
    for content in (
        "EU NNP B-NP B-ORG\nrejects VBZ B-VP O\n",
        "EU\tNNP\tI\tB-ORG\nrejects\tVBZ\tI\tO",
    ):
        tagged = tagged_file(tmp_path / "a.conll", content)
        assert read(tagged) == [(("EU", "rejects"), ("B-ORG", "O"))]
        tagged = tagged_file(tmp_path / "a.conll", content, tag_column="2")
        assert read(tagged) == [(("EU", "rejects"), ("NNP", "VBZ"))]
    content = "New York\tB-LOC\n \tO\n"
    assert read(tagged_file(tmp_path / "a.conll", content)) == [(("New York", " "), ("B-LOC", "O"))]
    tagged = tagged_file(tmp_path / "a.conll", "1 a X\n", token_column="2")
    assert read(tagged) == [(("a",), ("X",))]
    with pytest.raises(SettingError, match="a number from 1 to 2"):
        read(tagged_file(tmp_path / "a.conll", "a X\n", tag_column="3"))


def test_document_starts_and_comments_are_no_tokens_but_a_hash_with_a_tag_is(
    tmp_path: Path,
) -> None:
    content = "-DOCSTART- O\n\n# id one two\n# O\ntag X\n\n# O\n-DOCSTART- O\n"
    tagged = tagged_file(tmp_path / "a.conll", content)
    sentences = list(tagged.sentences())
    assert [one.tokens for one in sentences] == [("#", "tag"), ("#",)]
    assert sentences[0].comments == ("-DOCSTART- O", "# id one two")
    assert [one.line for one in sentences] == [4, 7]
    assert rewritten(tagged, lambda one: one.tags).decode() == content


def test_a_ragged_line_of_conll_is_told_and_a_skipped_sentence_is_written_as_it_is(
    tmp_path: Path,
) -> None:
    content = "a X\n\nb\nc X\n\nd X\n\ne X Y\n"
    with pytest.raises(DataError) as caught:
        read(tagged_file(tmp_path / "a.conll", content))
    assert "line 3: 1 column, expected 2; line 8: 3 columns, expected 2" in str(caught.value)
    tagged = tagged_file(tmp_path / "a.conll", content, bad_rows="skip")
    assert rewritten(tagged, lambda one: ["Z"]).decode() == "a Z\n\nb\nc X\n\nd Z\n\ne X Y\n"


def test_tags_are_added_to_a_file_of_tokens_alone(tmp_path: Path) -> None:
    tagged = tagged_file(tmp_path / "a.conll", "the\r\ncat\r\n\r\nsat")
    assert read(tagged) == [(("the", "cat"), ()), (("sat",), ())]
    written = rewritten(tagged, lambda one: ["T"] * len(one.tokens))
    assert written == b"the\tT\r\ncat\tT\r\n\r\nsat\tT"


@pytest.mark.parametrize(
    "content",
    [
        b"\n\n a X \n\t\nb  X\n\n\n",
        b"\xef\xbb\xbfa X\r\nb  Y\r\n \r\n\r\nc X",
        b"a X\nb Y\r\r\n\nc\xc2\xa0d\xe2\x80\xa8 X\x0c\n\n# a comment at the end\n\n",
        b"a\tb\tX  \n",
    ],
)
def test_every_other_byte_stays_as_it_was(tmp_path: Path, content: bytes) -> None:
    tagged = tagged_file(tmp_path / "a.conll", content)
    assert rewritten(tagged, lambda one: one.tags) == content
    changed = rewritten(tagged, lambda one: [tag + "!" for tag in one.tags])
    assert changed != content
    assert changed.replace(b"!", b"") == content


def test_the_mark_of_a_file_is_in_no_token(tmp_path: Path) -> None:
    assert read(tagged_file(tmp_path / "a.conll", b"\xef\xbb\xbfthe X\n")) == [(("the",), ("X",))]
    tagged = tagged_file(tmp_path / "a.conllu", b"\xef\xbb\xbf" + A13.encode())
    assert next(iter(tagged.sentences())).comments == ("# text = du chat",)


def test_utf_16_and_gzip_are_written_back_too(tmp_path: Path) -> None:
    for order in ("le", "be"):
        content = "\ufeffa\u010b X\nb Y\n".encode(f"utf-16-{order}")
        tagged = tagged_file(tmp_path / "a.conll", content, encoding="utf-16")
        assert read(tagged) == [(("a\u010b", "b"), ("X", "Y"))]
        assert rewritten(tagged, lambda one: one.tags) == content
    assert codec_that_keeps_marks(b"\xfe\xff\0a", "utf-16") == "utf-16-be"
    packed = gzip.compress(b"a X\n")
    assert rewritten(tagged_file(tmp_path / "a.conll", packed), lambda one: ["Y"]) == b"a Y\n"


def test_what_cannot_be_written_back_exactly_is_refused(tmp_path: Path) -> None:
    # UTF-7 spells a plus sign in two ways.
    tagged = tagged_file(tmp_path / "a.conll", b"+ACs- X\n", encoding="utf-7")
    assert read(tagged) == [(("+",), ("X",))]
    with pytest.raises(DataError, match="byte for byte"):
        rewritten(tagged, lambda one: one.tags)
    tagged = tagged_file(tmp_path / "a.conll", b"a X\n", encoding="latin-1")
    with pytest.raises(DataError, match="cannot be written in"):
        rewritten(tagged, lambda one: ["\u0416"])


@pytest.mark.parametrize("tags", [["X"], ["", "X"], ["a b", "X"], ["a\t", "X"], ["X", "a\n"]])
def test_tags_that_would_change_the_columns_are_refused(tmp_path: Path, tags: list[str]) -> None:
    tagged = tagged_file(tmp_path / "a.conll", "a X\nb Y\n")
    with pytest.raises(DataError):
        rewritten(tagged, lambda one: tags)


def test_a_file_without_a_sentence_is_refused(tmp_path: Path) -> None:
    for content in ("\n\n", "# O\n", "-DOCSTART- O\n"):
        with pytest.raises(DataError, match="no row that can be used"):
            read(tagged_file(tmp_path / "a.conll", content))


@given(st.text(st.sampled_from("ab#-1 \t\r\n\u2028\ufeff"), max_size=80), st.booleans())
def test_what_is_read_is_written_back(
    tmp_path_factory: pytest.TempPathFactory, text: str, skips: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.conll"
    tagged = tagged_file(path, text, bad_rows="skip" if skips else "refuse")
    try:
        written = rewritten(tagged, lambda one: one.tags or ["T"] * len(one.tokens))
    except DataError:
        return
    columns = [one.places[0].before for one in tagged.sentences()]
    if any(columns):
        written = written.replace(b"\tT", b"")
    assert written == text.encode()


@given(
    st.lists(
        st.lists(
            st.tuples(*[st.text("aé \u2028_|=", min_size=1, max_size=4)] * 9),
            min_size=1,
            max_size=4,
        ),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
)
def test_any_conllu_file_is_written_back_but_for_its_tags(
    tmp_path_factory: pytest.TempPathFactory,
    sentences: list[list[tuple[str, ...]]],
    line_end: str,
    ended: bool,
) -> None:
    lines = []
    for sentence in sentences:
        lines.append("# a comment\t")
        lines += ["\t".join([str(n), *columns]) for n, columns in enumerate(sentence, 1)]
        lines.append("5.1\t" + "\t".join(["_"] * 9))
        lines.append("")
    text = line_end.join(lines) + line_end * ended
    tagged = tagged_file(tmp_path_factory.getbasetemp() / "any.conllu", text, bad_rows="skip")
    try:
        found = list(tagged.sentences())
    except DataError:
        return
    assert rewritten(tagged, lambda one: one.tags) == text.encode()
    for one in found:
        assert "".join(one.block) == one.filled(one.tags)


def test_ewt_is_read_as_the_package_conllu_reads_it(shared_data: Path, tmp_path: Path) -> None:
    conllu = pytest.importorskip("conllu")
    path = shared_data / "ud-english-ewt" / "en_ewt-ud-dev.conllu"
    tagged = TaggedFile(TextSource(str(path)), RowLog("dev"))
    ours = read(tagged)
    with path.open(encoding="utf-8") as file:
        theirs = [
            [token for token in one if isinstance(token["id"], int)]
            for one in conllu.parse_incr(file)
        ]
    assert ours == [
        (tuple(token["form"] for token in one), tuple(token["upos"] for token in one))
        for one in theirs
    ]
    assert (len(ours), sum(len(tokens) for tokens, _ in ours)) == (2001, 25147)
    assert rewritten(tagged, lambda one: one.tags) == path.read_bytes()


def test_wikigold_is_read_whole(shared_data: Path) -> None:
    path = shared_data / "ner-wikigold" / "wikigold.conll.txt"
    tagged = TaggedFile(TextSource(str(path)), RowLog("wikigold"))
    ours = read(tagged)
    content = path.read_text(encoding="utf-8")
    lines = [line for line in content.split("\n") if line.strip()]
    starts = sum(line.startswith("-DOCSTART-") for line in lines)
    assert sum(len(tokens) for tokens, _ in ours) == len(lines) - starts
    assert {tag for _, tags in ours for tag in tags} == {"O", "I-LOC", "I-MISC", "I-ORG", "I-PER"}
    assert rewritten(tagged, lambda one: one.tags) == path.read_bytes()
