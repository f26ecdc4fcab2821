"""Which format data has: the one that was named, or the one that its ending names."""

from pathlib import Path
from types import MappingProxyType
from typing import Literal

from elman.errors import SettingError

DataFormat = Literal[
    "text", "tsv", "csv", "jsonl", "conll", "conllu", "class-files", "class-folders"
]
FORMATS: tuple[DataFormat, ...] = (
    "text",
    "tsv",
    "csv",
    "jsonl",
    "conll",
    "conllu",
    "class-files",
    "class-folders",
)
ENDINGS: MappingProxyType[str, DataFormat] = MappingProxyType(
    {
        ".tsv": "tsv",
        ".tab": "tsv",
        ".csv": "csv",
        ".jsonl": "jsonl",
        ".ndjson": "jsonl",
        ".json": "jsonl",
        ".conll": "conll",
        ".conll2003": "conll",
        ".bio": "conll",
        ".iob": "conll",
        ".iob2": "conll",
        ".bioes": "conll",
        ".conllu": "conllu",
    }
)
SEEN_THROUGH = (".gz", ".txt")
"""Endings that say nothing of the format: the one in front of them is looked at."""


def format_of(name: str, *, named: str = "auto", otherwise: DataFormat = "text") -> DataFormat:
    """Return the format of the file or folder called `name`.

    `named`: one of `FORMATS`, which then holds whatever the ending is, or "auto". The ending is the
    last one that is not .gz or .txt (`ner.conll.txt` is CoNLL); `otherwise` holds where it names no
    format. A folder that holds folders is "class-folders", one that holds none "class-files".
    Raises `SettingError` for a format that there is not.
    """
    if named != "auto":
        for known in FORMATS:
            if named == known:
                return known
        raise SettingError(
            "there is no format of that name",
            got=repr(named),
            allowed="auto, " + ", ".join(FORMATS),
        )
    path = Path(name)
    if path.is_dir():
        return "class-folders" if _holds_folders(path) else "class-files"
    for ending in reversed(path.suffixes):
        if ending.lower() not in SEEN_THROUGH:
            return ENDINGS.get(ending.lower(), otherwise)
    return otherwise


def _holds_folders(folder: Path) -> bool:
    return any(path.is_dir() and not path.name.startswith(".") for path in folder.iterdir())
