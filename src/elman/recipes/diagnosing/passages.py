"""Rows of held-out tokens of one length, and what the model makes of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from elman.inspection.horizon import PerturbationCurve, perturbation_of_rows
from elman.kernels.dispatch import KernelPlan
from elman.models.language import LanguageModel, ModelOutput
from elman.models.recurrent import RecurrentLanguageModel
from elman.recipes.diagnosing.gates import RECORDED, GatesOfLayer, gates_over
from elman.recipes.trained import TrainedModel
from elman.text.tokenizer import Tokenizer

NUM_ROWS, LENGTH, LEAST_LENGTH = 64, 65, 6
BACKS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48)
"""Tokens back at which another one is put."""
SHORT_REACH = 1
"""Tokens back that a state which is forgotten at once still tells of."""
MOST_LOGITS = 20_000_000
"""Logits that are held at once: fewer rows of a large vocabulary are read."""


@dataclass(frozen=True)
class Passages:
    """rows_BL: tokens that stand together, each row from the state before any token.

    A row of a run of lines is the beginning of a line with its mark. pool_N: tokens of the text, to
    replace some by.
    """

    model: LanguageModel
    plan: KernelPlan
    rows_BL: Tensor
    pool_N: npt.NDArray[np.int64]

    @property
    def read(self) -> Tensor:
        """All but the last token of each row [B, T]."""
        return self.rows_BL[:, :-1]

    @property
    def targets(self) -> Tensor:
        """What comes next after each token that is read [B, T]."""
        return self.rows_BL[:, 1:]

    @cached_property
    def log_probs(self) -> Tensor:
        """ln p [B, T, V] of every token after each step, in float64."""
        with torch.inference_mode():
            output: ModelOutput = self.model(self.read, plan=self.plan)
            return output.readout.logits(output.states_BTH).double().log_softmax(dim=2)

    @cached_property
    def reach(self) -> PerturbationCurve:
        """How far back another token changes what is predicted at the ends of the rows."""
        return perturbation_of_rows(
            self.model,
            self.read.numpy(),
            self.pool_N,
            [back for back in BACKS if back < self.read.shape[1]],
            plan=self.plan,
            draw=np.random.default_rng(1),
        )

    @cached_property
    def effect_within(self) -> float:
        """The nats by which the token just read moves the next prediction, within the rows.

        The largest of several places: what stands at one place of a table may tell nothing.
        """
        length = self.read.shape[1]
        curves = [
            perturbation_of_rows(
                self.model,
                self.read[:, : max(2, length * part // 5)].numpy(),
                self.pool_N,
                [0],
                plan=self.plan,
                draw=np.random.default_rng(part),
            )
            for part in range(1, 5)
        ]
        return max(curve.nats[0] for curve in curves)

    @cached_property
    def gates(self) -> tuple[GatesOfLayer, ...]:
        """The gates of every layer over some rows; none where the model is not recurrent."""
        if not isinstance(self.model, RecurrentLanguageModel):
            return ()
        with torch.no_grad():
            read_BTE = self.model.inputs(self.read[:RECORDED])
        return gates_over(self.model.stack, (read_BTE,))


def passages_of(
    ids_N: npt.NDArray[np.int64], lines: Sequence[npt.NDArray[np.int64]], trained: TrainedModel
) -> Passages | None:
    """Return rows of the text, the same ones every time; None where it is too short for any."""
    most = max(4, MOST_LOGITS // (LENGTH * trained.model.vocabulary_size))
    num_rows = min(NUM_ROWS, most)
    draw = np.random.default_rng(1)
    if lines:
        rows = _of_lines(lines, trained, draw)
    else:
        rows = _of_stream(ids_N, draw)
    if len(rows) < 4 or len(np.unique(ids_N)) < 2:
        return None
    rows_BL = torch.from_numpy(np.stack(rows[:num_rows]))
    return Passages(trained.model, trained.plan, rows_BL, ids_N)


def _of_stream(
    ids_N: npt.NDArray[np.int64], draw: np.random.Generator
) -> list[npt.NDArray[np.int64]]:
    length = min(LENGTH, len(ids_N) // 8)
    if length < LEAST_LENGTH:
        return []
    starts = draw.integers(0, len(ids_N) - length + 1, NUM_ROWS)
    return [ids_N[start : start + length] for start in starts.tolist()]


def _of_lines(
    lines: Sequence[npt.NDArray[np.int64]], trained: TrainedModel, draw: np.random.Generator
) -> list[npt.NDArray[np.int64]]:
    """Return beginnings of lines of the length that half of the lines have."""
    mark = np.array([trained.tokenizer.vocabulary.boundary_id], dtype=np.int64)
    lengths = sorted(len(line) + 1 for line in lines)
    length = min(LENGTH, lengths[len(lengths) // 2])
    if length < LEAST_LENGTH:
        return []
    long = [line for line in lines if len(line) + 1 >= length]
    chosen = draw.permutation(len(long))[:NUM_ROWS]
    return [np.concatenate((mark, long[place]))[:length] for place in chosen.tolist()]


def line_ends(tokenizer: Tokenizer) -> npt.NDArray[np.bool_]:
    """Return which tokens [V] end a line: those with a line end in them, and the boundary mark."""
    size, boundary = len(tokenizer.vocabulary), tokenizer.vocabulary.boundary_id
    return np.array(
        [token == boundary or b"\n" in tokenizer.token_bytes(token) for token in range(size)]
    )
