"""The answers of an encoder-decoder, a line for each line; their attention as files beside."""

import json
from dataclasses import replace
from itertools import tee
from pathlib import Path
from typing import TextIO

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
    `request.attention` a folder gets NUMBER.json and NUMBER.png for each row, numbered from 1.
    """
    if request.all_probabilities:
        raise SettingError(
            "--probabilities is for classifiers and taggers", got="a run of sequences"
        )
    translator = open_translator(run, request.ensemble)
    if request.attention is not None:
        if not translator.attends:
            raise SettingError(
                "there is no attention to write", got='a run with model.attention = "none"'
            )
        _make_empty(request.attention)
    search = translator.search(request.search or TranslationSearch())
    settings = _with_request(translator.settings, request)
    reader = PairReader(settings, scratch)
    lines, shown = tee(reader.source_lines(request))
    unknown = UnknownTokens()
    blank = number = 0
    answers = translator.answers(lines, search, batch_size=request.batch_size, unknown=unknown)
    for number, (line, answer) in enumerate(zip(shown, answers, strict=True), 1):
        blank += answer is None
        if request.as_json:
            told = _as_json(number, line, answer)
            file.write(json.dumps(told, ensure_ascii=False, allow_nan=False) + "\n")
        else:
            file.write("" if answer is None else _one_line(answer.texts[0]))
            file.write("\n")
        if request.attention is not None and answer is not None:
            _write_attention(request.attention, number, answer)
    told_lines = [*reader.notices, *unknown.notices()]
    if blank:
        told_lines.append(f"{blank:,} row{'s' * (blank != 1)} without text answered by nothing")
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


def _write_attention(folder: Path, number: int, answer: Answer) -> None:
    best = answer.hypotheses[0]
    assert best.weights_TS is not None  # the model attends
    targets = [*answer.target_tokens, *([END_TOKEN] if best.ended else [])]
    told = {
        "row": number,
        "source_tokens": list(answer.source_tokens),
        "target_tokens": targets,
        "weights": [[float(weight) for weight in row] for row in best.weights_TS],
    }
    path = folder / f"{number:06d}.json"
    path.write_text(json.dumps(told, ensure_ascii=False) + "\n", encoding="utf-8")
    if number <= MOST_PICTURES:
        draw_attention(best.weights_TS, answer.source_tokens, targets, path.with_suffix(".png"))


def _make_empty(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError("--attention must name a new folder or an empty one", got=str(folder))
    folder.mkdir(parents=True, exist_ok=True)


def _one_line(text: str) -> str:
    """Return an answer as one line, so that there is one for each that was read."""
    return " ".join(text.splitlines()) if len(text.splitlines()) > 1 else text.rstrip("\r\n")
