"""What the text tells: held-out text that is known already, unlike the rest, or filled up."""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from elman.evaluation.units import percent
from elman.recipes.diagnosing.evidence import Evidence, PartText
from elman.recipes.diagnosing.fault import Fault
from elman.recipes.diagnosing.learning_faults import single_token_nats
from elman.recipes.diagnosing.passages import line_ends
from elman.recipes.text_notices import FEW_TOKENS

MOST_FRACTION = 0.3
"""Share of a text that is held out at most."""
LONG_PASSAGE: Mapping[str, int] = MappingProxyType({"char": 50, "byte": 50, "word": 12, "bpe": 20})
"""Tokens in a row that two texts do not share by chance."""
LEAKED = 0.05
"""Share of a held-out stream in passages that the training text has too."""
LEAKED_LINES = 0.2
"""Share of held-out lines that the training text has too."""
REPEATED = 0.25
"""Share of the training text in passages, or lines, that it had before."""
UNKNOWN, UNKNOWN_WORDS = 0.02, 0.2
"""Share of unknown tokens of a held-out text: characters and pieces, and words."""
APART, WORDS_APART = 0.25, 1.2
"""Divergence of single tokens in nats: of characters, and of words, many of which are rare."""
FILLING_RUN = 6
"""Equal tokens in a row before a line's end."""
FILLED = 0.1
"""Share of the training text in such runs."""
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


def too_little_held_out(evidence: Evidence) -> Fault | None:
    """Find a held-out part too small for a figure."""
    few = [(name, part) for name, part in _held_out(evidence) if part.num_tokens < FEW_TOKENS]
    if not few:
        return None
    name, part = few[0]
    return Fault(
        "too-little-held-out",
        f"the {name} part has {part.num_tokens:,} tokens: a figure of fewer than {FEW_TOKENS:,} is "
        "mostly chance",
        _more_held_out(evidence, name, FEW_TOKENS),
        {"tokens": part.num_tokens},
    )


def _more_held_out(evidence: Evidence, name: str, enough: int) -> str:
    """Return how a part comes to have `enough` tokens."""
    data, text = evidence.settings.data, evidence.text
    longer = f"a longer text in data.{name}"
    if text is None or getattr(data, name):
        return longer
    total = text.train.num_tokens + sum(part.num_tokens for part in text.held_out.values())
    fraction, now = enough / total, getattr(data, f"{name}_fraction")
    if fraction > MOST_FRACTION:
        return f"more text: {enough:,} tokens are {percent(fraction)} of all there is"
    return f"data.{name}_fraction = {fraction + 0.005:.2f} (now {now:g}), or {longer}"


def held_out_in_training(evidence: Evidence) -> Fault | None:
    """Find held-out passages, or lines, that the training text has word for word."""
    if evidence.text is None:
        return None
    train, length = evidence.text.train, _passage_length(evidence)
    if len(train.starts_N):
        known = {line.tobytes() for line in train.lines()}
        shares = {
            name: sum(line.tobytes() in known for line in part.lines()) / max(len(part.starts_N), 1)
            for name, part in _held_out(evidence)
        }
        return known_already(evidence, shares, "lines", LEAKED_LINES)
    shares = {name: _covered(part.ids_N, train.ids_N, length) for name, part in _held_out(evidence)}
    return known_already(evidence, shares, f"text (passages of {length} tokens or more)", LEAKED)


def known_already(
    evidence: Evidence, shares: Mapping[str, float], what: str, limit: float
) -> Fault | None:
    """Return how much of each held-out part stands in the training text, where that is much."""
    if max(shares.values(), default=0.0) < limit:
        return None
    return Fault(
        "held-out-in-training",
        f"{_told(shares)} of its {what} stands word for word in the training text: the model may "
        "know it by heart, and its figures are too good",
        _without_repeats(evidence),
        {"share": max(shares.values()), **shares},
    )


def _told(shares: Mapping[str, float]) -> str:
    """Return the shares of all parts of which there is any."""
    parts = [f"of the {name} part {percent(share)}" for name, share in shares.items() if share]
    return ", ".join(parts)


def _without_repeats(evidence: Evidence) -> str:
    """Return what takes known text out of the parts that are held out."""
    data = evidence.settings.data
    if data.valid or data.test:
        return "other files in data.valid and data.test, or the common text out of one of them"
    if data.repeats == "drop":
        return (
            "data.repeats is drop already, and looks at whole lines or paragraphs: take the common "
            "passages out of the text, or hold out a file of another source with data.valid"
        )
    return "data.repeats = drop, or other files in data.valid and data.test"


def repeated_training_text(evidence: Evidence) -> Fault | None:
    """Find a training text much of which is there more than once."""
    if evidence.text is None:
        return None
    train, length = evidence.text.train, _passage_length(evidence)
    if len(train.starts_N):
        lines = [line.tobytes() for line in train.lines()]
        share = 1.0 - len(set(lines)) / max(len(lines), 1)
    else:
        share = _repeated(train.ids_N, length)
    return repeats_itself(evidence, share)


def repeats_itself(evidence: Evidence, share: float) -> Fault | None:
    """Return that so much of the training text stands in it more than once, where that is much."""
    if share < REPEATED:
        return None
    change = "data.repeats = drop"
    if evidence.settings.data.repeats == "drop":
        change = "take the passages out by hand: data.repeats is drop, and looks at whole lines"
    return Fault(
        "repeated-training-text",
        f"{percent(share)} of the training text says again what stands earlier in it: this weighs "
        "more than the rest and is soon known by heart",
        change,
        {"share": share},
    )


def unknown_tokens(evidence: Evidence) -> Fault | None:
    """Find held-out text much of which the vocabulary does not know."""
    limit = UNKNOWN_WORDS if evidence.settings.text.level == "word" else UNKNOWN
    shares = {
        name: part.num_unknown / max(part.num_tokens, 1) for name, part in _held_out(evidence)
    }
    share = max(shares.values(), default=0.0)
    if share < limit:
        return None
    return Fault(
        "unknown-tokens",
        f"{_told(shares)} of the tokens are unknown: what follows them is guessed",
        "text.level = bpe or byte, which know every text; or more text to learn from",
        {"share": share, **shares},
    )


def another_text_held_out(evidence: Evidence) -> Fault | None:
    """Find held-out text whose tokens are distributed otherwise than those learnt from."""
    if evidence.text is None:
        return None
    train, words = evidence.text.train, evidence.settings.text.level in ("word", "bpe")
    apart = {
        name: nats_apart(train, part)
        for name, part in _held_out(evidence)
        if part.num_tokens >= FEW_TOKENS
    }
    name, nats = _largest(apart)
    if nats < (WORDS_APART if words else APART):
        return None
    return Fault(
        "another-text-held-out",
        f"its tokens are others, or come otherwise often, than those of the training text: of the "
        f"{name} part each costs {nats:.2f} nats more by the frequencies of that than by its own",
        _alike(evidence),
        {"nats_apart": nats},
    )


def _alike(evidence: Evidence) -> str:
    data = evidence.settings.data
    same = "data.valid and data.test of the same kind as data.train"
    whole = data.valid or data.test or evidence.settings.text.unit == "stream"
    return same if whole or data.split == "shuffled" else f"{same}, or data.split = shuffled"


def nats_apart(train: PartText, part: PartText) -> float:
    """Return KL(part ‖ train) of the frequencies of single tokens, in nats, one added to each."""
    counts_V = np.bincount(part.ids_N)
    shares = counts_V[counts_V > 0] / len(part.ids_N)
    return single_token_nats(train, part) + float((shares * np.log(shares)).sum())


def padding_in_text(evidence: Evidence) -> Fault | None:
    """Find lines that were filled up to one length with a symbol."""
    if evidence.text is None or evidence.trained is None:
        return None
    tokenizer, train = evidence.trained.tokenizer, evidence.text.train
    backward = evidence.settings.text.direction == "backward"
    ids_N = train.ids_N[::-1] if backward else train.ids_N  # as it is written
    filling_N = _runs_before_ends(ids_N, line_ends(tokenizer))
    share = float(filling_N.sum() / max(len(ids_N), 1))
    if share < FILLED:
        return None
    name = tokenizer.token_text(int(np.bincount(np.repeat(ids_N, filling_N)).argmax()))
    return Fault(
        "padding-in-text",
        f"{percent(share)} of the training text are runs of {name} at the ends of lines, "
        "which the model learns to predict and is praised for",
        "take them out of the text: batches are padded by elman itself, and masked",
        {"share": share},
    )


def _runs_before_ends(
    ids_N: npt.NDArray[np.int64], ends_V: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """Return at the last token of each run of equal tokens before a line's end its length, else 0.

    Runs shorter than `FILLING_RUN` count nothing.
    """
    change_N = np.flatnonzero(np.diff(ids_N, append=-1))
    lengths_N = np.diff(change_N, prepend=-1)
    found_N = np.zeros(len(ids_N), np.int64)
    followed_N = np.append(ends_V[ids_N[1:]], True)[change_N]
    filling_N = followed_N & (lengths_N >= FILLING_RUN) & ~ends_V[ids_N[change_N]]
    found_N[change_N[filling_N]] = lengths_N[filling_N]
    return found_N


def _largest(by_part: Mapping[str, float]) -> tuple[str, float]:
    """Return the part of the largest figure, the first of several, and the figure; 0 of none."""
    return max(by_part.items(), key=lambda item: item[1], default=("", 0.0))


def _held_out(evidence: Evidence) -> list[tuple[str, PartText]]:
    return [] if evidence.text is None else list(evidence.text.held_out.items())


def _passage_length(evidence: Evidence) -> int:
    return LONG_PASSAGE[evidence.settings.text.level]


def _hashes(ids_N: npt.NDArray[np.int64], length: int) -> npt.NDArray[np.uint64]:
    """Return a hash of each passage of `length` tokens: equal passages have equal ones.

    A passage that is half one token over and over says nothing, and has 0.
    """
    size = len(ids_N) - length + 1
    found_N = np.zeros(max(size, 0), np.uint64)
    tokens_N = ids_N.astype(np.uint64) + np.uint64(1)
    for offset in range(length if size > 0 else 0):
        found_N = found_N * _FACTOR + tokens_N[offset : offset + size]
        found_N ^= found_N >> np.uint64(29)
    same_N = np.concatenate(([0], (ids_N[1:] == ids_N[:-1]).cumsum()))
    if size > 0:
        dull_N = same_N[length - 1 :] - same_N[:size] > length // 2
        found_N[dull_N] = np.uint64(0)
    return found_N


def _covered(ids_N: npt.NDArray[np.int64], known_N: npt.NDArray[np.int64], length: int) -> float:
    """Return the share of the tokens that lie in a passage which `known_N` has too."""
    hashes_N = _hashes(ids_N, length)
    found_N = np.isin(hashes_N, _hashes(known_N, length)) & (hashes_N > 0)
    return _share_covered(found_N, len(ids_N), length)


def _repeated(ids_N: npt.NDArray[np.int64], length: int) -> float:
    """Return the share of the tokens that lie in a passage which stands earlier in the text."""
    hashes_N = _hashes(ids_N, length)
    _, first_N = np.unique(hashes_N, return_index=True)
    again_N = hashes_N > 0
    again_N[first_N] = False
    return _share_covered(again_N, len(ids_N), length)


def _share_covered(starts_N: npt.NDArray[np.bool_], size: int, length: int) -> float:
    """Return the share of `size` tokens within `length` of a start."""
    if not len(starts_N):
        return 0.0
    steps_N = np.zeros(size + 1, np.int64)
    places = np.flatnonzero(starts_N)
    np.add.at(steps_N, places, 1)
    np.add.at(steps_N, places + length, -1)
    return float((steps_N[:size].cumsum() > 0).mean())
