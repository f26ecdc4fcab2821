"""The answers of a tagger: the file as it was with its tags predicted, or a line for a line."""

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import tee
from pathlib import Path
from typing import TextIO

from elman.data.conll import TaggedFile, write_tagged
from elman.data.conll_block import TaggedSentence
from elman.data.formats import format_of
from elman.data.row_log import RowLog
from elman.errors import DataError, SettingError
from elman.recipes.named_files import text_sources
from elman.recipes.prediction_request import DIGITS, PredictRequest
from elman.recipes.tagging import TaggedTokens, TrainedTagger, open_tagger
from elman.text.reading import TextSource, iter_lines


def write_tags(run: Path, request: PredictRequest, file: TextIO, scratch: Path) -> tuple[str, ...]:
    """Write the file with predicted tags; return lines to show a person.

    CoNLL and CoNLL-U come back byte for byte but for the tags (of a gzip file, its content); a file
    of one column gets a second one. Of any other text a line is a sentence, its words are what
    blanks part, and a line of tags is written for it: a blank one for a blank one. With `as_json`
    there is an object for each sentence or line instead.
    """
    if request.all_probabilities and not request.as_json:
        raise SettingError("--probabilities of a tagger stand in its JSON", hint="add --json")
    tagger = replace(open_tagger(run), processes=request.processes)
    encoding = request.encoding or tagger.settings.text.encoding
    sources = list(text_sources([request.name], encoding=encoding, scratch=scratch))
    if len(sources) != 1:
        raise DataError("one file is tagged at a time", got=f"{request.name}, a folder")
    source, shown = sources[0]
    kind = format_of(shown, named=request.data_format, otherwise="text")
    request.require_columns(kind)
    if kind == "text":
        _write_lines(tagger, source, request, file)
        request.on_kernels(tagger.plan.record())
        return ()
    if kind not in ("conll", "conllu"):
        raise SettingError(
            "a tagger reads sentences", got=kind, allowed="text, conll or conllu (--format)"
        )
    data = tagger.settings.data
    log = RowLog(source.name, data.bad_rows)
    tagged = TaggedFile(
        source,
        log,
        format=kind,
        token_column=request.column or data.token_column,
        tag_column=data.tag_column,
    )
    answered = _answered(tagger, tagged.sentences(), request.batch_size)
    if request.as_json:
        for sentence, answer in answered:
            file.write(_as_json(sentence.line, sentence.tokens, answer, request) + "\n")
    else:
        file.flush()
        write_tagged(file.buffer, tagged, ((given, answer.tags) for given, answer in answered))
        file.buffer.flush()
    request.on_kernels(tagger.plan.record())
    return log.notices()


def _answered(
    tagger: TrainedTagger, sentences: Iterator[TaggedSentence], batch_size: int
) -> Iterator[tuple[TaggedSentence, TaggedTokens]]:
    shown, read = tee(sentences)
    tokens = (sentence.tokens for sentence in read)
    return zip(shown, tagger.answers(tokens, batch_size=batch_size), strict=True)


def _write_lines(
    tagger: TrainedTagger, source: TextSource, request: PredictRequest, file: TextIO
) -> None:
    shown, read = tee(line.split() for line in iter_lines(source.chunks()))
    answers = tagger.answers(read, batch_size=request.batch_size)
    for number, (tokens, answer) in enumerate(zip(shown, answers, strict=True), 1):
        if request.as_json:
            file.write(_as_json(number, tokens, answer, request) + "\n")
        else:
            file.write(" ".join(answer.tags) + "\n")


def _as_json(
    line: int, tokens: list[str] | tuple[str, ...], answer: TaggedTokens, request: PredictRequest
) -> str:
    entry: dict[str, object] = {"line": line, "tokens": list(tokens), "tags": list(answer.tags)}
    if request.all_probabilities:
        entry["probabilities"] = [round(prob, DIGITS) for prob in answer.probs]
    return json.dumps(entry, ensure_ascii=False)
