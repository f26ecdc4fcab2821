"""What a generation is between two tokens: a value that can be saved, and gone on from."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

import torch
from torch import Tensor

from elman.decoding.filters import SamplingSettings
from elman.errors import RunError, SettingError
from elman.layers.stack import StackState
from elman.models.language import LanguageModel, state_parts

FORMER_GENERATOR = "sampling_generator"
"""What states of earlier versions hold: the position of a generator that is in use no more."""

GenerationFacts = dict[str, int | float | bool]


@dataclass(frozen=True)
class GenerationState:
    """All that a generation is between two tokens.

    `model_state` (None: nothing read yet) is the state before `last_id`, the newest id, prompt or
    generated, which has not been read so far; `position` is that of the next uniform number of the
    seed; `num_generated` counts the ids generated; `ended` says that the last one was a stop mark.
    """

    model_state: StackState | None
    last_id: int
    position: int
    num_generated: int
    ended: bool
    sampling: SamplingSettings

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors, copied: `cell.0.h` and so on."""
        named = dict[str, Tensor]()
        for place, cell_state in enumerate(self.model_state or ()):
            for name, part in state_parts(place, cell_state):
                named[name] = torch.from_numpy(part.numpy(force=True).copy())
        return named

    def facts(self) -> GenerationFacts:
        """Return everything else, for JSON; a float keeps its value through it."""
        return {
            "last_id": self.last_id,
            "position": self.position,
            "num_generated": self.num_generated,
            "ended": self.ended,
            "started": self.model_state is not None,
            **asdict(self.sampling),
        }

    @classmethod
    def from_parts(
        cls,
        tensors: Mapping[str, Tensor],
        facts: Mapping[str, object],
        model: LanguageModel,
    ) -> "GenerationState":
        """Return the state that `tensors` and `facts` hold; `RunError` if it is not of `model`."""
        try:
            sampling = SamplingSettings(
                **{name: facts[name] for name in _SAMPLING_NAMES}  # type: ignore[arg-type]
            )
        except KeyError as missing:
            raise _damaged(f"no {missing.args[0]}") from missing
        except SettingError as error:
            raise _damaged(str(error)) from error
        if FORMER_GENERATOR in tensors and "position" not in facts:
            raise RunError(
                "the saved generation is of an earlier version of elman",
                got="the state of a generator of random numbers that is in use no more",
                allowed="a position in the numbers of a seed",
                hint="write the text anew",
            )
        return cls(
            model_state=_model_state(tensors, model) if _flag(facts, "started") else None,
            last_id=_whole(facts, "last_id", below=model.vocabulary_size),
            position=_whole(facts, "position", below=2**63),
            num_generated=_whole(facts, "num_generated", below=2**63),
            ended=_flag(facts, "ended"),
            sampling=sampling,
        )


def reseed(state: GenerationState, seed: int) -> GenerationState:
    """Return `state` at the start of the numbers of another seed."""
    return replace(state, sampling=replace(state.sampling, seed=seed), position=0)


_SAMPLING_NAMES = ("temperature", "top_k", "top_p", "min_p", "seed")


def _model_state(tensors: Mapping[str, Tensor], model: LanguageModel) -> StackState:
    try:
        return model.state_of(tensors)
    except KeyError as missing:
        raise _damaged(f"no {missing.args[0]}") from missing
    except ValueError as error:
        raise _damaged(str(error)) from error


def _whole(facts: Mapping[str, object], name: str, *, below: int) -> int:
    value = facts.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < below:
        raise _damaged(f"{name} {value!r}")
    return value


def _flag(facts: Mapping[str, object], name: str) -> bool:
    value = facts.get(name)
    if not isinstance(value, bool):
        raise _damaged(f"{name} {value!r}")
    return value


def _damaged(got: str) -> RunError:
    return RunError(
        "the saved generation does not fit this model",
        got=got,
        hint="use the run that it was saved with",
    )
