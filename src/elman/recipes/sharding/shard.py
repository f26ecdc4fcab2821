"""One shard of a large text: where its text and what was made of it lie, and how it is made.

A shard is named by the digest of its text and of what it depends on, so that whatever lies under
that name is right, whoever made it and whenever: in this process, in another, before a kill.
"""

import hashlib
import json
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from elman.atomic_files import writing_bytes
from elman.config.text_settings import TextSettings
from elman.errors import DataError
from elman.text.tokenizer import NOT_OF_TOKENIZER, Ids, Tokenizer
from elman.text.word_count import WordCount
from elman.text.words import split_words

NAME_LENGTH = 32
NONE = np.empty(0, dtype=np.int64)
TEXT, MADE = ".txt", ".npz"


@dataclass(frozen=True)
class Shard:
    """Ids of one shard, [N] int32, and of lines the number of ids in each, [L] int64.

    At word level the ids are the places of the words in `words`, in the order of their first use,
    and `counts_W` says how often each was used; else they are those of the tokenizer.
    """

    ids_N: Ids
    lengths_L: npt.NDArray[np.int64]
    words: tuple[str, ...]
    counts_W: npt.NDArray[np.int64]


def depends_on(settings: TextSettings, tokenizer: Tokenizer | None) -> str:
    """Return a text of all but its own text that a shard depends on; see `shard_name`."""
    if tokenizer is not None:
        return tokenizer.digest()
    told = {k: v for k, v in asdict(settings).items() if k not in NOT_OF_TOKENIZER}
    return json.dumps(told, sort_keys=True)


def shard_name(text: str, depends: str) -> str:
    """Return the name of the shard of `text`, where it depends on `depends` besides."""
    digest = hashlib.sha256(depends.encode())
    digest.update(text.encode("utf-8"))
    return digest.hexdigest()[:NAME_LENGTH]


def make_shard(
    folder: Path, name: str, settings: TextSettings, tokenizer: Tokenizer | None
) -> None:
    """Make the shard `name` from the text that lies in `folder`, and take the text away.

    Raises `DataError` where the folder cannot be read or written in, or is full.
    """
    try:
        text = (folder / (name + TEXT)).read_bytes().decode("utf-8")
        made = _numbered(text, settings) if tokenizer is None else _encoded(text, tokenizer)
        _write(folder / (name + MADE), made)
        (folder / (name + TEXT)).unlink()
    except OSError as error:
        raise DataError(
            f"a part of the text cannot be kept in {folder}", got=error.strerror or str(error)
        ) from None


def read_shard(path: Path) -> Shard:
    """Return what `make_shard` made. Raises `DataError` where it was altered."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as kept:
            words = tuple(json.loads(kept["words"].tobytes()))
            return Shard(kept["ids"], kept["lengths"], words, kept["counts"])
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{path} was altered", got=str(error), hint=f"delete the folder {path.parent}"
        ) from None


def _numbered(text: str, settings: TextSettings) -> Shard:
    count = WordCount(settings)
    ids = count.read(text)
    lengths = [len(words) for words in split_words(text, "line")] if _has_lines(settings) else []
    words, counts_W = count.words()
    return Shard(ids, np.array(lengths, dtype=np.int64), words, counts_W)


def _encoded(text: str, tokenizer: Tokenizer) -> Shard:
    encode, policy = tokenizer.stream_encoder(), tokenizer.checked_policy(None)
    if not _has_lines(tokenizer.settings):
        return Shard(encode(text, policy), NONE, (), NONE)
    rows = [encode(line, policy) for line in text.split("\n")]
    return Shard(np.concatenate(rows), np.array(list(map(len, rows)), np.int64), (), NONE)


def _has_lines(settings: TextSettings) -> bool:
    return settings.unit == "line"


def _write(path: Path, shard: Shard) -> None:
    words_B = np.frombuffer(json.dumps(shard.words).encode("ascii"), dtype=np.uint8)
    with writing_bytes(path) as file:
        np.savez(
            file, ids=shard.ids_N, lengths=shard.lengths_L, words=words_B, counts=shard.counts_W
        )
