"""Runs of any kind on the same files: one table under one unit."""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, get_args

from elman.checkpoints.run_folder import RunFolder
from elman.errors import SettingError
from elman.evaluation.comparison import (
    BlockSums,
    Compared,
    ModelComparison,
    compare_models,
)
from elman.evaluation.reach import ReachCurve, ReachKind, reach_curve
from elman.evaluation.scorers import ModelScorer, TokenScorer
from elman.evaluation.surprisal import in_reading_order
from elman.evaluation.text_blocks import Reading, TextBlocks, block_characters, text_blocks
from elman.evaluation.units import MANY_UNKNOWN
from elman.recipes.corpus import Corpus, open_corpus
from elman.recipes.mixing import Mixing, mixed
from elman.recipes.scoring import ScoreRequest, score_files
from elman.recipes.trained import TrainedModel, open_trained
from elman.text.reading import TextReport

WITH_CACHE = " + cache"
"""What the name of a row ends in that has a cache."""


@dataclass(frozen=True)
class CompareRequest:
    """Which runs on which files. `cache_size` adds a row with a cache below each run that has
    states; 0 none.
    """

    runs: tuple[Path, ...]
    names: tuple[str, ...]
    encoding: str | None = None
    cache_size: int = 0


@dataclass(frozen=True)
class Compare:
    """The comparison, and lines that a person should see."""

    comparison: ModelComparison
    notices: tuple[str, ...]


def compare_runs(
    request: CompareRequest, *, on_stage: Callable[[str], None] = lambda stage: None
) -> Compare:
    """Score every run on the files, each exactly, and set them side by side.

    Raises `RunError` for a run that is no language model, and what `score_files` raises.
    """
    trained = [open_trained(run) for run in request.runs]
    encoding = _encoding(request, trained)
    with _text_again(request.names, encoding) as (corpus, again):
        reports: list[TextReport] = []
        blocks = _blocks(corpus, trained, reports)
        models: list[Compared] = []
        notices: list[str] = []
        for one, name in zip(trained, _short_names(request.runs), strict=True):
            on_stage(f"scoring {name} …")
            score = ScoreRequest(again, encoding)
            models.append(_compared(one, name, score, blocks[_reading(one)]))
            if request.cache_size and one.model.has_vectors:
                on_stage(f"scoring {name} with a cache …")
                cached = mixed(one, Mixing(cache_size=request.cache_size))
                called = f"{name}{WITH_CACHE}"
                models.append(_compared(one, called, score, blocks[_reading(one)], cached.scorer))
                notices += [f"{name}: {line}" for line in cached.told]
            elif request.cache_size:
                notices.append(f"{name}: counts have no states for a cache to compare")
        notices += _learnt_from(reports, trained)
        notices += _trained_briefly(models)
    comparison = compare_models(models)
    return Compare(comparison, (*notices, *_warnings(comparison)))


def _learnt_from(reports: Sequence[TextReport], trained: Sequence[TrainedModel]) -> Iterator[str]:
    """Tell which of the files a run had for training, or cut its parts from."""
    files = [(one.path.name, set(_files_of(one))) for one in trained]
    for report in reports:
        runs = [name for name, digests in files if report.sha256 in digests]
        if runs:
            yield (
                f"{report.name} is a text that {', '.join(runs)} learnt from: figures on it are of "
                "what is known by heart"
            )


def _trained_briefly(models: Sequence[Compared]) -> Iterator[str]:
    """Tell which models have not read their text once; one with a cache is not named again."""
    alone = [one for one in models if not one.name.endswith(WITH_CACHE)]
    brief = [one for one in alone if one.passes is not None and one.passes < 1]
    if brief:
        names = ", ".join(f"{one.name} ({one.passes:.2g})" for one in brief)
        yield (
            f"less than one pass over its text: {names}; such figures tell what the time allowed, "
            "not what the model can: train for longer, or a smaller one"
        )


def _files_of(trained: TrainedModel) -> Iterator[object]:
    """Yield the digests of the files that a run was trained on, as far as its manifest tells."""
    files = RunFolder.open(trained.path).read_manifest().data.get("files")
    for file in files if isinstance(files, list) else ():
        if isinstance(file, dict):
            yield file.get("sha256")


@dataclass(frozen=True)
class RunReach:
    """The curves of one run, by kind."""

    name: str
    curves: tuple[ReachCurve, ...]


def reach_of_runs(
    request: CompareRequest,
    *,
    num_positions: int,
    on_stage: Callable[[str], None] = lambda stage: None,
) -> tuple[RunReach, ...]:
    """Return how far back each run looks in the files: truncated and shuffled contexts.

    Raises `SettingError` for runs of lines, which begin anew with each line, and `DataError` for a
    text that is too short.
    """
    trained = [open_trained(run) for run in request.runs]
    names = _short_names(request.runs)
    for one, name in zip(trained, names, strict=True):
        if one.settings.text.unit != "stream":
            raise SettingError(
                "how far back a model looks is asked of streams",
                got=f"{name}, a run of lines",
            )
    with _text_again(request.names, _encoding(request, trained)) as (corpus, _):
        text = "".join(corpus.chunks())
    found = []
    for one, name in zip(trained, names, strict=True):
        ids_N = one.tokenizer.encode(text)
        if one.settings.text.direction == "backward":
            ids_N = ids_N[::-1]
        scorer = ModelScorer(one.model, one.plan)
        curves = []
        for kind in get_args(ReachKind):
            on_stage(f"{name}: {kind} contexts …")
            curves.append(reach_curve(scorer, ids_N, kind, num_positions=num_positions))
        found.append(RunReach(name, tuple(curves)))
    return tuple(found)


def _encoding(request: CompareRequest, trained: Sequence[TrainedModel]) -> str:
    """Return how the files are decoded, which must be the same for all runs."""
    encodings = {one.settings.text.encoding for one in trained}
    if request.encoding is None and len(encodings) > 1:
        raise SettingError(
            "the runs read files in different encodings",
            got=", ".join(sorted(encodings)),
            hint="say which with --encoding",
        )
    return request.encoding or encodings.pop()


@contextmanager
def _text_again(names: Sequence[str], encoding: str) -> Iterator[tuple[Corpus, tuple[str, ...]]]:
    """Hand over the text, and the names that read it again: of standard input that of a copy."""
    with tempfile.TemporaryDirectory(prefix="elman-") as scratch:
        corpus = open_corpus(names, encoding=encoding, repeats="keep", scratch=Path(scratch))
        yield corpus, tuple(str(corpus.spooled.get(name, name)) for name in names)


def _reading(trained: TrainedModel) -> Reading:
    return Reading(trained.settings.text.unit, trained.settings.text.normal_form)


def _blocks(
    corpus: Corpus, trained: Sequence[TrainedModel], reports: list[TextReport]
) -> Mapping[Reading, TextBlocks]:
    """Return the blocks of the text under the reading of every run; `reports` tell of its files."""
    num_characters, last = 0, "\n"
    for chunk in filter(None, corpus.chunks(reports)):
        num_characters, last = num_characters + len(chunk), chunk[-1]
    readings = sorted({_reading(one) for one in trained})
    length = block_characters(num_characters)
    return text_blocks(corpus.lines(), length, readings, has_last_end=last == "\n")


def _compared(
    trained: TrainedModel,
    name: str,
    request: ScoreRequest,
    blocks: TextBlocks,
    scorer: TokenScorer | None = None,
) -> Compared:
    sums, effort = BlockSums(blocks), _effort_of(trained)
    with in_reading_order(sums, trained.settings.text.direction) as sink:
        score, _ = score_files(trained, request, scorer=scorer, sink=sink)
    return Compared(
        name,
        trained.settings.model.kind,
        trained.model.parameter_count(),
        effort.seconds,
        effort.passes,
        trained.tokenizer.digest(),
        score,
        sums.nats_B,
        blocks.bytes_B,
    )


class _Effort(NamedTuple):
    """What training cost: seconds, and passes over its text; None where a run does not tell."""

    seconds: float | None
    passes: float | None


def _effort_of(trained: TrainedModel) -> _Effort:
    manifest = RunFolder.open(trained.path).read_manifest()
    training = manifest.results.get("training")
    if not isinstance(training, dict):
        return _Effort(None, None)
    seconds, read = training.get("elapsed_seconds"), training.get("num_tokens")
    whole = manifest.sizes.get("train_tokens")
    told = seconds if isinstance(seconds, int | float) else None
    if training.get("reason") == "counted":
        return _Effort(told, 1.0)
    return _Effort(told, read / whole if isinstance(read, int) and whole else None)


def _short_names(runs: Sequence[Path]) -> list[str]:
    """Return the names of the folders, whole paths where two are called alike; each once."""
    names = [run.resolve().name for run in runs]
    if len(set(names)) < len(names):
        names = [str(run) for run in runs]
    seen: Counter[str] = Counter()
    for place, name in enumerate(names):
        seen[name] += 1
        names[place] = name if seen[name] == 1 else f"{name} ({seen[name]})"
    return names


def _warnings(comparison: ModelComparison) -> Iterable[str]:
    if not comparison.same_tokens:
        yield (
            "the runs have different tokens: their nats and perplexities per token are of "
            "different things, bits per byte compare"
        )
    sizes = [row.compared.score.utf8_bytes or 0 for row in comparison.rows]
    if max(sizes) - min(sizes) > 1:  # a last line without an end has one where lines are read
        yield (
            "runs of lines are not asked about blank lines: their bits per byte are of the others "
            "alone"
        )
    yield from _too_low(comparison)
    if any(row.interval is None for row in comparison.rows):
        yield (
            "no intervals where the text has too few blocks, or something in it is impossible to "
            "a model"
        )


def _too_low(comparison: ModelComparison) -> Iterator[str]:
    """Tell which figures are marked, once for all models that lack as much of the text."""
    lacking: dict[str, list[str]] = {}
    for row in comparison.rows:
        score = row.compared.score
        missed, rate = 100 * score.skipped_rate, 100 * (score.unknown_rate or 0.0)
        if score.skipped_rate > MANY_UNKNOWN:
            what = f"{missed:.1f} % of the text has no tokens, is skipped and costs nothing"
            lacking.setdefault(what, []).append(row.compared.name)
        if score.has_many_unknown:
            what = f"{rate:.1f} % of the tokens are unknown, and what they are costs nothing"
            lacking.setdefault(what, []).append(row.compared.name)
    for what, names in lacking.items():
        yield f"* {', '.join(names)}: {what}, so that figures per character and byte are too low"
    if lacking and comparison.same_tokens:
        yield (
            'perplexities "of known" leave the unknown tokens out, whose guessing is much of what '
            "a cache gains"
        )
    elif lacking:
        yield "no difference is told between a marked model and one of other tokens"
