"""Two texts of as many tokens, and how far apart they leave the states of each layer."""

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from elman.config.text_settings import UnknownPolicy
from elman.errors import SettingError
from elman.inspection.trace import Divergence, diverge
from elman.recipes.inspecting.language_subject import LanguageSubject, language_subject


@dataclass(frozen=True)
class TwoTexts:
    """Both texts as the run reads them, and a row for each step of theirs."""

    first: LanguageSubject
    second: LanguageSubject
    rows: tuple[Divergence, ...]

    @property
    def notices(self) -> tuple[str, ...]:
        """What a person should see of either text, once where it is said of both."""
        told = [
            f"{name}: {notice}" if "unknown" in notice else notice
            for name, text in (("first text", self.first), ("second text", self.second))
            for notice in text.notices
        ]
        return tuple(dict.fromkeys(told))

    def to_json(self) -> dict[str, object]:
        """Return what JSON can hold."""
        return {
            "first": list(self.first.shown),
            "second": list(self.second.shown),
            "unknown": {
                "first": self.first.unknown_json(),
                "second": self.second.unknown_json(),
            },
            "steps": [row._asdict() for row in self.rows],
        }

    def plot(self, axes: Any) -> None:
        """Draw the distances of each layer, and of the next predictions, on matplotlib's axes."""
        places = [row.position + 1 for row in self.rows]
        for layer in range(len(self.rows[0].distances_L)):
            distances = [row.distances_L[layer] for row in self.rows]
            axes.plot(places, distances, marker="o", ms=3, label=f"state of layer {layer + 1}")
        apart = [row.nats_apart for row in self.rows]
        axes.plot(places, apart, color="#999999", ls=":", label="next predictions, nats")
        axes.set(ylim=(0.0, None), xlabel="token read", ylabel="distance")
        axes.set_title("how far two texts are apart", loc="left")


def two_texts(
    path: Path, texts: tuple[str, str], *, unknown: UnknownPolicy | None = None
) -> TwoTexts:
    """Return how far apart the texts leave the states of the language model at `path`.

    Nothing is told of the step after the mark that closes a line. Raises `DataError` for a text of
    several lines, `SettingError` for texts of different lengths.
    """
    first, second = (language_subject(path, each, unknown=unknown) for each in texts)
    for subject in (first, second):
        subject.require_one_line("--compare")
    lengths = [len(subject.ids_N) for subject in (first, second)]
    if lengths[0] != lengths[1]:
        raise SettingError(
            "texts that are compared must have as many tokens as each other",
            got=f"{lengths[0]:,} and {lengths[1]:,}",
        )
    read = [subject.lines()[0] for subject in (first, second)]
    return TwoTexts(first, second, tuple(diverge(first.model, *read)))


def write_distances_csv(found: TwoTexts, file: TextIO) -> None:
    """Write one line a step: both tokens, the distances of all layers, the predictions apart."""
    writer = csv.writer(file, lineterminator="\n")
    layers = [f"layer {place + 1}" for place in range(len(found.rows[0].distances_L))]
    writer.writerow(["position", "first", "second", *layers, "next nats apart"])
    for row in found.rows:
        tokens = found.first.shown[row.position], found.second.shown[row.position]
        writer.writerow([row.position, *tokens, *row.distances_L, row.nats_apart])
