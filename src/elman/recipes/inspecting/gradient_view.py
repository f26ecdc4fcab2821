"""The view gradients: how a number at the end of the text depends on each step before it."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from elman.errors import DataError
from elman.inspection.gradient_reach import Scalar, gradient_reach
from elman.inspection.horizon import NOTICEABLE
from elman.inspection.jacobians import (
    ProductNorms,
    local_jacobians,
    lyapunov_spectrum,
    product_norms,
    singular_values,
)
from elman.inspection.recording import record
from elman.inspection.weight_uses import WeightUses, weight_uses
from elman.recipes.inspecting.language_subject import LanguageSubject

MOST_STEPS = 200
"""Steps before the end that are looked at: the last of a longer text."""
MOST_JACOBIANS = 64
MOST_STATE = 2048
"""Numbers in a layer's state beyond which its Jacobians are not built."""


@dataclass(frozen=True)
class GradientView:
    """By k = 0 … K − 1 steps before the last one read: norms by inputs, and by states of a layer.

    `uses` are the contributions of every step to the gradient of −ln p by the recurrent weights;
    `products` ln norms of products of local Jacobians and their bound, `exponents` the Lyapunov
    spectrum in nats a step, `largest` the largest singular value of each J; None where a state is
    too wide.
    """

    scalar: Scalar
    value: float
    inputs_K: tuple[float, ...]
    states_K: tuple[float, ...]
    uses: WeightUses
    products: ProductNorms | None
    exponents: tuple[float, ...]
    largest: tuple[float, ...]

    @property
    def reach(self) -> int:
        """The largest k whose input still has a hundredth of the largest gradient; 0 at least."""
        limit = NOTICEABLE * max(self.inputs_K)
        return max((k for k, norm in enumerate(self.inputs_K) if norm >= limit), default=0)

    def to_json(self) -> dict[str, object]:
        """Return what JSON can hold."""
        totals: Mapping[str, float] = {
            name: float(torch.linalg.vector_norm(total)) for name, total in self.uses.total.items()
        }
        told: dict[str, object] = {
            "scalar": self.scalar,
            "value": self.value,
            "input_norms": list(self.inputs_K),
            "state_norms": list(self.states_K),
            "reach": self.reach,
            "parameters": {
                name: {"norm": totals[name], "by_step": norms.tolist()}
                for name, norms in self.uses.norms.items()
            },
        }
        if self.products is not None:
            told["jacobians"] = {
                "log_norms_of_product": self.products.of_product_K.tolist(),
                "log_bounds": self.products.of_bound_K.tolist(),
                "lyapunov_exponents": list(self.exponents),
                "largest_singular_values": list(self.largest),
            }
        return told


def require_gradients(subject: LanguageSubject) -> None:
    """Raise `DataError` for a text of fewer than two tokens, or of several lines."""
    subject.require_one_line("gradients")
    if len(subject.ids_N) < 2:
        raise DataError("a gradient needs a token that comes next", got="a text of one token")


def gradient_view(subject: LanguageSubject, layer: int, scalar: Scalar = "loss") -> GradientView:
    """Return how the scalar at the last token of the text depends on what came before.

    Raises `DataError` for a text of fewer than two tokens.
    """
    require_gradients(subject)
    model = subject.model
    last = torch.from_numpy(subject.ids_N[-MOST_STEPS - 1 :])[None]
    ids_BT, next_B = last[:, :-1], last[:, -1]
    found = gradient_reach(model, ids_BT, next_B, scalar)
    with torch.no_grad():
        x_BTE = model.inputs(ids_BT)

    def loss_of(states_BTH: torch.Tensor) -> torch.Tensor:
        log_probs_BV = model.readout.logits(states_BTH[:, -1:])[:, 0].log_softmax(dim=1)
        return -log_probs_BV.gather(1, next_B.unsqueeze(1)).sum()

    uses = weight_uses(model.stack, x_BTE, loss_of)
    products, exponents, largest = None, list[float](), list[float]()
    cell = model.stack.cell(layer)
    if sum(cell.state_sizes) <= MOST_STATE:
        with torch.no_grad():
            steps = record(model.stack, x_BTE).steps[layer][-MOST_JACOBIANS:]
        jacobians = local_jacobians(cell, steps)
        products = product_norms(jacobians)
        exponents = lyapunov_spectrum(jacobians).tolist()
        largest = [float(singular_values(matrix)[0]) for matrix in jacobians]
    return GradientView(
        scalar,
        found.scalar_B.item(),
        tuple(found.inputs_BK[0].tolist()),
        tuple(found.states_LBK[layer, 0].tolist()),
        uses,
        products,
        tuple(exponents),
        tuple(largest),
    )
