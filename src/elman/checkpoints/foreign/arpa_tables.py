"""ARPA grams ↔ tables of a count model: words ↔ ids, base 10 ↔ nats, two marks ↔ one boundary.

A boundary is <s> where it stands before others and </s> where it is what is predicted; our one id
has the weight of the first and the probability of the second.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from elman.checkpoints.foreign.arpa_file import LOG_ZERO, ArpaFile, ArpaGram, SpeltGram
from elman.errors import ConversionError
from elman.models.ngram.counting import LongArray
from elman.models.ngram.tables import GramTable, NgramTables

START, STOP, UNKNOWN = "<s>", "</s>", "<unk>"
LN_10 = math.log(10.0)


def grams_of(
    tables: NgramTables, spelling: Callable[[int], str], boundary_id: int | None
) -> tuple[list[Iterator[SpeltGram]], list[int]]:
    """Return the grams of each length as `arpa_lines` takes them, and how many there are.

    `spelling` gives the word of an id other than the boundary. Ids that are no outcome and that
    nothing follows are left out. Raises `ConversionError` for tables that do not back off.
    """
    if tables.lower != "shorter" and tables.order > 1:
        raise ConversionError(
            "an ARPA file backs off to shorter histories, which add-k does not",
            got=f"add-k of order {tables.order}",
            hint="count anew with model.smoothing = witten_bell, or model.order = 1",
        )
    ids = _ids_of(tables)
    singles = list(_singles(tables, spelling, boundary_id))
    levels: list[Iterator[SpeltGram]] = [iter(singles)]
    counts = [len(singles)]
    for place in range(1, tables.order):
        levels.append(_spelt(tables, place, ids[place], spelling, boundary_id))
        counts.append(len(ids[place]))
    return levels, counts


def tables_of_arpa(
    file: ArpaFile, ids: Mapping[str, int], vocabulary_size: int, name: str
) -> tuple[NgramTables, tuple[str, ...]]:
    """Return the tables of the file's grams, and what a person should know.

    `ids` has the id of each word, that of the boundary for <s> and </s>. Ids without a line have
    p = 0. Grams that no text has, with <s> inside or </s> before others, are left out and counted.
    Raises `ConversionError` for a gram whose beginning is in no shorter section.
    """
    log_probs_V = np.full(vocabulary_size, -np.inf)
    back_off_V = np.zeros(vocabulary_size)
    for gram in file.levels[0]:
        (word,) = gram.words
        if word != START:
            log_probs_V[ids[word]] = gram.log10_prob * LN_10
        if word != STOP:
            back_off_V[ids[word]] = gram.log10_back_off * LN_10
    tables = [GramTable(np.arange(vocabulary_size), log_probs_V, back_off_V)]
    numbers: dict[tuple[int, ...], int] = {}
    for gram in file.levels[0]:
        numbers[(ids[gram.words[0]],)] = ids[gram.words[0]]
    never = 0
    for grams in file.levels[1:]:
        usable = [gram for gram in grams if _may_occur(gram)]
        never += len(grams) - len(usable)
        table, numbers = _table(usable, ids, numbers, vocabulary_size, name)
        tables.append(table)
    last = tables[-1]
    tables[-1] = GramTable(last.keys_N, last.log_probs_N, np.empty(0))
    told = (f"{never:,} grams are left out, as no text has them",) if never else ()
    return NgramTables(vocabulary_size, tuple(tables)), told


def _may_occur(gram: ArpaGram) -> bool:
    return START not in gram.words[1:] and STOP not in gram.words[:-1]


def _table(
    grams: Sequence[ArpaGram],
    ids: Mapping[str, int],
    shorter: Mapping[tuple[int, ...], int],
    size: int,
    name: str,
) -> tuple[GramTable, dict[tuple[int, ...], int]]:
    keys: list[int] = []
    spelt: list[tuple[int, ...]] = []
    for gram in grams:
        missing = [word for word in gram.words if word not in ids]
        if missing:
            raise ConversionError(
                f"{name}, line {gram.line:,} has a word that is none of the 1-grams", got=missing[0]
            )
        words = tuple(ids[word] for word in gram.words)
        if words[:-1] not in shorter:
            raise ConversionError(
                f"{name}, line {gram.line:,} has a gram whose beginning is in no shorter section",
                got=" ".join(gram.words),
            )
        keys.append(shorter[words[:-1]] * size + words[-1])
        spelt.append(words)
    keys_N = np.array(keys, dtype=np.int64)
    order_N = np.argsort(keys_N, kind="stable")
    logs_N2 = np.array([(gram.log10_prob, gram.log10_back_off) for gram in grams]).reshape(-1, 2)
    logs_N2 = logs_N2[order_N] * LN_10
    numbers = {spelt[int(old)]: new for new, old in enumerate(order_N)}
    return GramTable(keys_N[order_N], logs_N2[:, 0].copy(), logs_N2[:, 1].copy()), numbers


def _ids_of(tables: NgramTables) -> list[LongArray]:
    """Return the ids of the grams of each length, [N, k]."""
    found = [np.arange(tables.vocabulary_size)[:, None]]
    for level in tables.levels[1:]:
        histories_N, last_N = np.divmod(level.keys_N, tables.vocabulary_size)
        found.append(np.concatenate((found[-1][histories_N], last_N[:, None]), axis=1))
    return found


def _singles(
    tables: NgramTables, spelling: Callable[[int], str], boundary_id: int | None
) -> Iterator[SpeltGram]:
    level, longest = tables.levels[0], tables.order == 1
    for number, log_prob in enumerate(level.log_probs_N.tolist()):
        weight = None if longest else float(level.back_off_N[number]) / LN_10
        if number == boundary_id:
            yield -math.inf, (START,), weight
            if log_prob > -math.inf:
                yield _log10(log_prob), (STOP,), None
        elif log_prob > -math.inf or weight:
            yield _log10(log_prob), (spelling(number),), weight


def _spelt(
    tables: NgramTables,
    place: int,
    ids_NK: LongArray,
    spelling: Callable[[int], str],
    boundary_id: int | None,
) -> Iterator[SpeltGram]:
    level, last = tables.levels[place], place == tables.order - 1
    words: dict[int, str] = {}

    def spelt(number: int, *, is_last: bool) -> str:
        if number == boundary_id:
            return STOP if is_last else START
        if number not in words:
            words[number] = spelling(number)
        return words[number]

    for row, ids_K in enumerate(ids_NK.tolist()):
        *before, final = ids_K
        gram = [*(spelt(one, is_last=False) for one in before), spelt(final, is_last=True)]
        weight = None if last or final == boundary_id else float(level.back_off_N[row]) / LN_10
        yield _log10(float(level.log_probs_N[row])), gram, weight


def _log10(log_prob: float) -> float:
    """Return ln p to the base 10. Raises `ConversionError` where the format would make it 0."""
    value = log_prob / LN_10
    if -math.inf < value <= LOG_ZERO:
        raise ConversionError(
            f"an ARPA file reads a probability of 1e{LOG_ZERO:.0f} and less as 0",
            got=f"1e{value:.0f}",
            hint="count anew with another smoothing, or a larger model.added_count",
        )
    return value
