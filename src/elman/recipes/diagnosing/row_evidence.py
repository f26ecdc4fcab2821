"""What a classifier, tagger or translating run learns from and is held against, row by row."""

import tempfile
from collections.abc import Mapping
from pathlib import Path

from elman.checkpoints.run_folder import RunFolder
from elman.errors import RunError
from elman.recipes.classify import ClassifyTask
from elman.recipes.preparing import PartName
from elman.recipes.tag import TagTask
from elman.recipes.translate import TranslateTask

RowsByPart = Mapping[PartName, tuple[bytes, ...]]
"""What is read of each row, the answer left out."""


def rows_by_part(folder: RunFolder, recorded: Mapping[str, object]) -> RowsByPart:
    """Return the rows that the run began with, read again from its files.

    `recorded` is the section `data` of the manifest. Raises `DataError` where files cannot be read,
    and `RunError` where they are no longer those.
    """
    with tempfile.TemporaryDirectory(prefix="elman-") as scratch:
        facts, rows = _prepared(folder, Path(scratch))
    if facts != recorded:
        raise RunError("other rows are in the files than the run began with")
    return rows


def _prepared(folder: RunFolder, scratch: Path) -> tuple[Mapping[str, object], RowsByPart]:
    settings = folder.settings
    if settings.model.task == "classify":
        labels = ClassifyTask().prepare(settings, scratch)
        return labels.facts(), {
            name: tuple(part.rows.row(row).tobytes() for row in range(part.num_rows))
            for name, part in labels.parts.items()
        }
    if settings.model.task == "tag":
        tags = TagTask().prepare(settings, scratch)
        return tags.facts(), {
            name: tuple("\0".join(row.tokens).encode() for row in part.rows)
            for name, part in tags.parts.items()
        }
    pairs = TranslateTask().prepare(settings, scratch)
    return pairs.facts(), {
        name: tuple(line.tobytes() for line in part.sources) for name, part in pairs.parts.items()
    }
