"""What the axis letters mean, and checks that name them.

Names of tensors end in the letters of their axes, batch first: `ids_BT`, `states_BTH`.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from elman.errors import ShapeError

AXES: Mapping[str, str] = MappingProxyType(
    {
        "B": "batch",
        "T": "time",
        "S": "source time",
        "E": "embedding or input features",
        "H": "hidden units",
        "P": "output of a layer: hidden units, or their projection",
        "G": "stacked gates",
        "L": "layers",
        "D": "directions",
        "V": "vocabulary",
        "N": "order, window or a plain count",
        "K": "beam",
    }
)


class HasShape(Protocol):
    """Anything with a `shape`: a torch tensor, a NumPy array."""

    @property
    def shape(self) -> Sequence[int]:
        """The size of each axis."""
        ...


def require_shape(name: str, array: HasShape, expected: Sequence[int | None]) -> None:
    """Raise `ShapeError` unless `array` has the `expected` sizes; None stands for any size.

    The letters after the last underscore of `name` are spelled out in the message.
    """
    shape = tuple(array.shape)
    fits = len(shape) == len(expected) and all(
        want is None or size == want for size, want in zip(shape, expected, strict=True)
    )
    if fits:
        return
    letters = name.rpartition("_")[2]
    axes = ", ".join(AXES.get(letter, letter) for letter in letters)
    want = ", ".join("any" if size is None else str(size) for size in expected)
    raise ShapeError(
        f"{name} must have the axes [{axes}] with sizes [{want}]",
        got=f"[{', '.join(map(str, shape))}]",
        hint="batch comes first, time second: a transposed input does not fit",
    )
