"""The view attention: where each step of an answer looks, how spread, and what fell on padding."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from elman.decoding.translation_steps import TranslationSearch
from elman.errors import DataError, RunError
from elman.evaluation.attention_picture import draw_attention
from elman.inspection.attention_figures import AttentionFigures, attention_figures
from elman.recipes.inspecting.unknown_marks import told_unknown, unknown_places
from elman.recipes.pair_preparing import target_ids
from elman.recipes.translating import open_translator
from elman.recipes.translation_writing import END_TOKEN

PADDING = 8
"""Padded places that the source is read with, so that what falls on them can be seen."""


@dataclass(frozen=True)
class AttentionView:
    """weights_TS [T, S + padding] of an answer's T steps, its stop mark among them, and figures.

    `unknown` are the places of source tokens that the run does not know.
    """

    answer: str
    source_tokens: tuple[str, ...]
    unknown: tuple[int, ...]
    target_tokens: tuple[str, ...]
    weights_TS: npt.NDArray[np.float64]
    figures: AttentionFigures

    @property
    def on_padding(self) -> float:
        """The largest share of a step that fell on padding, which must be 0."""
        return float(self.figures.on_padding_BU.max())

    @property
    def notices(self) -> tuple[str, ...]:
        """What a person should see of unknown tokens."""
        return told_unknown(self.source_tokens, self.unknown)

    def to_json(self) -> dict[str, object]:
        """Return what JSON can hold; the weights are those on the source itself."""
        steps = zip(
            self.target_tokens,
            self.figures.entropy_BU[0].tolist(),
            self.figures.place_BU[0].tolist(),
            self.figures.largest_BU[0].tolist(),
            strict=True,
        )
        return {
            "source_tokens": list(self.source_tokens),
            "unknown": [
                {"position": place, "token": self.source_tokens[place]} for place in self.unknown
            ],
            "steps": [
                {"token": token, "entropy_nats": entropy, "place": place, "weight": weight}
                for token, entropy, place, weight in steps
            ],
            "weights": self.weights_TS[:, : len(self.source_tokens)].tolist(),
            "largest_share_on_padding": self.on_padding,
        }

    def draw(self, path: Path) -> None:
        """Draw the matrix. Raises `MissingPackageError` without matplotlib."""
        own_TS = self.weights_TS[:, : len(self.source_tokens)]
        draw_attention(own_TS, self.source_tokens, self.target_tokens, path)


def attention_view(path: Path, text: str) -> AttentionView:
    """Return where the run at `path` looks while it answers `text` by its likeliest tokens.

    The answer is read again with a teacher and a padded source. Raises `RunError` for a run without
    attention, `DataError` for a text without tokens or of several lines.
    """
    text = text.rstrip("\n")
    if "\n" in text:
        lines = text.count("\n") + 1
        raise DataError(
            "a run that writes sequences answers one line at a time",
            got=f"{lines} lines",
            hint="give one of them",
        )
    translator = open_translator(path)
    model = translator.models[0]
    if model.decoder.attention is None:
        raise RunError(f"the run {path} has no attention to look at", got='attention = "none"')
    search = translator.search(TranslationSearch(), keep_attention=True)
    (answer,) = translator.answers([text], search)
    if answer is None:
        raise DataError("there is no token in the text", got=repr(text))
    ids, marks = list(answer.hypotheses[0].ids), target_ids(translator.target)
    source = translator.source.encode(text, policy=translator.settings.text.prompt_unknown)
    padded = [*map(int, source), *[translator.source.vocabulary.pad_id or 0] * PADDING]
    lengths_B, steps_B = torch.tensor([len(source)]), torch.tensor([len(ids) + 1])
    with torch.inference_mode():
        output = model(
            torch.tensor([padded]),
            lengths_B,
            torch.tensor([[marks.boundary_id, *ids]]),
            steps_B,
            plan=translator.plan,
        )
    assert output.weights_BTS is not None
    figures = attention_figures(output.weights_BTS, lengths_B, steps_B)
    weights_TS = output.weights_BTS[0].double().numpy()
    return AttentionView(
        answer.texts[0],
        answer.source_tokens,
        unknown_places(translator.source, source),
        (*answer.target_tokens, END_TOKEN),
        weights_TS,
        figures,
    )
