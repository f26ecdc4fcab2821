"""A model and its file of ONNX on the same inputs, the one here, the other through onnxruntime."""

from pathlib import Path
from typing import Any

import torch

from elman.checkpoints.foreign.onnx_graph import names_of_states, onnx_package
from elman.checkpoints.foreign.onnx_nodes import Array
from elman.checkpoints.foreign.proof import Proof, prove
from elman.errors import ConversionError
from elman.kernels.dispatch import KernelPlan
from elman.layers.stack import RecurrentStack, StackState
from elman.models.recurrent import RecurrentLanguageModel

_PROVED_SHAPES = ((1, 1), (3, 7), (4, 33))
_PROOF_SEED = 1


def prove_onnx(model: RecurrentStack | RecurrentLanguageModel, path: Path) -> Proof:
    """Return how far `model` and the file at `path`, run by onnxruntime, are apart.

    Compared are the outputs and the final state of every layer, for (B, T) = (1, 1), (3, 7) and
    (4, 33), rows of different lengths, one of no steps among them, and random initial states; on
    one thread of the CPU. Raises `ConversionError` where they differ (`prove`).
    """
    version, session = _session(path)
    names = [output.name for output in session.get_outputs()]
    generator = torch.Generator().manual_seed(_PROOF_SEED)
    ours: dict[str, Array] = {}
    theirs: dict[str, Array] = {}
    for rows, steps in _PROVED_SHAPES:
        given, results = _run_here(model, rows, steps, generator)
        try:
            found = session.run(names, given)
        except Exception as error:  # onnxruntime has classes of its own
            raise _cannot_run(path, error) from None
        ours |= {f"{name} of {rows} x {steps}": value for name, value in results.items()}
        theirs |= {
            f"{name} of {rows} x {steps}": value for name, value in zip(names, found, strict=True)
        }
    return prove(f"outputs and final states in onnxruntime {version}", ours, theirs)


def _session(path: Path) -> tuple[str, Any]:
    """Return the version of onnxruntime and its session of the file at `path`."""
    runtime = onnx_package("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors alone
    try:
        session = runtime.InferenceSession(
            str(path), sess_options=options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # onnxruntime has classes of its own
        raise _cannot_run(path, error) from None
    return str(runtime.__version__), session


def _cannot_run(path: Path, error: Exception) -> ConversionError:
    return ConversionError(
        f"onnxruntime cannot run {path} on the inputs of this model",
        got=str(error).split("\n")[0],
    )


def _run_here(
    model: RecurrentStack | RecurrentLanguageModel,
    rows: int,
    steps: int,
    generator: torch.Generator,
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return the inputs of the file, drawn at random, and what `model` makes of them."""
    stack = model if isinstance(model, RecurrentStack) else model.stack
    weight = stack.cell(0).weight_ih
    lengths_B = torch.tensor([steps, 0, (steps + 1) // 2, max(1, steps - 1)][:rows])
    state: StackState = tuple(
        cell.pack_state([torch.randn(rows, size, generator=generator) for size in cell.state_sizes])
        for cell in (stack.cell(place) for place in range(len(stack.cells)))
    )
    given = {"sequence_lens": lengths_B.int().numpy(), **_flat(stack, state, "initial")}
    there = tuple(
        stack.cell(place).pack_state([part.to(weight.device) for part in parts])
        for place, parts in enumerate(state)
    )
    there_B = lengths_B.to(weight.device)
    with torch.no_grad():
        if isinstance(model, RecurrentStack):
            x_BTE = torch.randn(rows, steps, stack.input_size, generator=generator)
            given["x"], name = x_BTE.numpy(), "states"
            result, after = model(x_BTE.to(weight), there, there_B, plan=KernelPlan())
        else:
            vocabulary = model.vocabulary_size
            ids_BT = torch.randint(vocabulary, (rows, steps), generator=generator)
            given["ids"], name = ids_BT.numpy(), "logits"
            output = model(ids_BT.to(weight.device), there, there_B, plan=KernelPlan())
            result, after = output.readout.logits(output.states_BTH), output.state
    return given, {name: result.cpu().numpy(), **_flat(stack, after, "final")}


def _flat(stack: RecurrentStack, state: StackState, prefix: str) -> dict[str, Array]:
    """Return the parts of `state` under the names of the file, [D, B, H] for each layer."""
    flat: dict[str, Array] = {}
    for layer, parts in enumerate(names_of_states(stack)):
        first = layer * stack.num_directions
        for place, name in enumerate(parts):
            row = state[first : first + stack.num_directions]
            flat[f"{prefix}_{name}"] = torch.stack([cell[place] for cell in row]).cpu().numpy()
    return flat
