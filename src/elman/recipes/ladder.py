"""One text, many models: the parts of a text written down once, so that all rungs share them."""

import hashlib
import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from elman.atomic_files import write_atomically
from elman.config.checks import acts_with_kind
from elman.config.settings import Settings
from elman.config.toml_file import (
    key_of_override,
    keys_of_toml,
    settings_from_toml,
    without_settings,
)
from elman.data.splits import line_starts, split_lines, split_stream
from elman.errors import DataError, SettingError
from elman.recipes.corpus import Corpus, open_corpus
from elman.recipes.language_model import LanguageTask
from elman.recipes.training_request import TrainRequest, merged_settings

Repeats: TypeAlias = Literal["keep", "drop"]


class Rung(NamedTuple):
    """A model of a ladder: its name, what it is, and the settings that make it."""

    name: str
    meaning: str
    overrides: tuple[str, ...]

    @property
    def kind(self) -> str:
        """Its `model.kind`."""
        return self.overrides[0].removeprefix("model.kind=")

    @property
    def is_counted(self) -> bool:
        """Whether nothing of it is learnt."""
        return self.kind == "ngram"


RUNGS: tuple[Rung, ...] = (
    Rung("unigram", "how often each token is", ("model.kind=ngram", "model.order=1")),
    Rung("ngram", "counts of tokens in a row", ("model.kind=ngram",)),
    Rung("window-2", "the last two tokens", ("model.kind=window", "model.context_length=2")),
    Rung("window", "a fixed number of last tokens", ("model.kind=window",)),
    Rung("elman", "a plain recurrent state", ("model.kind=elman",)),
    Rung("gru", "a gated state", ("model.kind=gru",)),
    Rung("lstm", "a gated state and a memory", ("model.kind=lstm",)),
    Rung("transformer", "attention to the last tokens", ("model.kind=transformer",)),
)
"""From what sees least to what sees most."""


BEGUN = "ladder.json"
"""What a ladder was begun with, beside its text."""


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


def request_of(rung: Rung, request: TrainRequest) -> TrainRequest:
    """Return what is asked of one rung: the settings that act on it, and what makes it above them.

    Raises `SettingError` for a settings file that is no TOML.
    """

    def drop(key: str) -> bool:
        return not acts_with_kind(key, rung.kind)

    overrides = (one for one in request.overrides if not drop(key_of_override(one)))
    return replace(
        request,
        config_text=without_settings(request.config_text, drop, name=request.config_name),
        overrides=(*overrides, *rung.overrides),
    )


def checked_ladder(rungs: Sequence[Rung], request: TrainRequest) -> Settings:
    """Return what the settings say of the text, once every rung could be made of them.

    Raises `SettingError` for a setting that acts on no rung, for a kind of model, which is that of
    the rung, and for what one of them cannot be.
    """
    settings_from_toml(request.config_text, name=request.config_name)  # names what is unknown
    keys = keys_of_toml(request.config_text)
    for key in (*keys, *map(key_of_override, request.overrides)):
        if key == "model.kind":
            raise SettingError(
                "each rung of a ladder has its own model.kind",
                got=key,
                hint="leave it out, and name rungs with --rungs",
            )
        if not any(acts_with_kind(key, rung.kind) for rung in rungs):
            names = ", ".join(rung.name for rung in rungs)
            raise SettingError(f"{key} acts on none of the rungs", got=names)
    found = [merged_settings(LanguageTask(), request_of(rung, request), ()) for rung in rungs]
    return found[0]


def ladder_text(request: TrainRequest, settings: Settings, folder: Path) -> LadderText:
    """Return the parts of the text that `settings.data` names, written below `folder`.

    A stream is cut from its tail, lines are drawn by chance, as a run by itself would. Parts that
    are there already are taken as they are. Raises `DataError` for a text too short for three, and
    `SettingError` where the folder was begun with another text or other settings.
    """
    data = settings.data
    if not (data.test or data.test_fraction) or not (data.valid or data.valid_fraction):
        raise DataError(
            "a ladder is compared on a part of the text that none has seen, and chosen by another",
            got="data.valid_fraction or data.test_fraction of 0",
            hint="name files with --valid and --test, or leave the fractions out",
        )
    text = LadderText(*(folder / f"{name}.txt" for name in ("train", "valid", "test")))
    with tempfile.TemporaryDirectory(prefix="elman-") as scratch:
        begun = _begun_with(request, settings, Path(scratch))
        if (folder / BEGUN).is_file():
            _require_same(begun, folder / BEGUN)
        if not all(path.is_file() for path in text):
            _write_parts(settings, text, Path(scratch))
        write_atomically(folder / BEGUN, json.dumps(begun).encode())
    return text


def _begun_with(request: TrainRequest, settings: Settings, scratch: Path) -> dict[str, object]:
    """Return what tells one ladder from another: the digest of its text, settings and time."""
    digest = hashlib.sha256()
    for names in (settings.data.train, settings.data.valid, settings.data.test):
        digest.update(b"part")
        for chunk in _corpus(settings, names, scratch).chunks() if names else ():
            digest.update(chunk.encode("utf-8", "surrogatepass"))
    asked = sorted(one for one in request.overrides if not one.startswith("data."))
    return {
        "text": digest.hexdigest(),
        "set of settings": [request.config_text, *asked],
        "budget in seconds": request.budget_seconds,
    }


def _require_same(begun: Mapping[str, object], path: Path) -> None:
    then = json.loads(path.read_text(encoding="utf-8"))
    begun_in = f"than {path.parent.parent} was begun with"
    told = [
        f"another {name} {begun_in}{_change(value, then[name])}"
        for name, value in begun.items()
        if then.get(name, value) != value
    ]
    if told:
        raise SettingError(
            "a ladder is gone on with by the same command",
            got="; ".join(told),
            hint="name another --out folder",
        )


def _change(now: object, then: object) -> str:
    """Return what is asked for now in place of what, where that is short enough to be told."""
    if isinstance(now, list) and isinstance(then, list) and now[0] == then[0]:
        only_now = ", ".join(one for one in now if one not in then)
        only_then = ", ".join(one for one in then if one not in now)
        return f": {only_now or 'nothing'} in place of {only_then or 'nothing'}"
    if isinstance(now, float | int | None) and isinstance(then, float | int | None):
        return f": {now} in place of {then}"
    return ""


def _write_parts(settings: Settings, text: LadderText, scratch: Path) -> None:
    given = [
        _whole_or_none(settings, names, scratch)
        for names in (settings.data.valid, settings.data.test)
    ]
    corpus = _corpus(settings, settings.data.train, scratch)
    pieces = list(corpus.lines()) if settings.text.unit == "line" else "".join(corpus.chunks())
    parts = list(_parts(settings, pieces, valid=given[0] is None, test=given[1] is None))
    found = [parts[0], given[0] or parts[1], given[1] or parts[2]]
    if not all(found):
        raise DataError("the text is too short for parts to choose by and to test on")
    text.train.parent.mkdir(parents=True, exist_ok=True)
    for path, part in zip(text, found, strict=True):
        write_atomically(path, part.encode(settings.text.encoding))


def _whole_or_none(settings: Settings, names: tuple[str, ...], scratch: Path) -> str | None:
    if not names:
        return None
    return "".join(_corpus(settings, names, scratch, repeats="keep").chunks())


def _corpus(
    settings: Settings, names: tuple[str, ...], scratch: Path, *, repeats: Repeats | None = None
) -> Corpus:
    return open_corpus(
        names,
        encoding=settings.text.encoding,
        repeats=repeats or settings.data.repeats,
        scratch=scratch,
    )


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
