"""Count models into ARPA files and out of them, each with its proof."""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np

from elman.atomic_files import read_utf8, write_atomically, writing_atomically
from elman.checkpoints.foreign.arpa_file import ArpaFile, ArpaModel, arpa_lines, parse_arpa
from elman.checkpoints.foreign.arpa_tables import (
    LN_10,
    START,
    STOP,
    UNKNOWN,
    grams_of,
    tables_of_arpa,
)
from elman.checkpoints.foreign.proof import Proof, prove
from elman.config.model_settings import ModelSettings
from elman.config.ngram_settings import LONGEST_GRAM
from elman.config.text_settings import Level, TextSettings
from elman.errors import ConversionError, DataError
from elman.models.ngram.counting import joined
from elman.models.ngram.tables import NgramTables
from elman.models.ngram_model import NgramLanguageModel
from elman.text.characters import CharacterTokenizer
from elman.text.reading import iter_lines, open_sources
from elman.text.tokenizer import Tokenizer
from elman.text.tokenizer_file import tokenizer_from_json
from elman.text.vocabulary import BOUNDARY, UNK, Vocabulary, specials_for
from elman.text.words import WordTokenizer

PROVEN_SEQUENCES, PROVEN_LENGTH = 200, 12
_SPELT: Mapping[str, str] = MappingProxyType({BOUNDARY: STOP, UNK: UNKNOWN})


def export_arpa(model: NgramLanguageModel, tokenizer: Tokenizer, out: Path) -> Proof:
    """Write `out` and the tokenizer beside it; prove by reading both again.

    Raises `ConversionError` for tables that do not back off.
    """
    words = [spelling(symbol) for symbol in tokenizer.vocabulary.symbols]
    levels, counts = grams_of(model.tables, words.__getitem__, tokenizer.vocabulary.boundary_id)
    with writing_atomically(out) as file:
        file.writelines(arpa_lines(levels, counts, ""))
    write_atomically(tokenizer_path(out), tokenizer.to_json().encode("ascii"))
    parsed = parse_file(out)
    ids = _ids(tokenizer.vocabulary, words)
    tables, _ = tables_of_arpa(parsed, ids, len(words), str(out))
    return _proof(parsed, tables, tokenizer, ids)


def import_arpa(
    path: Path, level: Level
) -> tuple[NgramLanguageModel, Tokenizer, Proof, tuple[str, ...]]:
    """Return the model in an ARPA file, its tokenizer, the proof, and what a person should know.

    The tokenizer beside the file is taken where it is there; without one the words of the file are
    the vocabulary, lines where it has <s> or </s> and else a stream. Raises `ConversionError` for
    a file that is not of the format.
    """
    parsed = parse_file(path)
    if len(parsed.levels) > LONGEST_GRAM:
        raise ConversionError(
            f"{path} counts longer sequences than a run can hold",
            got=f"order {len(parsed.levels)}",
            allowed=f"{LONGEST_GRAM} at most",
        )
    beside = tokenizer_path(path)
    notices = [*parsed.notices]
    if beside.is_file():
        tokenizer = tokenizer_from_json(read_utf8(beside))
        ids = _ids(tokenizer.vocabulary, map(spelling, tokenizer.vocabulary.symbols))
    else:
        tokenizer, told, ids = _tokenizer_of(parsed, level)
        notices += told
    unknown = [gram.words[0] for gram in parsed.levels[0] if gram.words[0] not in ids]
    if unknown:
        raise ConversionError(
            f"{beside.name} is not the vocabulary of {path.name}",
            got=f"{unknown[0]!r} and {len(unknown) - 1:,} more words that it does not have",
        )
    tables, told = tables_of_arpa(parsed, ids, len(tokenizer.vocabulary), str(path))
    settings = ModelSettings(kind="ngram", order=tables.order, smoothing="kneser_ney_backoff")
    proof = _proof(parsed, tables, tokenizer, ids)
    return NgramLanguageModel(settings, tables), tokenizer, proof, (*notices, *told)


def spelling(symbol: str) -> str:
    r"""Return how an ARPA file spells a symbol: white space and backslashes escaped.

    A blank is \x20, a line end \n; a word that is spelt like one of the marks begins with \x3c.
    """
    if symbol in _SPELT:
        return _SPELT[symbol]
    if symbol in (START, STOP, UNKNOWN):
        return f"\\x3c{symbol[1:]}"
    return "".join(_escaped(one) if one.isspace() or one == "\\" else one for one in symbol)


def tokenizer_path(path: Path) -> Path:
    """Return where the tokenizer of an ARPA file lies."""
    return path.with_name(f"{path.name}.tokenizer.json")


def parse_file(path: Path) -> ArpaFile:
    """Return what the ARPA file at `path` says; it may be compressed. Raises `ElmanError`."""
    if path.is_dir():
        raise ConversionError("an ARPA model is a file", got=f"{path}, a folder")
    (source,) = open_sources([path])
    try:
        return parse_arpa(iter_lines(source.chunks()), str(path))
    except DataError as error:
        raise ConversionError(
            f"{path} is no text in UTF-8",
            got=error.what,
            hint="write it as UTF-8",
        ) from None


def _escaped(sign: str) -> str:
    return "\\x20" if sign == " " else sign.encode("unicode_escape").decode()


def _ids(vocabulary: Vocabulary, words: Iterable[str]) -> dict[str, int]:
    """Return the id of each word; `words` are the symbols of the vocabulary as the file has them.

    Both marks of a line are its boundary.
    """
    ids = {word: number for number, word in enumerate(words)}
    if vocabulary.boundary_id is not None:
        ids[START] = ids[STOP] = vocabulary.boundary_id
    return ids


def _tokenizer_of(
    file: ArpaFile, level: Level
) -> tuple[Tokenizer, tuple[str, ...], dict[str, int]]:
    """Return a tokenizer of the words of the file as they stand there, notices, and their ids.

    A line end, and of characters white space, is read as `spelling` writes it.
    """
    if level not in ("char", "word"):
        raise ConversionError(
            "the words of an ARPA file are words or characters", got=f"--level {level}"
        )
    words = [gram.words[0] for gram in file.levels[0]]
    notices = []
    others = [word for word in words if word.lower() == UNKNOWN and word != UNKNOWN]
    if others and UNKNOWN not in words:
        raise ConversionError(
            f"the unknown word must be spelt {UNKNOWN}",
            got=others[0],
            hint=f"replace {others[0]} by {UNKNOWN} in the file",
        )
    has_lines, has_unknown = START in words or STOP in words, UNKNOWN in words
    if not has_unknown:
        notices.append(f"the file has no {UNKNOWN}: texts with other words are refused")
    settings = TextSettings(
        level=level,
        unit="line" if has_lines else "stream",
        unknown="replace" if has_unknown else "refuse",
        literal_unknown=UNKNOWN if has_unknown and level == "word" else "",
    )
    specials = specials_for(settings)
    notices += [
        f"{word} is a word like any other here: the marks of a line are {START} and {STOP}"
        for word in words
        if word not in (START, STOP) and word.lower() in (START, STOP)
    ]
    spelt = [word for word in words if word not in (START, STOP, UNKNOWN)]
    symbols = [_unescaped(word, level) for word in spelt]
    vocabulary = Vocabulary((*specials, *symbols), specials)
    kind = CharacterTokenizer if level == "char" else WordTokenizer
    ids = _ids(vocabulary, (*map(spelling, specials), *spelt))
    return kind(vocabulary, settings), tuple(notices), ids


def _unescaped(word: str, level: Level) -> str:
    if word == spelling("\n"):
        return "\n"
    if level == "word" or len(word) == 1:
        return word
    try:
        found = word.encode("ascii", "backslashreplace").decode("unicode_escape")
    except UnicodeDecodeError:
        found = ""
    if len(found) != 1:
        raise ConversionError(
            "with --level char every word of the file must be one character",
            got=repr(word),
            hint="leave --level out for a model of words",
        )
    return found


def _proof(
    file: ArpaFile, tables: NgramTables, tokenizer: Tokenizer, ids: Mapping[str, int]
) -> Proof:
    """Compare ln p of random sequences, many of them of grams of the file, with its own rule."""
    model, draw = ArpaModel(file), random.Random(1)
    boundary_id = tokenizer.vocabulary.boundary_id
    sequences = list(_sequences(file, draw))
    where = joined(
        [np.array([ids[word] for word in one]) for one in sequences], tables.vocabulary_size
    )
    ours = tables.log_probs(where)
    theirs = [
        model.log10_prob(STOP if ids[word] == boundary_id else word, one[:place]) * LN_10
        for one in sequences
        for place, word in enumerate(one)
        if place
    ]
    pairs = np.stack((ours, np.array(theirs)))
    finite_N = np.isfinite(pairs).all(axis=0)
    zeros_N = (pairs == -np.inf).all(axis=0)
    if not (finite_N | zeros_N).all():
        raise ConversionError("the two sides of the conversion disagree on what cannot occur")
    return prove(
        "ln p of words of random texts",
        {"ln p": pairs[0][finite_N]},
        {"ln p": pairs[1][finite_N]},
        tolerance=1e-9,
    )


def _sequences(file: ArpaFile, draw: random.Random) -> Iterator[Sequence[str]]:
    """Yield sequences of words: grams of the file one after the other, <s> first where it is."""
    levels = [grams for grams in file.levels if grams]
    words = [gram.words[0] for gram in file.levels[0] if gram.words[0] not in (START, STOP)]
    has_start = any(gram.words[0] == START for gram in file.levels[0])
    for _ in range(PROVEN_SEQUENCES):
        found = [START] if has_start else []
        while len(found) < PROVEN_LENGTH:
            gram = draw.choice(draw.choice(levels)).words
            found += [word for word in gram if word not in (START, STOP)]
            found += draw.choices(words, k=draw.randrange(2)) if words else []
            if not words:
                break
        yield [*found, STOP] if has_start else found
