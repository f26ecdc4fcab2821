"""The answers of an encoder-decoder, a line for each line; their attention as files beside."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import tee
from pathlib import Path
from typing import TextIO

from elman.atomic_files import write_atomically
from elman.config.settings import Settings
from elman.decoding.translation_steps import TranslationSearch
from elman.errors import DataError, SettingError
from elman.evaluation.attention_picture import draw_attention
from elman.recipes.pairs import PairReader
from elman.recipes.prediction_request import PredictRequest
from elman.recipes.translating import Answer, open_translator
from elman.recipes.unknown_tokens import UnknownTokens

END_TOKEN = "[end]"
MOST_PICTURES = 100
"""Pictures that are drawn at most; the numbers are written for every row."""


def write_translations(
    run: Path, request: PredictRequest, file: TextIO, scratch: Path
) -> tuple[str, ...]:
    """Write the best answer to each line, or with `as_json` an object with all that were asked for.

    A blank line, and one of which no token is kept, is answered by a blank one. With
    `request.attention` a folder gets NUMBER.json and NUMBER.png for each row, numbered from 1; it
    is made once a row is answered, and nothing of it stays where writing fails.
    """
    if request.all_probabilities:
        raise SettingError(
            "--probabilities is for classifiers and taggers", got="a run of sequences"
        )
    translator = replace(open_translator(run, request.ensemble), processes=request.processes)
    if request.attention is not None:
        if not translator.attends:
            raise SettingError(
                "there is no attention to write", got='a run with model.attention = "none"'
            )
        _require_empty(request.attention)
    search = translator.search(
        request.search or TranslationSearch(), keep_attention=request.attention is not None
    )
    settings = _with_request(translator.settings, request)
    reader = PairReader(settings, scratch)
    lines, shown = tee(reader.source_lines(request))
    unknown = UnknownTokens()
    blank = number = boxes = 0
    answers = translator.answers(lines, search, batch_size=request.batch_size, unknown=unknown)
    with _attention_folder(request.attention) as attended:
        for number, (line, answer) in enumerate(zip(shown, answers, strict=True), 1):
            blank += answer is None
            if request.as_json:
                told = _as_json(number, line, answer)
                file.write(json.dumps(told, ensure_ascii=False, allow_nan=False) + "\n")
            else:
                file.write("" if answer is None else _one_line(answer.texts[0]))
                file.write("\n")
            if attended is not None and answer is not None:
                boxes += not attended.write(number, answer)
    request.on_kernels(translator.plan.record())
    told_lines = [*reader.notices, *unknown.notices()]
    if blank:
        told_lines.append(f"{blank:,} row{'s' * (blank != 1)} without text answered by nothing")
    if boxes:
        pictures = f"{boxes:,} picture{'s' * (boxes != 1)}"
        told_lines.append(f"characters that the font lacks are boxes in {pictures}")
    if request.attention is not None and number > MOST_PICTURES:
        told_lines.append(f"the first {MOST_PICTURES} rows are drawn, all are written as numbers")
    return tuple(told_lines)


def _with_request(settings: Settings, request: PredictRequest) -> Settings:
    data = replace(settings.data, format=request.data_format)  # type: ignore[arg-type]
    text = settings.text
    if request.column:
        data = replace(data, source_column=request.column)
    if request.encoding is not None:
        text = replace(text, encoding=request.encoding)
    return replace(settings, data=data, text=text)


def _as_json(number: int, line: str, answer: Answer | None) -> dict[str, object]:
    told: dict[str, object] = {"row": number, "source": line, "text": None, "answers": []}
    if answer is None:
        return told
    told["text"] = answer.texts[0]
    told["answers"] = [
        {
            "text": text,
            "score": one.score,
            "log_prob_nats": one.log_prob_nats,
            "ended": one.ended,
        }
        for text, one in zip(answer.texts, answer.hypotheses, strict=True)
    ]
    return told


class _AttentionFolder:
    """The files of what was attended to; their folder is made with the first of them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._made: list[Path] = []
        self._files: list[Path] = []

    def make(self) -> None:
        """Make the folder and those that it lies in, where they are not there."""
        missing = [one for one in (self._path, *self._path.parents) if not one.exists()]
        for one in reversed(missing):
            one.mkdir()
            self._made.append(one)

    def write(self, number: int, answer: Answer) -> bool:
        """Write the numbers of row `number`, and its picture if it is among the first.

        Return whether the font had all its characters.
        """
        self.make()
        best = answer.hypotheses[0]
        assert best.weights_TS is not None  # the model attends
        targets = [*answer.target_tokens, *([END_TOKEN] if best.ended else [])]
        told = {
            "row": number,
            "source_tokens": list(answer.source_tokens),
            "target_tokens": targets,
            "weights": [[float(weight) for weight in row] for row in best.weights_TS],
        }
        path = self._path / f"{number:06d}.json"
        picture = path.with_suffix(".png")
        self._files += [path, picture]
        write_atomically(path, (json.dumps(told, ensure_ascii=False) + "\n").encode())
        if number > MOST_PICTURES:
            return True
        return draw_attention(best.weights_TS, answer.source_tokens, targets, picture)

    def take_away(self) -> None:
        """Remove what was written, and the folders that were made for it."""
        for file in self._files:
            file.unlink(missing_ok=True)
        for folder in reversed(self._made):
            folder.rmdir()


@contextmanager
def _attention_folder(path: Path | None) -> Iterator[_AttentionFolder | None]:
    """Yield the folder, None for no path; it is there whole after the block, or not at all."""
    if path is None:
        yield None
        return
    folder = _AttentionFolder(path)
    try:
        yield folder
        folder.make()
    except BaseException:
        folder.take_away()
        raise


def _require_empty(folder: Path) -> None:
    """Refuse a folder that holds something, and one that cannot be made, before anything is read.

    Raises `DataError`.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError("--attention must name a new folder or an empty one", got=str(folder))
    nearest = next(one for one in (folder, *folder.absolute().parents) if one.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise DataError(
            "--attention must name a folder that can be made and written to", got=str(folder)
        )


def _one_line(text: str) -> str:
    r"""Return an answer as one line: \n and \r\n alone end lines, wherever lines are read."""
    return text.replace("\n", " ").rstrip("\r")
