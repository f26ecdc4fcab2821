"""For which cells and shapes torch's recurrence is faster than the native one or the loop."""

import torch
from torch import Tensor

FEW_ROWS = 16
"""oneDNN's LSTM wins by its tiles of many rows; with fewer than these the native one is faster."""

WIDE_TO_READ, WIDE_TO_LEARN = 600, 1000
"""Units from which the native LSTM is faster on FEW_ROWS to MANY_ROWS rows, without and with
gradients: oneDNN then reads its weights anew at every step."""

MANY_ROWS = 64

WIDE_FOR_BFLOAT16 = 400
"""Units from which torch's RNN and GRU in bfloat16 are faster than native float32."""


def why_torch_is_faster(
    key: str, x_BTE: Tensor, hidden_size: int, *, is_ragged: bool = False
) -> str:
    """Return why the native kernel is not the fastest on inputs like x_BTE; "": it is.

    The rule is of `elman bench`: torch's LSTM, which is oneDNN's, runs at the speed of its products
    as the native one does, and wins on rows of full length in between. Rows of different lengths
    are one call here and many for torch. All other cells are slower in torch at every shape there.
    """
    batch_size, num_steps = x_BTE.shape[:2]
    if num_steps == 1:
        return "a single step is no more than a few products"
    if key != "lstm" or is_ragged or batch_size < FEW_ROWS:
        return ""
    wide = WIDE_TO_LEARN if torch.is_grad_enabled() else WIDE_TO_READ
    if batch_size < MANY_ROWS and hidden_size >= wide:
        return ""
    return "oneDNN's LSTM is as fast or faster on this many rows of this width"


def is_loop_faster(key: str, batch_size: int) -> bool:
    """Return whether the readable loop is faster than torch's operator for a single step.

    The operators of the RNN and the GRU are products of the weights as they are. oneDNN's LSTM
    lays its weights out anew at every call, which only many rows pay for.
    """
    return key not in ("elman/tanh", "elman/relu", "gru/after/keep") and batch_size < MANY_ROWS


def is_bfloat16_faster(key: str, hidden_size: int) -> bool:
    """Return whether torch's operator in bfloat16 is faster in training than the native float32.

    oneDNN's LSTM has products in bfloat16 at every width. The other operators cast and copy for
    each call, which only wide layers pay for: below, float32 is both faster and closer.
    """
    return key.startswith("lstm") or hidden_size >= WIDE_FOR_BFLOAT16
