"""What is looked into: a recurrent language model and the tokens of a person's own text."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from elman.checkpoints.run_folder import RunFolder
from elman.config.text_settings import UnknownPolicy
from elman.errors import DataError, RunError, SettingError
from elman.models.recurrent import RecurrentLanguageModel
from elman.recipes.corpus import open_corpus
from elman.recipes.trained import TrainedModel, open_trained
from elman.text.vocabulary import BOUNDARY


@dataclass(frozen=True)
class Subject:
    """ids_N as the model reads them, `shown` the same for a person, and the run they belong to.

    A line stands between its marks; a run that reads from the end has them from the end.
    """

    trained: TrainedModel
    model: RecurrentLanguageModel
    ids_N: npt.NDArray[np.int64]
    shown: tuple[str, ...]

    def layer(self, number: int | None) -> int:
        """Return the layer numbered from 1 as a place; None: the last one.

        Raises `SettingError` for one that the model does not have.
        """
        layers = self.model.stack.num_layers
        if number is None:
            return layers - 1
        if not 1 <= number <= layers:
            raise SettingError(
                "--layer must be one of the model's", got=str(number), allowed=f"1 to {layers}"
            )
        return number - 1

    def token(self, token_id: int) -> str:
        """Return a token as a person reads it in a table."""
        return self.trained.tokenizer.token_text(token_id)


def open_recurrent(path: Path) -> tuple[TrainedModel, RecurrentLanguageModel]:
    """Return a run whose model is recurrent. Raises `RunError` for another one."""
    trained = open_trained(path)
    if not isinstance(trained.model, RecurrentLanguageModel):
        raise RunError(
            f"the run {path} has no recurrent state to look into",
            got=f"model.kind = {trained.settings.model.kind}",
            allowed="a recurrent language model",
            hint="elman compare --reach shows how far back any model looks",
        )
    return trained, trained.model


def text_of_file(name: str, path: Path) -> str:
    """Return the whole text of a file or of standard input, decoded as the run at `path` says.

    Raises `DataError` for what cannot be read.
    """
    encoding = RunFolder.open(path).settings.text.encoding
    with tempfile.TemporaryDirectory(prefix="elman-") as scratch:
        corpus = open_corpus((name,), encoding=encoding, repeats="keep", scratch=Path(scratch))
        return "".join(corpus.chunks())


def subject_of(path: Path, text: str, *, unknown: UnknownPolicy | None = None) -> Subject:
    """Return the text as the run at `path` reads it.

    Raises `RunError` for a run without a recurrent state, `DataError` for a text without tokens or,
    where the run is of lines, of several.
    """
    trained, model = open_recurrent(path)
    tokenizer = trained.tokenizer
    is_line = trained.settings.text.unit == "line"
    if is_line and "\n" in text.rstrip("\n"):
        raise DataError(
            "a run of lines reads one line at a time",
            got=f"{text.rstrip(chr(10)).count(chr(10)) + 1} lines",
            hint="give one of them",
        )
    given = text.rstrip("\n") if is_line else text
    ids_N, starts_N, ends_N = tokenizer.encode_with_offsets(given, policy=unknown)
    if not len(ids_N):
        raise DataError("there is no token in the text", got=repr(text))
    normal = tokenizer.normalise(given)
    shown = [
        normal[start:end] for start, end in zip(starts_N.tolist(), ends_N.tolist(), strict=True)
    ]
    if trained.settings.text.direction == "backward":
        ids_N, shown = ids_N[::-1], shown[::-1]
    ids = ids_N.astype(np.int64)
    if is_line or trained.settings.text.start == "mark":
        assert tokenizer.vocabulary.boundary_id is not None
        mark = np.array([tokenizer.vocabulary.boundary_id], dtype=np.int64)
        ids, shown = np.concatenate((mark, ids)), [BOUNDARY, *shown]
        if is_line:
            ids, shown = np.concatenate((ids, mark)), [*shown, BOUNDARY]
    return Subject(trained, model, ids, tuple(shown))
