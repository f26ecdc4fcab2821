"""What a person asks of `elman predict`, for every task alike."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from elman.data.labelled import CLASS_FORMATS
from elman.decoding.translation_steps import TranslationSearch
from elman.errors import SettingError
from elman.processes import Processes

WITHOUT_COLUMNS = ("text", *CLASS_FORMATS)
DIGITS = 6
"""Places of a probability after the point."""


@dataclass(frozen=True)
class PredictRequest:
    """What to answer and how to write it; "" and None leave a choice to the run.

    `out` None is standard output. No size changes an answer. `ensemble`: runs whose probabilities
    are averaged with this one's, for labels and sequences. `search` and `attention`, a folder for
    what was attended to, are for runs of sequences. `on_kernels` is told at the end what ran each
    part of the model. Of several `processes` each answers a share, and all write all answers.
    """

    name: str
    out: Path | None = None
    as_json: bool = False
    all_probabilities: bool = False
    data_format: str = "auto"
    column: str = ""
    encoding: str | None = None
    batch_size: int = 64
    search: TranslationSearch | None = None
    attention: Path | None = None
    ensemble: tuple[Path, ...] = ()
    on_kernels: Callable[[Mapping[str, str]], None] = lambda record: None
    processes: Processes = field(default_factory=Processes)

    def require_columns(self, kind: str) -> None:
        """Raise `SettingError` where `column` is asked of a format that has no columns."""
        if self.column and kind in WITHOUT_COLUMNS:
            raise SettingError(
                "a file of lines has no columns" if kind == "text" else "a folder has no columns",
                got=f"--column {self.column} for {self.name}",
                hint="leave it out, or say with --format how a table is read",
            )
