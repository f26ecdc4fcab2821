"""The view attention of a classifier: the share of each state in what the answer is made of."""

from dataclasses import dataclass

import torch
from torch.nn.functional import pad

from elman.errors import RunError
from elman.inspection.attention_figures import attention_figures
from elman.recipes.inspecting.attention_view import PADDING
from elman.recipes.inspecting.classifier_subject import ClassifierSubject


@dataclass(frozen=True)
class PoolingView:
    """weights_T of the states of a text, which sum to 1; how spread, and what fell on padding."""

    tokens: tuple[str, ...]
    weights_T: tuple[float, ...]
    entropy_nats: float
    on_padding: float

    @property
    def largest(self) -> int:
        """The step, from 0, of the largest weight; of equals the first."""
        return max(range(len(self.weights_T)), key=lambda step: self.weights_T[step])

    def to_json(self) -> dict[str, object]:
        """Return what JSON can hold."""
        return {
            "weights": list(self.weights_T),
            "entropy_nats": self.entropy_nats,
            "share_on_padding": self.on_padding,
        }


def require_attention(subject: ClassifierSubject) -> None:
    """Raise `RunError` for a classifier without attention pooling."""
    if subject.settings.model.pooling != "attention":
        raise RunError(
            f"the run {subject.path} has no attention to look at",
            got=f'model.pooling = "{subject.settings.model.pooling}"',
            allowed='model.pooling = "attention"',
            hint="--show gradients says on which tokens the answer depends",
        )


def pooling_view(subject: ClassifierSubject) -> PoolingView:
    """Return the weights that the run gives the states of the text, read with padding behind it.

    Raises `RunError` for a run whose states are not pooled by attention.
    """
    require_attention(subject)
    model, length_1 = subject.module, subject.lengths_1
    behind = (0, 0, 0, PADDING) if subject.inputs.ndim == 3 else (0, PADDING)
    with torch.no_grad():
        inputs = pad(subject.inputs, behind)
        states_1TH, _ = model.encoder(inputs, length_1, plan=subject.classifier.plan)
        weights_1T = model.pooling.weights(states_1TH, length_1)
    figures = attention_figures(weights_1T.unsqueeze(1), length_1, torch.tensor([1]))
    return PoolingView(
        subject.shown,
        tuple(weights_1T[0, : len(subject.shown)].double().tolist()),
        max(0.0, figures.entropy_BU.item()),
        figures.on_padding_BU.item(),
    )
