"""Which batches a run learns from, what it is chosen by, and how its held-out text is scored."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from elman.checkpoints.manifest import IMPORTED
from elman.checkpoints.run_folder import RunFolder
from elman.config.settings import Settings
from elman.data.batches import BatchSource, TokenBatch
from elman.data.lines import LineBatches
from elman.data.shares import SharedRows
from elman.data.streams import StreamBatches, fit_stream
from elman.data.token_array import LineArray, TokenArray
from elman.errors import DataError, RunError
from elman.evaluation.language import score_lines, score_stream, validation_loss
from elman.evaluation.units import LanguageScore
from elman.kernels.dispatch import KernelPlan
from elman.losses import LossSum
from elman.models.language import LanguageModel
from elman.recipes.prepared_text import Part, PartName, PreparedText
from elman.recipes.reopening import reopen_prepared
from elman.recipes.trained import TrainedModel
from elman.text.vocabulary import Vocabulary
from elman.training.loop import Trainer

VALIDATION_LANES = 32
VALIDATION_WINDOW = 256
VALIDATION_LINES = 256
VALIDATION_POOL = 64
MOST_STATES = 1 << 29
"""Numbers in the states of one batch of lines at most, which are 2 GiB and kept several times."""

IDS_AT_ONCE = 1 << 12


def parts_of_run(trained: TrainedModel, scratch: Path) -> PreparedText:
    """Return the text that a run was made from, by part, its arrays in the folder `scratch`.

    Raises `DataError` or `RunError` where it cannot be read, or is no longer what it was.
    """
    recorded = RunFolder.open(trained.path).read_manifest().data
    if IMPORTED in recorded:
        raise RunError(f"the run {trained.path} was converted from elsewhere, without its text")
    return reopen_prepared(trained.settings, trained.tokenizer, scratch, recorded)


def stream_boundary(settings: Settings, vocabulary: Vocabulary) -> int | None:
    """Return the id of the start mark of streams, or None where a stream has none."""
    marked = settings.text.unit == "stream" and settings.text.start == "mark"
    return vocabulary.boundary_id if marked else None


def training_source(
    settings: Settings, prepared: PreparedText
) -> tuple[BatchSource[TokenBatch], tuple[str, ...]]:
    """Return the batches to learn from, and notices of sizes that had to be reduced.

    Raises `DataError` where a line is so long that a batch with it would not fit into memory.
    """
    part = prepared.parts["train"]
    if isinstance(part.ids, LineArray) and len(part.ids):
        _require_short_lines(int(part.ids.lengths_N.max()), settings)
    return _source(settings, prepared, part)


def _require_short_lines(longest: int, settings: Settings) -> None:
    """Raise `DataError` where the states of a batch with the longest line are too many."""
    row = settings.model.num_layers * settings.model.hidden_size * settings.training.batch_size
    most = max(1, MOST_STATES // row)
    if longest > most:
        raise DataError(
            "a line is too long to be learnt from as one sequence",
            got=f"{longest:,} tokens",
            allowed=f"{most:,} with these sizes",
            hint="learn from the text as a stream (--unit stream), cut the line, or lower "
            "training.batch_size",
        )


def validation_source(
    settings: Settings, prepared: PreparedText, trainer: Trainer[LanguageModel, TokenBatch]
) -> Callable[[], LossSum] | None:
    """Return a function that measures the held-out loss to choose by, None without such a text.

    Streams are measured in lanes, which is quick and a little too high: the figure reported at the
    end is exact.
    """
    part = prepared.parts.get("valid")
    if part is None:
        return None
    in_lanes = replace(
        settings.training,
        batch_size=VALIDATION_LINES if settings.text.unit == "line" else VALIDATION_LANES,
        window=VALIDATION_WINDOW,
        length_pool=VALIDATION_POOL,
        window_deviation=0.0,
    )
    source, _ = _source(replace(settings, training=in_lanes), prepared, part)
    processes = trainer.processes
    own = SharedRows(source, processes.rank, processes.size)
    return lambda: validation_loss(trainer.model, own, plan=trainer.plan).over(processes)


def held_out_scores(
    model: LanguageModel,
    settings: Settings,
    prepared: PreparedText,
    plan: KernelPlan,
    on_scored: Callable[[int], None],
) -> dict[PartName, LanguageScore]:
    """Return the exact scores of the parts that were not learnt from.

    `on_scored` is told, again and again, how many tokens of all parts have been read.
    """
    scores: dict[PartName, LanguageScore] = {}
    done = 0
    for name, part in prepared.parts.items():
        if name == "train":
            continue

        def tell(count: int, before: int = done) -> None:
            on_scored(before + count)

        scores[name] = score_part(model, settings, prepared, part, plan, tell)
        done += part.num_predicted
    return scores


def score_part(
    model: LanguageModel,
    settings: Settings,
    prepared: PreparedText,
    part: Part,
    plan: KernelPlan,
    on_scored: Callable[[int], None],
) -> LanguageScore:
    """Return the exact score of one part: a stream in one lane, or lines each by itself."""
    vocabulary = prepared.tokenizer.vocabulary
    if isinstance(part.ids, LineArray):
        assert vocabulary.boundary_id is not None
        score = score_lines(
            model,
            counted(part.ids, on_scored, marks=1),
            plan=plan,
            boundary_id=vocabulary.boundary_id,
            unk_id=vocabulary.unk_id,
        )
    else:
        score = score_stream(
            model,
            counted(ids_in_pieces(part.ids), on_scored),
            plan=plan,
            boundary_id=stream_boundary(settings, vocabulary),
            unk_id=vocabulary.unk_id,
        )
    return score.with_text(characters=part.characters, utf8_bytes=part.utf8_bytes)


def counted(
    pieces: Iterable[npt.NDArray[np.integer]], on_scored: Callable[[int], None], *, marks: int = 0
) -> Iterator[npt.NDArray[np.integer]]:
    """Yield `pieces` and tell, as each next one is asked for, how many ids came before it.

    `marks` more are counted with each piece: the stop mark of a line.
    """
    count = 0
    for piece in pieces:
        yield piece
        count += len(piece) + marks
        on_scored(count)


def ids_in_pieces(ids: TokenArray) -> Iterator[npt.NDArray[np.integer]]:
    """Yield the ids of a memory-mapped array piece by piece."""
    for start in range(0, len(ids), IDS_AT_ONCE):
        yield ids[start : start + IDS_AT_ONCE]


def _source(
    settings: Settings, prepared: PreparedText, part: Part
) -> tuple[BatchSource[TokenBatch], tuple[str, ...]]:
    vocabulary, training = prepared.tokenizer.vocabulary, settings.training
    if isinstance(part.ids, LineArray):
        assert vocabulary.boundary_id is not None
        assert vocabulary.pad_id is not None
        lines = LineBatches(
            part.ids,
            batch_size=training.batch_size,
            boundary_id=vocabulary.boundary_id,
            pad_id=vocabulary.pad_id,
            seed=training.seed,
            order="shuffled",
            length_pool=training.length_pool,
        )
        return lines, ()
    boundary_id = stream_boundary(settings, vocabulary)
    sizes = fit_stream(
        len(part.ids),
        batch_size=training.batch_size,
        window=training.window,
        boundary_id=boundary_id,
    )
    stream = StreamBatches(
        part.ids,
        batch_size=sizes.batch_size,
        window=sizes.window,
        boundary_id=boundary_id,
        deviation=training.window_deviation,
        seed=training.seed,
    )
    return stream, (sizes.notice,) if sizes.notice else ()
