"""Everything a run needs to go on to the same bits, as tensors and as facts that JSON can hold."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar, cast

import torch
from torch import Tensor, nn

from elman.errors import RunError
from elman.models.language import fits_state
from elman.training.plain_sgd import Optimiser, PlainSGD
from elman.training.saved_facts import unfit_state

State = TypeVar("State")

STATE_FORMAT = 2


@dataclass(frozen=True)
class TrainerState:
    """A moment of a run between two updates.

    tensors: `model.*` weights and buffers, `optimiser.*` moments, `average.*`, `carried.*`
    recurrent state, `generator.dropout`; all of them copies. facts: counters, position in the data,
    smoothed loss, validations; numbers, texts, lists and nulls only, and every float survives JSON
    exactly.
    """

    tensors: dict[str, Tensor]
    facts: dict[str, object]


def state_leaves(state: object) -> list[Tensor]:
    """Return the tensors of nested tuples, in order; None has none."""
    if isinstance(state, Tensor):
        return [state]
    if isinstance(state, tuple):
        return [leaf for part in state for leaf in state_leaves(part)]
    return []


def with_leaves(template: State, leaves: Iterator[Tensor]) -> State:
    """Return a state of the structure of `template`, its tensors taken from `leaves` in order."""
    if isinstance(template, Tensor):
        leaf = next(leaves, None)
        if leaf is None or not fits_state(leaf, template):
            raise RunError(
                "the saved recurrent state does not fit the model",
                got="nothing" if leaf is None else str(list(leaf.shape)),
                allowed=str(list(template.shape)),
            )
        return cast(State, leaf.to(template.device, copy=True))
    if not isinstance(template, tuple):
        raise TypeError(f"a state is made of tensors and tuples; got {type(template).__name__}")
    parts = [with_leaves(part, leaves) for part in template]
    made = type(template)(*parts) if hasattr(template, "_fields") else type(template)(parts)
    return cast(State, made)


def take_prefix(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose names begin with `prefix`, under the rest of their names."""
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }


def number_to_json(value: float) -> float | str:
    """Return `value`, or its name where JSON has no number for it: nan, inf, -inf."""
    return value if math.isfinite(value) else str(value)


def kept_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Return the tensors that a model is restored from: parameters, tied ones once, and buffers."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def copy_into_model(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copy saved weights into `model`; `RunError` unless names and sizes are the same."""
    own = kept_tensors(model)
    if own.keys() != tensors.keys():
        odd = sorted(own.keys() ^ tensors.keys())
        raise RunError(f"the saved weights do not fit the model: {odd[0]} is on one side only")
    for name, parameter in own.items():
        if parameter.shape != tensors[name].shape:
            raise RunError(
                f"the saved weight {name} does not fit the model",
                got=str(list(tensors[name].shape)),
                allowed=str(list(parameter.shape)),
            )
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(tensors[name])


def optimiser_tensors(model: nn.Module, optimiser: Optimiser) -> dict[str, Tensor]:
    """Return copies of what `optimiser` remembers, named PARAMETER.KEY."""
    return {
        f"{name}.{key}": value.clone()
        for name, parameter in model.named_parameters()
        for key, value in optimiser.state.get(parameter, {}).items()
        if isinstance(value, Tensor)
    }


def restore_optimiser(
    model: nn.Module, optimiser: Optimiser, tensors: Mapping[str, Tensor]
) -> None:
    """Let `optimiser` remember exactly what `tensors`, named PARAMETER.KEY, say."""
    own = dict(model.named_parameters())
    optimiser.state.clear()
    for name, tensor in tensors.items():
        place, _, key = name.rpartition(".")
        if place not in own:
            raise RunError(f"the saved optimiser state names {place}, which the model has not")
        parameter = own[place]
        of_number = key == "step" and tensor.shape == () and tensor.dtype == torch.float32
        if not of_number and (tensor.shape, tensor.dtype) != (parameter.shape, parameter.dtype):
            raise unfit_state(f"optimiser.{name} of {tensor.dtype} {list(tensor.shape)}")
        optimiser.state[parameter][key] = tensor.to(parameter.device, copy=True)
    names = {parameter: name for name, parameter in own.items()}
    for group in optimiser.param_groups:
        wanted = _remembered(optimiser, group)
        for parameter in group["params"]:
            found = optimiser.state.get(parameter, {}).keys()
            if found and found != wanted:
                raise unfit_state(f"{', '.join(sorted(found))} of {names[parameter]}")


def _remembered(optimiser: Optimiser, group: Mapping[str, object]) -> set[str]:
    """Return what `optimiser` remembers of each parameter of a group, once it has stepped."""
    if isinstance(optimiser, PlainSGD):
        return set()
    if group.get("block_rows"):
        return {"momentum"}
    if "momentum" in group:
        return {"momentum_buffer"}
    return {"step", "exp_avg", "exp_avg_sq"}


def carried_leaves(tensors: Mapping[str, Tensor]) -> list[Tensor]:
    """Return the leaves of the recurrent state that was carried, in order; none where none was."""
    carried = take_prefix(tensors, "carried.")
    leaves = [carried.get(str(place)) for place in range(len(carried))]
    whole = [leaf for leaf in leaves if leaf is not None and leaf.ndim]
    if len(whole) != len(leaves):
        raise unfit_state(f"carried states {', '.join(sorted(carried))}")
    return whole


def restore_generator(generator: torch.Generator, state: Tensor | None) -> None:
    """Let `generator` go on from a saved state of one."""
    try:
        if state is None:
            raise unfit_state("no generator.dropout")
        generator.set_state(state)
    except (TypeError, RuntimeError) as error:
        raise unfit_state(f"generator.dropout: {error}") from None
