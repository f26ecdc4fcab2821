"""The files that a run or a command names: checked, made to last, and opened one by one."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from elman.config.data_settings import DataSettings
from elman.errors import DataError, SettingError
from elman.recipes.corpus import BUILT_IN_PREFIX, open_corpus
from elman.text.encodings import holds_surrogate
from elman.text.raw_files import is_standard_input
from elman.text.reading import TextSource, open_sources


def with_lasting_names(data: DataSettings) -> DataSettings:
    """Return `data` with absolute names; standard input and built-in data keep theirs."""
    return replace(
        data,
        train=_lasting(data.train),
        valid=_lasting(data.valid),
        test=_lasting(data.test),
        train_target=_lasting(data.train_target),
        valid_target=_lasting(data.valid_target),
        test_target=_lasting(data.test_target),
    )


def require_names(data: DataSettings) -> None:
    """Raise `DataError` or `SettingError` for names that cannot be read, or not be written down."""
    if not data.train:
        raise DataError("there is nothing to learn from", hint="name a file with --data FILE")
    targets = (*data.train_target, *data.valid_target, *data.test_target)
    names = (*data.train, *data.valid, *data.test, *targets)
    for name in names:
        if holds_surrogate(name):
            raise DataError(
                "the name of a file must be valid UTF-8, to be written down", got=repr(name)
            )
    times = sum(map(is_standard_input, names))
    if times > 1:
        raise SettingError("standard input can be read only once", got=f"- named {times} times")


def text_sources(
    names: Sequence[str], *, encoding: str, scratch: Path
) -> Iterator[tuple[TextSource, str]]:
    """Yield each file of `names` and the name whose ending tells its format.

    A name is a file, a folder of files, or `-` for standard input. What can be read only once is
    copied to the folder `scratch`. Raises `DataError` for what cannot be opened.
    """
    for name in names:
        corpus = open_corpus([name], encoding=encoding, repeats="keep", scratch=scratch)
        copy = corpus.spooled.get(name)
        if copy is None:
            for source in open_sources([name], encoding=encoding):
                yield source, source.path
            continue
        called = "standard input" if is_standard_input(name) else name
        yield TextSource(str(copy), encoding=encoding, name=called), name


def _lasting(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(
        name
        if is_standard_input(name) or name.startswith(BUILT_IN_PREFIX)
        else str(Path(name).absolute())
        for name in names
    )
