"""One text, many models: the parts of a text written down once, so that all rungs share them."""

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from elman.checkpoints.atomic_files import write_atomically
from elman.config.settings import Settings
from elman.data.splits import line_starts, split_lines, split_stream
from elman.errors import DataError, SettingError
from elman.recipes.corpus import open_corpus


class Rung(NamedTuple):
    """A model of a ladder: its name, what it is, and the settings that make it."""

    name: str
    meaning: str
    overrides: tuple[str, ...]

    @property
    def is_counted(self) -> bool:
        """Whether nothing of it is learnt."""
        return "model.kind=ngram" in self.overrides


RUNGS: tuple[Rung, ...] = (
    Rung("unigram", "how often each token is", ("model.kind=ngram", "model.order=1")),
    Rung("ngram", "counts, the best order", ("model.kind=ngram",)),
    Rung("window-2", "the last two tokens", ("model.kind=window", "model.context_length=2")),
    Rung("window", "the last eight tokens", ("model.kind=window",)),
    Rung("elman", "a plain recurrent state", ("model.kind=elman",)),
    Rung("gru", "a gated state", ("model.kind=gru",)),
    Rung("lstm", "a gated state and a memory", ("model.kind=lstm",)),
    Rung("transformer", "attention to the last 256 tokens", ("model.kind=transformer",)),
)
"""From what sees least to what sees most."""


class LadderText(NamedTuple):
    """The files of the three parts."""

    train: Path
    valid: Path
    test: Path


def rungs_named(names: Iterable[str]) -> tuple[Rung, ...]:
    """Return the rungs of these names, in the order of the ladder; all where none is named.

    Raises `SettingError` for a name that is none.
    """
    wanted = list(names)
    known = [rung.name for rung in RUNGS]
    for name in wanted:
        if name not in known:
            raise SettingError("a ladder has no such rung", got=name, allowed=", ".join(known))
    return tuple(rung for rung in RUNGS if not wanted or rung.name in wanted)


def ladder_text(settings: Settings, folder: Path) -> LadderText:
    """Return the parts of the text that `settings.data` names, written below `folder`.

    A stream is cut from its tail, lines are drawn by chance, as a run by itself would. Parts that
    are there already are taken as they are. Raises `DataError` for a text too short for three.
    """
    text = LadderText(*(folder / f"{name}.txt" for name in ("train", "valid", "test")))
    if all(path.is_file() for path in (text.train, text.valid, text.test)):
        return text
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="elman-") as scratch:
        given = [
            _whole_or_none(settings, names, Path(scratch))
            for names in (settings.data.valid, settings.data.test)
        ]
        corpus = open_corpus(
            settings.data.train,
            encoding=settings.text.encoding,
            repeats=settings.data.repeats,
            scratch=Path(scratch),
        )
        pieces = list(corpus.lines()) if settings.text.unit == "line" else "".join(corpus.chunks())
        parts = list(_parts(settings, pieces, valid=given[0] is None, test=given[1] is None))
    found = [parts[0], given[0] or parts[1], given[1] or parts[2]]
    if not all(found):
        raise DataError("the text is too short for parts to choose by and to test on")
    for path, part in zip((text.train, text.valid, text.test), found, strict=True):
        write_atomically(path, part.encode(settings.text.encoding))
    return text


def _whole_or_none(settings: Settings, names: tuple[str, ...], scratch: Path) -> str | None:
    if not names:
        return None
    corpus = open_corpus(names, encoding=settings.text.encoding, repeats="keep", scratch=scratch)
    return "".join(corpus.chunks())


def _parts(settings: Settings, text: str | list[str], *, valid: bool, test: bool) -> Iterator[str]:
    """Yield the three parts; those that are given elsewhere are empty."""
    data = settings.data
    fractions = data.valid_fraction if valid else 0.0, data.test_fraction if test else 0.0
    if isinstance(text, str):
        cut = split_stream(
            len(text),
            valid_fraction=fractions[0],
            test_fraction=fractions[1],
            line_starts_N=line_starts(text),
        )
        yield from (text[part] for part in (cut.train, cut.valid, cut.test))
        return
    lines = np.array([line for line in text if line.strip()], dtype=object)
    split = split_lines(
        len(lines),
        valid_fraction=fractions[0],
        test_fraction=fractions[1],
        seed=settings.training.seed,
        mode="tail" if data.split == "tail" else "shuffled",
    )
    for numbers_N in (split.train_N, split.valid_N, split.test_N):
        yield "".join(f"{line}\n" for line in lines[numbers_N])
