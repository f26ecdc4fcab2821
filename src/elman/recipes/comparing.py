"""Runs of any kind on the same files: one table under one unit."""

import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from elman.checkpoints.run_folder import RunFolder
from elman.errors import SettingError
from elman.evaluation.comparison import (
    BlockSums,
    Compared,
    ModelComparison,
    block_characters,
    compare_models,
)
from elman.evaluation.reach import ReachCurve, ReachKind, reach_curve
from elman.evaluation.scorers import ModelScorer, TokenScorer
from elman.evaluation.surprisal import in_reading_order
from elman.evaluation.units import MANY_UNKNOWN
from elman.recipes.corpus import Corpus, open_corpus
from elman.recipes.mixing import Mixing, mixed
from elman.recipes.scoring import ScoreRequest, score_files
from elman.recipes.trained import TrainedModel, open_trained


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
    encodings = {one.settings.text.encoding for one in trained}
    encoding = request.encoding or encodings.pop()
    if not request.encoding and encodings:
        raise SettingError(
            "the runs read files in different encodings",
            got=", ".join(sorted({one.settings.text.encoding for one in trained})),
            hint="say which with --encoding",
        )
    sizes = _bytes_by_block(request.names, encoding)
    names = _short_names(request.runs)
    models: list[Compared] = []
    notices: list[str] = []
    for one, name in zip(trained, names, strict=True):
        on_stage(f"scoring {name} …")
        score = ScoreRequest(request.names, encoding)
        models.append(_compared(one, name, score, sizes))
        if request.cache_size and _has_states(one):
            on_stage(f"scoring {name} with a cache …")
            with_cache = mixed(one, Mixing(cache_size=request.cache_size))
            found = _compared(one, f"{name} + cache", score, sizes, with_cache.scorer)
            models.append(found)
            notices += [f"{name}: {line}" for line in with_cache.told]
    comparison = compare_models(models, sizes.bytes_by_block)
    return Compare(comparison, (*notices, *_warnings(comparison)))


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
    found = []
    for run, name in zip(request.runs, _short_names(request.runs), strict=True):
        trained = open_trained(run)
        if trained.settings.text.unit != "stream":
            raise SettingError(
                "how far back a model looks is asked of streams",
                got=f"{name}, a run of lines",
            )
        encoding = request.encoding or trained.settings.text.encoding
        with tempfile.TemporaryDirectory(prefix="elman-") as scratch:
            corpus = open_corpus(
                request.names, encoding=encoding, repeats="keep", scratch=Path(scratch)
            )
            ids_N = trained.tokenizer.encode("".join(corpus.chunks()))
        if trained.settings.text.direction == "backward":
            ids_N = ids_N[::-1]
        scorer = ModelScorer(trained.model, trained.plan)
        curves = []
        for kind in get_args(ReachKind):
            on_stage(f"{name}: {kind} contexts …")
            curves.append(reach_curve(scorer, ids_N, kind, num_positions=num_positions))
        found.append(RunReach(name, tuple(curves)))
    return tuple(found)


def _has_states(trained: TrainedModel) -> bool:
    return trained.settings.model.kind != "ngram"


@dataclass(frozen=True)
class _Sizes:
    block_characters: int
    bytes_by_block: tuple[int, ...]


def _bytes_by_block(names: Sequence[str], encoding: str) -> _Sizes:
    """Return the bytes in UTF-8 of each block of the text of the files."""
    with tempfile.TemporaryDirectory(prefix="elman-") as scratch:
        corpus = open_corpus(names, encoding=encoding, repeats="keep", scratch=Path(scratch))
        num_characters = sum(map(len, corpus.chunks()))
        length = block_characters(num_characters)
        found = tuple(_block_bytes(corpus, length))
    return _Sizes(length, found)


def _block_bytes(corpus: Corpus, length: int) -> Iterable[int]:
    held = ""
    for chunk in corpus.chunks():
        held += chunk
        while len(held) >= length:
            yield len(held[:length].encode("utf-8", "surrogatepass"))
            held = held[length:]
    if held:
        yield len(held.encode("utf-8", "surrogatepass"))


def _compared(
    trained: TrainedModel,
    name: str,
    request: ScoreRequest,
    sizes: _Sizes,
    scorer: TokenScorer | None = None,
) -> Compared:
    sums = BlockSums(sizes.block_characters)
    with in_reading_order(sums, trained.settings.text.direction) as sink:
        score, _ = score_files(trained, request, scorer=scorer, sink=sink)
    return Compared(
        name,
        trained.settings.model.kind,
        trained.model.parameter_count(),
        _training_seconds(trained),
        trained.tokenizer.digest(),
        score,
        tuple(sums.nats),
    )


def _training_seconds(trained: TrainedModel) -> float | None:
    training = RunFolder.open(trained.path).read_manifest().results.get("training")
    seconds = training.get("elapsed_seconds") if isinstance(training, dict) else None
    return seconds if isinstance(seconds, int | float) else None


def _short_names(runs: Sequence[Path]) -> list[str]:
    """Return the names of the folders, and whole paths where two are called alike."""
    names = [run.resolve().name for run in runs]
    return names if len(set(names)) == len(names) else [str(run) for run in runs]


def _warnings(comparison: ModelComparison) -> Iterable[str]:
    if not comparison.same_tokens:
        yield (
            "the runs have different tokens: their nats and perplexities per token are of "
            "different things, bits per byte compare"
        )
    for row in comparison.rows:
        rate = row.compared.score.unknown_rate
        if rate is not None and rate > MANY_UNKNOWN:
            yield (
                f"{row.compared.name}: {100 * rate:.1f} % of the tokens are unknown to it, and "
                "cost less than their spelling would: its figures are too low"
            )
    if any(row.interval is None for row in comparison.rows):
        yield (
            "no intervals where the text has too few blocks, or something in it is impossible to "
            "a model"
        )
