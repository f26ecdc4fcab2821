"""A tokenizer from a text that comes in chunks, and the ids of such a text."""

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from elman.config.text_settings import TextSettings, UnknownPolicy
from elman.text.byte_values import ByteTokenizer, byte_vocabulary
from elman.text.characters import CharacterTokenizer, code_points
from elman.text.holding import HeldText
from elman.text.normalising import normalised_chunks
from elman.text.tokenizer import Ids, Tokenizer, checked_text
from elman.text.vocabulary import Vocabulary, specials_for
from elman.text.word_count import WordCount
from elman.text.words import cut_after_blank

LINE_END_CODE = ord("\n")


def build_tokenizer(chunks: Iterable[str], settings: TextSettings) -> Tokenizer:
    r"""Return the tokenizer that `settings` ask for, learnt from the text that `chunks` make up.

    One pass, in which chunks may be cut anywhere: the joined text alone counts. Lines must
    therefore come with their \n; with text.unit = "line" it is no symbol. Memory is that of the
    vocabulary (bpe: of the distinct words). Raises `DataError` for a text without symbols,
    `SettingError` where text.vocabulary_size is too small.
    """
    normal = normalised_chunks(map(checked_text, chunks), settings.normal_form)
    match settings.level:
        case "char":
            return CharacterTokenizer(_character_vocabulary(normal, settings), settings)
        case "byte":
            return ByteTokenizer(byte_vocabulary(settings), settings)
        case "word":
            count = WordCount(settings)
            for piece in pieces_of(normal, cut_after_blank):
                count.read(piece)
            return count.tokenizer()
        case "bpe":
            from elman.text.subwords import cut_before_blank, learn_subwords

            pieces = pieces_of(normal, cut_before_blank)
            return learn_subwords(_sequences(pieces, settings), settings)


def learn_and_encode(chunks: Iterable[str], settings: TextSettings) -> tuple[Tokenizer, list[Ids]]:
    """Return `build_tokenizer` of the text and its ids under text.unknown, reading `chunks` once.

    At word level the text is split once for both, and kept as four bytes a word; at other levels
    the text itself is kept meanwhile.
    """
    if settings.level != "word":
        kept = list(chunks)
        tokenizer = build_tokenizer(kept, settings)
        return tokenizer, list(encode_chunks(tokenizer, kept))
    count = WordCount(settings)
    normal = normalised_chunks(chunks, settings.normal_form)
    provisional = [count.read(piece) for piece in pieces_of(normal, cut_after_blank)]
    words = count.tokenizer()
    return words, count.final_ids(provisional, words)


def encode_chunks(
    tokenizer: Tokenizer, chunks: Iterable[str], *, policy: UnknownPolicy | None = None
) -> Iterator[Ids]:
    """Yield ids whose join is `tokenizer.encode` of the joined chunks, wherever those are cut.

    A chunk is encoded up to the last place where no token can be changed by what follows (word:
    after whitespace; bpe: before a blank or line end that follows another character; char, byte:
    anywhere), and the rest is held until the next one comes. A text without any such place is held
    as a whole. Raises as `encode` does.
    """
    chosen = tokenizer.checked_policy(policy)
    encode = tokenizer.stream_encoder()
    normal = normalised_chunks(map(checked_text, chunks), tokenizer.settings.normal_form)
    for piece in pieces_of(normal, tokenizer.safe_cut):
        ids = encode(piece, chosen)
        if len(ids):
            yield ids


def pieces_of(chunks: Iterable[str], safe_cut: Callable[[str], int]) -> Iterator[str]:
    """Yield the text of `chunks`, cut only where `safe_cut` allows.

    Raises `DataError` where more than `LONGEST_HELD` characters have no such place.
    """
    held = HeldText("a text without a place to cut")
    before = ""
    for chunk in chunks:
        cut = safe_cut(before + chunk) - len(before)
        if cut < 0 or (cut == 0 and not held):
            held.add(chunk)
            before = chunk[-1:] or before
        else:
            yield held.take(chunk[:cut])
            before = ""
            if cut < len(chunk):
                held.add(chunk[cut:])
                before = chunk[-1]
    if held:
        yield held.take()


def _character_vocabulary(chunks: Iterable[str], settings: TextSettings) -> Vocabulary:
    totals = np.zeros(0, dtype=np.int64)
    for chunk in chunks:
        counts = np.bincount(code_points(chunk))
        if len(counts) > len(totals):
            counts, totals = totals, counts.astype(np.int64)
        totals[: len(counts)] += counts
    if settings.unit == "line" and len(totals) > LINE_END_CODE:
        totals[LINE_END_CODE] = 0
    return Vocabulary.from_counts(
        {chr(code): int(totals[code]) for code in np.flatnonzero(totals)},
        specials=specials_for(settings),
        min_count=settings.min_count,
        max_size=settings.vocabulary_size,
    )


def _sequences(pieces: Iterable[str], settings: TextSettings) -> Iterator[str]:
    """Yield what pairs may be learnt from: pieces of a stream, or lines without their ends."""
    for piece in pieces:
        if settings.unit == "stream":
            yield piece
        else:
            yield from piece.split("\n")
