"""Tables → smaller tables: grams whose loss hardly changes the distribution are left out.

For a gram h w, with h' the history without its oldest id, leaving it out raises the perplexity of
the model under itself by exp(D) − 1,

    D = −P(h) · { p(w | h) · [ln p(w | h') + ln b'(h) − ln p(w | h)] + n(h) · [ln b'(h) − ln b(h)] }
    b(h) = n(h) / d(h),  n(h) = 1 − Σ p(v | h),  d(h) = 1 − Σ p(v | h'), over the v that follow h
    b'(h) = (n(h) + p(w | h)) / (d(h) + p(w | h'))

each gram by itself. Source: A. Stolcke, "Entropy-based Pruning of Backoff Language Models" (1998),
equations 3 to 7. P(h) is the model's own, of the grams of h one after the other. Kneser–Ney suffers
from it, as its shorter histories are counted by their company and stand in badly for longer ones
(C. Chelba et al., "Study on Interaction between Entropy Pruning and Kneser-Ney Smoothing", 2010).
"""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from elman.errors import SettingError
from elman.models.ngram.counting import LongArray
from elman.models.ngram.tables import FloatArray, GramTable, NgramTables, pruned

_LEAST = 1e-300


def prune(tables: NgramTables, threshold: float) -> NgramTables:
    """Return the tables without the grams whose absence raises perplexity by less than `threshold`.

    A threshold of 0 leaves all. Longest grams go first; one that is the beginning or the end of a
    longer one that stays, stays. Weights are made anew, so that every distribution sums to 1.
    Raises `SettingError` for tables of add-k, which do not back off.
    """
    if not threshold:
        return tables
    if tables.lower != "shorter":
        raise SettingError("tables of add-k do not back off, and cannot be pruned")
    suffixes = _suffixes(tables)
    joint = _joint(tables)
    levels = list(tables.levels)
    kept = [np.ones(len(level.keys_N), dtype=bool) for level in levels]
    needed_N: npt.NDArray[np.bool_] = np.zeros(len(levels[-1].keys_N), dtype=bool)
    for place in range(len(levels) - 1, 0, -1):
        level, shorter = levels[place], levels[place - 1]
        histories_N = level.keys_N // tables.vocabulary_size
        probs_N = np.exp(level.log_probs_N)
        lower_N = np.exp(shorter.log_probs_N[np.maximum(suffixes[place], 0)])
        backs_off_N = suffixes[place] >= 0
        change_N = _change(joint[place - 1], histories_N, probs_N, lower_N)
        kept[place] = needed_N | ~backs_off_N | (np.expm1(change_N) >= threshold)
        levels[place - 1] = _reweighted(
            shorter, histories_N[kept[place]], probs_N[kept[place]], lower_N[kept[place]]
        )
        needed_N = np.zeros(len(shorter.keys_N), dtype=bool)
        needed_N[histories_N[kept[place]]] = True
        needed_N[suffixes[place][kept[place] & backs_off_N]] = True
    return pruned(replace(tables, levels=tuple(levels)), kept)


def _suffixes(tables: NgramTables) -> list[LongArray]:
    """Return for each gram the number of the one without its oldest id, −1 where none is there."""
    size = tables.vocabulary_size
    found = [np.zeros(size, dtype=np.int64)]
    for place in range(1, tables.order):
        histories_N, ids_N = np.divmod(tables.levels[place].keys_N, size)
        if place == 1:
            found.append(ids_N)
            continue
        shorter_N = found[place - 1][histories_N]
        numbers_N, known_N = tables.find(place - 1, shorter_N + 1, ids_N)
        found.append(np.where(known_N, numbers_N, -1))
    return found


def _joint(tables: NgramTables) -> list[FloatArray]:
    """Return P of each gram as the product of its ids' probabilities, one after the other."""
    found = [np.exp(tables.levels[0].log_probs_N)]
    for level in tables.levels[1:]:
        found.append(found[-1][level.keys_N // tables.vocabulary_size] * np.exp(level.log_probs_N))
    return found


def _change(
    joint_N: FloatArray, histories_N: LongArray, probs_N: FloatArray, lower_N: FloatArray
) -> FloatArray:
    """Return D of each gram."""
    size = len(joint_N)
    left_N = np.maximum(1.0 - np.bincount(histories_N, probs_N, size), _LEAST)[histories_N]
    below_N = np.maximum(1.0 - np.bincount(histories_N, lower_N, size), _LEAST)[histories_N]
    before_N = np.log(left_N) - np.log(below_N)
    after_N = np.log(left_N + probs_N) - np.log(below_N + lower_N)
    with np.errstate(divide="ignore"):
        moved_N = np.log(lower_N) + after_N - np.log(np.maximum(probs_N, _LEAST))
    change_N: FloatArray = -joint_N[histories_N] * (
        probs_N * moved_N + left_N * (after_N - before_N)
    )
    return change_N


def _reweighted(
    level: GramTable, histories_N: LongArray, probs_N: FloatArray, lower_N: FloatArray
) -> GramTable:
    """Return the table whose weights leave Σ p = 1 for the grams that follow it now."""
    size = len(level.keys_N)
    left_N = 1.0 - np.bincount(histories_N, probs_N, size)
    below_N = 1.0 - np.bincount(histories_N, lower_N, size)
    followed_N = np.bincount(histories_N, minlength=size) > 0
    fits_N = followed_N & (left_N > 0.0) & (below_N > 0.0)
    weights_N = np.ones(size)
    weights_N[fits_N] = left_N[fits_N] / below_N[fits_N]
    same_N = level.back_off_N
    back_off_N = np.where(fits_N, np.log(weights_N), np.where(followed_N, same_N, 0.0))
    return replace(level, back_off_N=back_off_N)
