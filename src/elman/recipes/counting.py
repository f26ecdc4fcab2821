"""A count model from a text, end to end: data, run folder and scores as of what is trained."""

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from elman.checkpoints.run_folder import CACHE, RunFolder, is_finished
from elman.checkpoints.run_lock import RunLock
from elman.config.model_settings import ModelSettings
from elman.config.settings import Settings
from elman.data.token_array import LineArray
from elman.errors import SettingError
from elman.kernels.dispatch import KernelPlan
from elman.models.ngram.counting import GramCounts, Occurrences, count_grams, joined
from elman.models.ngram.pruning import prune
from elman.models.ngram.smoothing import Estimate, SmoothingOptions, estimate
from elman.models.ngram_model import NgramLanguageModel
from elman.recipes.held_out import held_out_scores, stream_boundary
from elman.recipes.language_model import LanguageTask
from elman.recipes.learning import new_run_folder, write_run_manifest
from elman.recipes.prepared_text import Part, PreparedText
from elman.recipes.preparing import prepare_text
from elman.recipes.text_notices import FEW_TOKENS
from elman.recipes.training_request import TrainRequest, merged_settings
from elman.text.vocabulary import Vocabulary

MOST_ORDER: Mapping[str, int] = MappingProxyType({"char": 12, "byte": 12, "bpe": 8, "word": 6})
"""The longest order that "auto" tries."""
COUNTED = "counted"
"""How the making of a count model ends, in its manifest."""
PATIENCE = 2
"""Orders that must be no better than the best one before "auto" looks no further."""


class OrderTried(NamedTuple):
    """One order: its loss on the validation part, and the share of its histories that are known."""

    order: int
    nats_per_token: float
    share_seen: float


@dataclass(frozen=True)
class CountRun:
    """A count model that was made and saved, before its scores."""

    folder: RunFolder
    lock: RunLock
    settings: Settings
    prepared: PreparedText
    model: NgramLanguageModel
    tried: tuple[OrderTried, ...]
    notices: tuple[str, ...]
    started: float


def count_run(
    request: TrainRequest, *, on_stage: Callable[[str], None] = lambda stage: None
) -> CountRun:
    """Read, split and count a text, and save the model.

    Raises `ElmanError` for settings and files that cannot be used; what was written of a run that
    could not be is taken away again.
    """
    task = LanguageTask()
    settings = merged_settings(task, request, ())
    if request.budget_seconds is not None:
        raise SettingError(
            "counting takes the time that it takes", got="--budget", hint="leave it out"
        )
    with new_run_folder(request.out) as (folder, lock):
        cache = folder.path / CACHE
        cache.mkdir(exist_ok=True)
        on_stage("reading the text …")
        first = () if request.config_text else task.first_suggestions(settings, cache)
        settings = merged_settings(task, request, first)
        prepared = prepare_text(settings, cache)
        on_stage("counting …")
        found, tried = _counted(settings, prepared, on_stage)
        order = found.tables.order
        settings = replace(settings, model=replace(settings.model, order=order))
        model = NgramLanguageModel(settings.model, found.tables)
        folder.begin(settings, prepared.vocabularies())
        folder.save_weights(model, update=0)
    return CountRun(folder, lock, settings, prepared, model, tried, found.notices, request.started)


def is_counted(request: TrainRequest) -> bool:
    """Return whether the settings asked for are those of a count model."""
    return merged_settings(LanguageTask(), request, ()).model.kind == "ngram"


def finished_counts(out: Path) -> Mapping[str, Mapping[str, object]] | None:
    """Return the scores of the count model at `out`; None where that is another run, or none."""
    if not is_finished(out):
        return None
    folder = RunFolder.open(out)
    results = folder.read_manifest().results
    training, scores = results.get("training"), results.get("scores")
    if not isinstance(training, dict) or training.get("reason") != COUNTED:
        return None
    folder.tidy_finished()
    return scores if isinstance(scores, dict) else {}


def scored_count_run(
    run: CountRun, *, on_scored: Callable[[int], None]
) -> Mapping[str, Mapping[str, object]]:
    """Score what is held out, write the manifest, and return the scores by part.

    A run whose scoring is stopped is taken away: counting anew takes seconds.
    """
    with run.lock:
        return _scored(run, on_scored)


def _scored(run: CountRun, on_scored: Callable[[int], None]) -> Mapping[str, Mapping[str, object]]:
    try:
        found = held_out_scores(run.model, run.settings, run.prepared, KernelPlan(), on_scored)
    except BaseException:
        run.folder.discard()
        raise
    scores: dict[str, Mapping[str, object]] = {
        str(name): score.to_json() for name, score in found.items()
    }
    training = {
        "reason": COUNTED,
        "elapsed_seconds": time.monotonic() - run.started,
        "order": run.model.tables.order,
        "tried": [tried._asdict() for tried in run.tried],
    }
    results = {"training": training, "scores": scores}
    write_run_manifest(run.folder, run.prepared, run.model, {}, results)
    shutil.rmtree(run.folder.path / CACHE, ignore_errors=True)
    return scores


def occurrences(settings: Settings, vocabulary: Vocabulary, part: Part) -> Occurrences:
    """Return what is counted of a part: framed lines, or the stream after its start mark if any."""
    return joined(_sequences(settings, vocabulary, part), len(vocabulary))


def no_outcomes(settings: Settings, vocabulary: Vocabulary) -> tuple[int, ...]:
    """Return the ids that are never predicted: padding, and the start mark of a stream."""
    marks = (vocabulary.boundary_id,) if settings.text.unit == "stream" else ()
    return tuple(one for one in (vocabulary.pad_id, *marks) if one is not None)


def smoothing_options(model: ModelSettings) -> SmoothingOptions:
    """Return the smoothing that the settings of a model ask for."""
    return SmoothingOptions(model.smoothing, model.added_count, model.min_gram_counts)


def _counted(
    settings: Settings, prepared: PreparedText, on_stage: Callable[[str], None]
) -> tuple[Estimate, tuple[OrderTried, ...]]:
    vocabulary, model = prepared.tokenizer.vocabulary, settings.model
    size = len(vocabulary)
    never = no_outcomes(settings, vocabulary)
    where = occurrences(settings, vocabulary, prepared.parts["train"])
    if model.order == "auto":
        if "valid" not in prepared.parts:
            raise SettingError(
                'model.order = "auto" chooses by held-out text',
                got="no validation part",
                hint="name one with --valid, or set model.order to a number",
            )
        held_out = occurrences(settings, vocabulary, prepared.parts["valid"])
        grams = count_grams(where, order=MOST_ORDER[settings.text.level], vocabulary_size=size)
        return _best_order(grams, held_out, model, size, never, on_stage)
    grams = count_grams(where, order=model.order, vocabulary_size=size)
    return _estimated(grams, model, size, never), ()


def _estimated(
    grams: tuple[GramCounts, ...], model: ModelSettings, size: int, never: Sequence[int]
) -> Estimate:
    """Return the tables of the grams, pruned where that is asked for."""
    found = estimate(grams, size, smoothing_options(model), never=never)
    if not model.prune:
        return found
    notices = found.notices
    if model.smoothing.startswith("kneser_ney"):
        notices += (
            "shorter histories of Kneser–Ney are no marginals, so that pruning costs it more than "
            "other methods: model.smoothing = witten_bell is the one to prune",
        )
    return replace(found, tables=prune(found.tables, model.prune), notices=notices)


def _best_order(
    grams: tuple[GramCounts, ...],
    held_out: Occurrences,
    model: ModelSettings,
    size: int,
    never: Sequence[int],
    on_stage: Callable[[str], None],
) -> tuple[Estimate, tuple[OrderTried, ...]]:
    """Return the tables of the order of least held-out loss, and every order that was tried.

    The first one stands where all are infinite.
    """
    best: Estimate | None = None
    tried: list[OrderTried] = []
    least, worse = float("inf"), 0
    for order in range(1, len(grams) + 1):
        on_stage(f"trying order {order} …")
        found = _estimated(grams[:order], model, size, never)
        nats = float(-found.tables.log_probs(held_out).mean())
        tried.append(OrderTried(order, nats, found.tables.share_of_known_histories(held_out)))
        worse = 0 if nats < least else worse + 1
        if best is None or nats < least:
            best, least = found, nats
        if worse == PATIENCE:
            break
    assert best is not None  # order 1 is always tried
    notices = tuple(_doubts(best.tables.order, len(grams), held_out.num_predicted))
    return replace(best, notices=(*best.notices, *notices)), tuple(tried)


def _doubts(chosen: int, longest: int, num_tokens: int) -> Iterator[str]:
    """Tell what makes the order that was chosen less than sure."""
    if chosen == longest:
        yield f"order {longest} is the longest that is tried: model.order = N asks for a longer one"
    if num_tokens < FEW_TOKENS:
        yield f"the order is chosen by {num_tokens:,} tokens alone; another text may want another"


def _sequences(
    settings: Settings, vocabulary: Vocabulary, part: Part
) -> Iterator[npt.NDArray[np.integer]]:
    if isinstance(part.ids, LineArray):
        assert vocabulary.boundary_id is not None
        yield from part.ids.framed(vocabulary.boundary_id)
        return
    boundary_id = stream_boundary(settings, vocabulary)
    ids_N = np.asarray(part.ids)
    yield ids_N if boundary_id is None else np.concatenate([[boundary_id], ids_N])
