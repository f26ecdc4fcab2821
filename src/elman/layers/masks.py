"""Which positions are real: from lengths to booleans, checked."""

import torch
from torch import Tensor

from elman.errors import ShapeError
from elman.shapes import require_shape


def valid_positions(lengths_B: Tensor, num_steps: int) -> Tensor:
    """Return valid_BT, booleans [B, T]: True at t < lengths_B, T = `num_steps`.

    Raises `ShapeError` unless 0 ≤ lengths_B ≤ T.
    """
    require_shape("lengths_B", lengths_B, (None,))
    if bool(((lengths_B < 0) | (lengths_B > num_steps)).any()):
        raise ShapeError(
            "lengths_B must be within the time axis of the input",
            got=str(lengths_B.tolist()),
            allowed=f"0 to {num_steps}",
        )
    steps_T = torch.arange(num_steps, device=lengths_B.device)
    return steps_T < lengths_B.unsqueeze(1)
