"""Folders that say the class of a text by where it lies."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from elman.data.formats import format_of
from elman.data.row_log import RowLog
from elman.errors import DataError
from elman.text.reading import TextSource, iter_lines

DOCUMENTS = ("readme", "licence", "license", "copying")
"""Files of these names, in any case and with any ending, belong to no class."""


class ClassText(NamedTuple):
    """A text of a class, the line it begins on and the file it is in."""

    label: str
    text: str
    line: int
    file: str


class ClassTexts:
    r"""The texts of a folder, class by class in the order of names, one in memory at a time.

    "class-folders", chosen where the folder holds folders: each of them is a class, and each file
    in it or below it is one text, without its last line end. "class-files", chosen where it holds
    none: each file is a class, and each line of it that is not blank is one text. `named` chooses
    instead. A class of files has the file's name without its endings; where all files have the same
    name and only endings differ (`reviews.pos`, `reviews.neg`), the ending; where neither tells
    them apart, the whole name.

    Left out and told in `log.remarks`: files called README, LICENCE, LICENSE or COPYING, empty
    files, and, beside folders of classes, single files. Hidden files and folders are not seen.
    Raises `DataError` where there is no class, or a file cannot be read.
    """

    def __init__(
        self, folder: Path, log: RowLog, *, encoding: str = "utf-8", named: str = "auto"
    ) -> None:
        self.folder, self.log, self.encoding = folder, log, encoding
        if not folder.is_dir():
            raise DataError(f"{folder} is no folder", hint="name a folder of classes")
        try:
            self.format = format_of(str(folder), named=named)
            found = self._folders() if self.format == "class-folders" else self._files()
        except OSError as error:
            raise DataError(
                f"{error.filename or folder} cannot be read", got=error.strerror or "an error"
            ) from None
        if not found:
            raise DataError(f"the folder {folder} holds no class")
        self._found = found

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes, in the order in which their texts come."""
        return tuple(label for label, _ in self._found)

    def __iter__(self) -> Iterator[ClassText]:
        for label, paths in self._found:
            for path in paths:
                source = TextSource(str(path), encoding=self.encoding)
                if self.format == "class-folders":
                    text = "".join(source.chunks()).removesuffix("\n")
                    self.log.rows += 1
                    yield ClassText(label, text, 1, str(path))
                    continue
                for line, text in enumerate(iter_lines(source.chunks()), 1):
                    if text.strip():
                        self.log.rows += 1
                        yield ClassText(label, text, line, str(path))
                    else:
                        self.log.blank_lines += 1
        self.log.finish()

    def _folders(self) -> list[tuple[str, list[Path]]]:
        shown = _shown(self.folder)
        self._tell([path for path in shown if path.is_file()], "beside the folders of classes")
        found = []
        for folder in (path for path in shown if path.is_dir()):
            files = sorted(path for path in folder.rglob("*") if path.is_file())
            files = [path for path in files if not _hidden_below(path, folder)]
            found.append((folder.name, self._with_text(files)))
        return found

    def _files(self) -> list[tuple[str, list[Path]]]:
        files = [path for path in _shown(self.folder) if path.is_file()]
        documents = [path for path in files if path.name.split(".")[0].lower() in DOCUMENTS]
        self._tell(documents, "taken for documents, not for classes,")
        files = [path for path in files if path not in documents]
        labels = _told_apart([path.name for path in files])
        return [(label, self._with_text([path])) for label, path in zip(labels, files, strict=True)]

    def _with_text(self, files: list[Path]) -> list[Path]:
        empty = [path for path in files if not path.stat().st_size]
        self._tell(empty, "empty, and")
        return [path for path in files if path not in set(empty)]

    def _tell(self, paths: list[Path], why: str) -> None:
        if paths:
            names = ", ".join(path.name for path in paths[:5]) + (", …" if len(paths) > 5 else "")
            files = "1 file is" if len(paths) == 1 else f"{len(paths)} files are"
            self.log.remarks.append(f"{self.folder}: {files} {why} left out ({names})")


def _shown(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def _hidden_below(path: Path, folder: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(folder).parts)


def _told_apart(names: list[str]) -> list[str]:
    stems = [name.split(".")[0] for name in names]
    endings = [name.partition(".")[2] for name in names]
    if len(set(stems)) == len(names):
        return stems
    if len(set(stems)) == 1 and all(endings):
        return endings
    return names
