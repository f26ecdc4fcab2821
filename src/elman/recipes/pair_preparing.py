"""From files of pairs to arrays: read, split by source, learn both vocabularies, encode."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from elman.checkpoints.run_folder import TARGET, TOKENIZER
from elman.config.settings import Settings
from elman.config.text_settings import TextSettings
from elman.data.examples import PairBatch, PairBatches
from elman.data.order import EpochOrder
from elman.data.pairs import TextPair
from elman.data.repeats import FirstSeen
from elman.data.row_log import MEND_OR_SKIP
from elman.data.splits import split_lines
from elman.data.token_array import LineArray, join_lines
from elman.decoding.translation_steps import TargetIds
from elman.errors import DataError
from elman.recipes.named_files import require_names
from elman.recipes.pairs import PairReader
from elman.recipes.prepared_rows import PreparedRows
from elman.recipes.prepared_text import PART_NAMES, PartName
from elman.text.building import build_tokenizer
from elman.text.normalising import normalise
from elman.text.tokenizer import Tokenizer

LEAST_GROWTH = 0.5


@dataclass(frozen=True)
class PairPart:
    """One part of the data, encoded; row i of `targets` belongs to row i of `sources`.

    texts: the pairs as the files have them, of parts that are held out; empty for training.
    """

    sources: LineArray
    targets: LineArray
    texts: tuple[TextPair, ...]
    unknown_sources: int
    unknown_targets: int

    @property
    def num_rows(self) -> int:
        """Pairs."""
        return len(self.targets)

    @property
    def row_lengths(self) -> npt.NDArray[np.int64]:
        """Tokens of each pair, both sides together."""
        return self.targets.lengths_N + self.sources.lengths_N

    @property
    def num_predicted(self) -> int:
        """Target tokens and stop marks."""
        return int(self.targets.lengths_N.sum()) + self.num_rows

    def facts(self) -> dict[str, object]:
        """Return what the manifest records of this part."""
        return {
            "pairs": self.num_rows,
            "source_tokens": int(self.sources.lengths_N.sum()),
            "target_tokens": int(self.targets.lengths_N.sum()),
            "unknown_source_tokens": self.unknown_sources,
            "unknown_target_tokens": self.unknown_targets,
            "sources_sha256": self.sources.digest(),
            "targets_sha256": self.targets.digest(),
        }


@dataclass(frozen=True)
class PreparedPairs(PreparedRows[PairPart, PairBatch]):
    """Both tokenizers and the parts that they encoded."""

    source: Tokenizer
    target: Tokenizer
    parts: Mapping[PartName, PairPart]
    notices: tuple[str, ...]

    @property
    def num_targets(self) -> int:
        """Target tokens and stop marks to learn from."""
        return self.parts["train"].num_predicted

    def vocabularies(self) -> dict[str, str]:
        """Return both tokenizers as a run folder keeps them."""
        return {TOKENIZER: self.source.to_json(), TARGET: self.target.to_json()}

    def sizes(self) -> dict[str, int]:
        """Return the counts that the manifest records."""
        pairs = {f"{name}_pairs": part.num_rows for name, part in self.parts.items()}
        return {
            "source_vocabulary": len(self.source.vocabulary),
            "target_vocabulary": len(self.target.vocabulary),
            **pairs,
        }

    def facts(self) -> dict[str, object]:
        """Return what the manifest records of the data."""
        return super().facts() | {"growth": self.growth}

    @property
    def growth(self) -> float:
        """Tokens that an answer may have for each token of its source: twice the most in training.

        The most is that of 99 % of the pairs, of ratios of lengths.
        """
        train = self.parts["train"]
        ratios_N = train.targets.lengths_N / np.maximum(train.sources.lengths_N, 1)
        return round(max(LEAST_GROWTH, 2.0 * float(np.quantile(ratios_N, 0.99))), 2)

    def batches_in(self, part: PairPart, order: EpochOrder) -> PairBatches:
        """Return the batches of a part, its pairs in this order."""
        return PairBatches(
            part.sources,
            part.targets,
            order,
            source_pad_id=target_ids(self.source).pad_id,
            target_pad_id=target_ids(self.target).pad_id,
        )


def target_ids(tokenizer: Tokenizer) -> TargetIds:
    """Return the ids of the marks of a vocabulary of lines."""
    vocabulary = tokenizer.vocabulary
    assert vocabulary.boundary_id is not None
    assert vocabulary.pad_id is not None
    return TargetIds(vocabulary.boundary_id, vocabulary.pad_id, vocabulary.unk_id)


def source_text(settings: TextSettings) -> TextSettings:
    """Return the settings of the sources' tokenizer."""
    return replace(settings, target_level="same")


def target_text(settings: TextSettings) -> TextSettings:
    """Return the settings of the targets' tokenizer."""
    level = settings.level if settings.target_level == "same" else settings.target_level
    return replace(settings, level=level, target_level="same")


def prepare_pairs(settings: Settings, scratch: Path) -> PreparedPairs:
    """Read, split, learn the vocabularies from the training part, encode.

    Where a part has no files of its own it is split off from training, all pairs of one source
    together, so that no source that is held out is learnt from. Raises `DataError` for files that
    cannot be read.
    """
    data = settings.data
    require_names(data)
    reader = PairReader(settings, scratch, advice=MEND_OR_SKIP)
    seen = FirstSeen() if data.repeats == "drop" else None
    found: dict[PartName, list[TextPair]] = {
        name: _read(reader, getattr(data, name), getattr(data, f"{name}_target"), seen)
        for name in PART_NAMES
        if getattr(data, name)
    }
    notices = list(dict.fromkeys(reader.notices))
    if seen is not None and seen.dropped:
        pairs = "pair that came before is" if seen.dropped == 1 else "pairs that came before are"
        notices.append(f"{seen.dropped:,} {pairs} left out")
    notices += _split_off(settings, found)
    train = found["train"]
    notices += _repeats(settings.text, found)
    source = _tokenizer(source_text(settings.text), train, lambda pair: pair.source)
    target = _tokenizer(target_text(settings.text), train, lambda pair: pair.target)
    parts: dict[PartName, PairPart] = {}
    for name in PART_NAMES:
        if name in found:
            parts[name], told = encoded_pairs(found[name], source, target, name)
            notices += told
    if "train" not in parts or not parts["train"].num_rows:
        raise DataError("there is no pair to learn from")
    notices += [*source.notices, *target.notices]
    return PreparedPairs(source, target, parts, tuple(dict.fromkeys(notices)))


def _read(
    reader: PairReader, names: Sequence[str], targets: Sequence[str], seen: FirstSeen | None
) -> list[TextPair]:
    pairs = reader.pairs(names, targets)
    if seen is None:
        return list(pairs)
    return [pair for pair in pairs if seen.is_new(f"{pair.source}\n{pair.target}")]


def _split_off(settings: Settings, found: dict[PartName, list[TextPair]]) -> tuple[str, ...]:
    """Part the training pairs by their sources where a part has no files."""
    data, pairs = settings.data, found["train"]
    numbers: dict[str, int] = {}
    keys = (_as_read(pair.source, settings.text) for pair in pairs)
    groups = [numbers.setdefault(key, len(numbers)) for key in keys]
    split = split_lines(
        len(numbers),
        valid_fraction=0.0 if "valid" in found else data.valid_fraction,
        test_fraction=0.0 if "test" in found else data.test_fraction,
        seed=settings.training.seed,
        mode="tail" if data.split == "tail" else "shuffled",
    )
    for name, kept_N in (("valid", split.valid_N), ("test", split.test_N)):
        if len(kept_N):
            kept = set(kept_N.tolist())
            found[name] = [  # type: ignore[index]  # both are names of parts
                pair for pair, group in zip(pairs, groups, strict=True) if group in kept
            ]
    kept = set(split.train_N.tolist())
    found["train"] = [pair for pair, group in zip(pairs, groups, strict=True) if group in kept]
    return split.notices


def _as_read(text: str, settings: TextSettings) -> str:
    """Return what is left of a source once it is read: texts that read alike are one source."""
    normal = normalise(text, settings.normal_form)
    return " ".join(normal.split()) if settings.level == "word" else normal


def _repeats(settings: TextSettings, found: Mapping[PartName, list[TextPair]]) -> Iterator[str]:
    """Tell of pairs that training has twice, and of held-out sources that it has too."""
    train = found["train"]
    learnt = [_as_read(pair.source, settings) for pair in train]
    again = len(train) - len(
        {(source, pair.target) for source, pair in zip(learnt, train, strict=True)}
    )
    if again:
        verb = "repeats" if again == 1 else "repeat"
        yield f"train: {again:,} of {len(train):,} pairs {verb} one that came before"
    known = set(learnt)
    for name in PART_NAMES[1:]:
        pairs = found.get(name, [])
        both = sum(_as_read(pair.source, settings) in known for pair in pairs)
        if both:
            yield f"{name}: {both:,} of {len(pairs):,} sources are in training too"


def _tokenizer(
    settings: TextSettings, pairs: list[TextPair], side: Callable[[TextPair], str]
) -> Tokenizer:
    return build_tokenizer((f"{side(pair)}\n" for pair in pairs), settings)


def encoded_pairs(
    pairs: list[TextPair], source: Tokenizer, target: Tokenizer, name: PartName
) -> tuple[PairPart, list[str]]:
    """Return a part, and what is odd about it; pairs whose source has no token are left out."""
    sources = [source.encode(pair.source) for pair in pairs]
    kept = [place for place, ids in enumerate(sources) if len(ids)]
    notices = []
    if len(kept) < len(pairs):
        notices.append(f"{name}: {len(pairs) - len(kept):,} sources have no token that is kept")
        pairs = [pairs[place] for place in kept]
        sources = [sources[place] for place in kept]
    targets = [target.encode(pair.target) for pair in pairs]
    part = PairPart(
        join_lines(sources, len(source.vocabulary)),
        join_lines(targets, len(target.vocabulary)),
        () if name == "train" else tuple(pairs),
        sum(map(source.count_unknown, sources)),
        sum(map(target.count_unknown, targets)),
    )
    return part, notices
