"""Seeded mutants: each of these mistakes must turn the promise named beside it red."""

import pytest
import stack_promises
import torch
from promises import PROMISES
from stack_promises import STACK_PROMISES, StackSubject
from subjects import Subject, why_not_applicable
from torch import Tensor

from elman.cells.elman import ElmanCell
from elman.cells.gru import GRUCell, GRUState
from elman.cells.lstm import LSTMCell, LSTMOptions, LSTMState
from elman.cells.mgu import MGUCell
from elman.cells.min_gru import MinGRUCell
from elman.cells.registry import CELLS
from elman.kernels.dispatch import KernelPlan
from elman.kernels.native_recurrence import NativeKernel
from elman.kernels.scan import SCANS
from elman.kernels.torch_fused import fused_gru
from elman.layers.recurrence import recur
from elman.layers.stack import RecurrentStack


class SwappedGRU(GRUCell):
    """Reset and update change places."""

    def gates(self, x_BE, state, seen_BP=None):
        gates = super().gates(x_BE, state, seen_BP)
        return {**gates, "update": gates["reset"], "reset": gates["update"]}


class SwappedLSTM(LSTMCell):
    """Input and forget change places."""

    def gates(self, x_BE, state, seen_BP=None):
        gates = super().gates(x_BE, state, seen_BP)
        return {**gates, "input": gates["forget"], "forget": gates["input"]}


class OneBiasElman(ElmanCell):
    """The recurrent bias is dropped."""

    def gates(self, x_BE, state, seen_BP=None):
        return {
            "preactivation": super().gates(x_BE, state, seen_BP)["preactivation"] - self.bias_hh
        }


class OneBiasLSTM(LSTMCell):
    """The recurrent bias of every gate is counted twice, the other not at all."""

    def gates(self, x_BE, state, seen_BP=None):
        h_BH, _ = state
        a_BG = x_BE @ self.weight_ih.t() + h_BH @ self.weight_hh.t() + 2 * self.bias_hh
        i, f, g, o = a_BG.chunk(4, dim=1)
        return {
            "input": i.sigmoid(),
            "forget": f.sigmoid(),
            "candidate": g.tanh(),
            "output": o.sigmoid(),
        }


class WrongResetGRU(GRUCell):
    """Says that reset acts after the product and applies it before."""

    def gates(self, x_BE, state, seen_BP=None):
        return self._gates_before(x_BE, state[0])


class WrongUpdateGRU(GRUCell):
    """Says that an open update gate keeps and lets it replace."""

    def step(self, x_BE, state, seen_BP=None):
        gates = self.gates(x_BE, state)
        z_BH, n_BH = gates["update"], gates["candidate"]
        return GRUState(state[0] + z_BH * (n_BH - state[0]))


class LeakyLSTM(LSTMCell):
    """The memory cell hides on the module and finds its way into the next call."""

    hidden: Tensor | None = None

    def step(self, x_BE, state, seen_BP=None):
        h_BH, c_BH = super().step(x_BE, state)
        if self.hidden is not None and self.hidden.shape == c_BH.shape:
            c_BH = c_BH + 0.1 * self.hidden
        self.hidden = c_BH.detach()
        return LSTMState(h_BH, c_BH)


class CutGradientGRU(GRUCell):
    """The state is detached between steps: right values, wrong gradients."""

    def step(self, x_BE, state, seen_BP=None):
        return super().step(x_BE, GRUState(state[0].detach()))


class AlikeGatesLSTM(LSTMCell):
    """Coupled gates are the same instead of adding up to one."""

    def gates(self, x_BE, state, seen_BP=None):
        gates = super().gates(x_BE, state, seen_BP)
        return {**gates, "input": gates["forget"]}


class BlindMGU(MGUCell):
    """The candidate sees the whole state instead of what the gate lets through."""

    def gates(self, x_BE, state, seen_BP=None):
        gates = super().gates(x_BE, state, seen_BP)
        weight_n = self.weight_hh.chunk(2)[1]
        added_BH = (state[0] - gates["forget"] * state[0]) @ weight_n.t()
        return {**gates, "candidate": (gates["candidate"].atanh() + added_BH).tanh()}


class ForgetfulScanPlan(KernelPlan):
    """A scan that leaves the first state out."""

    def find(self, key, x_BTE, *, needs_loop=""):
        def forgetful(x_BTE, state, weights):
            return SCANS[key](x_BTE, tuple(part * 0 for part in state), weights)

        return forgetful


def recur_to_the_padded_end(cell, x_BTE, state, lengths_B, *, plan, direction="forward"):
    """The state after all T steps is taken as final, whatever the lengths; outputs are masked."""
    clean_BTE = torch.nan_to_num(x_BTE)
    states_BTH, last = recur(cell, clean_BTE, state, None, plan=plan, direction=direction)
    if lengths_B is not None:
        valid_BT = torch.arange(x_BTE.shape[1]) < lengths_B.unsqueeze(1)
        states_BTH = torch.where(valid_BT.unsqueeze(2), states_BTH, 0.0)
    return states_BTH, last


def recur_backward_from_the_padded_end(cell, x_BTE, state, lengths_B, *, plan, direction="forward"):
    """A backward reader starts at T instead of at each row's own last step."""
    if direction == "forward":
        return recur(cell, x_BTE, state, lengths_B, plan=plan)
    x_BTE = torch.nan_to_num(x_BTE)
    states_BTH, last = recur(cell, x_BTE.flip(1), state, None, plan=plan)
    return states_BTH.flip(1), last


def recur_with_ones(cell, x_BTE, state, lengths_B, *, plan, direction="forward"):
    """No state is taken as ones instead of zeros."""
    if state is None:
        state = cell.pack_state(
            [part + 1 for part in cell.zero_state(x_BTE.shape[0], dtype=x_BTE.dtype)]
        )
    return recur(cell, x_BTE, state, lengths_B, plan=plan, direction=direction)


def recur_with_noise(cell, x_BTE, state, lengths_B, *, plan, direction="forward"):
    """Noise from the global generator is always on."""
    noisy_BTE = x_BTE + 0.01 * torch.randn_like(x_BTE)
    return recur(cell, noisy_BTE, state, lengths_B, plan=plan, direction=direction)


def recur_with_neighbours(cell, x_BTE, state, lengths_B, *, plan, direction="forward"):
    """Inputs are centred over the batch, so that a row depends on its neighbours."""
    centred_BTE = x_BTE - 0.01 * x_BTE.nanmean(dim=0, keepdim=True)
    return recur(cell, centred_BTE, state, lengths_B, plan=plan, direction=direction)


class SwappedKernelPlan(KernelPlan):
    """A fast path that reads the rows of r and z in the wrong order."""

    def find(self, key, x_BTE, *, needs_loop=""):
        def swapped(x_BTE, state, weights):
            chunks = [weight.chunk(3) for weight in weights]
            return fused_gru(x_BTE, state, tuple(torch.cat([z, r, n]) for r, z, n in chunks))

        return swapped


class NativeMutantPlan(KernelPlan):
    """Native kernels, each of whose runs is spoiled by `spoil`."""

    def find_native(self, key, x_BTE, hidden_size, *, is_ragged=False, needs_loop=""):
        kernel = NativeKernel(key, self.level)

        def spoiled(*arguments):
            return self.spoil(kernel, *arguments)

        return spoiled


class SwappedNativePlan(NativeMutantPlan):
    """A native kernel that reads the rows of the first two gates in the wrong order."""

    def spoil(self, kernel, x_BTE, state, weights, lengths_B, direction):
        swapped = []
        for weight in weights:
            first, second, *rest = weight.split(weights[1].shape[1])
            swapped.append(torch.cat([second, first, *rest]))
        return kernel(x_BTE, state, tuple(swapped), lengths_B, direction)


class ForwardNativePlan(NativeMutantPlan):
    """A native kernel that always reads forward."""

    def spoil(self, kernel, x_BTE, state, weights, lengths_B, direction):
        return kernel(x_BTE, state, weights, lengths_B, "forward")


class PaddedNativePlan(NativeMutantPlan):
    """A native kernel that runs on over the padding and masks the outputs alone."""

    def spoil(self, kernel, x_BTE, state, weights, lengths_B, direction):
        clean_BTE = torch.nan_to_num(x_BTE)
        states_BTH, last = kernel(clean_BTE, state, weights, None, direction)
        if lengths_B is not None:
            valid_BT = torch.arange(x_BTE.shape[1]) < lengths_B.unsqueeze(1)
            states_BTH = torch.where(valid_BT.unsqueeze(2), states_BTH, 0.0)
        return states_BTH, last


class FrozenNativePlan(NativeMutantPlan):
    """A native kernel that hands no gradient on to the first state."""

    def spoil(self, kernel, x_BTE, state, weights, lengths_B, direction):
        state = tuple(part.detach() for part in state)
        return kernel(x_BTE, state, weights, lengths_B, direction)


GRU, LSTM = "gru/after/keep", "lstm"
LOOP = "equals_the_readable_loop_with_gradients"
EQUALS, PADDING = "equals_numpy_in_both_directions", "padding_is_invisible"
CELL_MUTANTS: dict[str, tuple[Subject, str]] = {
    "gru gates swapped": (Subject(GRU, "reference", SwappedGRU), EQUALS),
    "lstm gates swapped": (Subject(LSTM, "reference", SwappedLSTM), EQUALS),
    "elman bias dropped": (Subject("elman/tanh", "reference", OneBiasElman), EQUALS),
    "lstm bias doubled": (Subject(LSTM, "reference", OneBiasLSTM), EQUALS),
    "gru reset moved": (Subject(GRU, "reference", WrongResetGRU), EQUALS),
    "gru update turned": (Subject(GRU, "reference", WrongUpdateGRU), EQUALS),
    "kernel rows swapped": (Subject(GRU, "torch", GRUCell, plan=SwappedKernelPlan), EQUALS),
    "native rows swapped": (Subject(GRU, "native", GRUCell, plan=SwappedNativePlan), EQUALS),
    "native rows swapped, lstm": (
        Subject(LSTM, "native", LSTMCell, plan=SwappedNativePlan),
        LOOP,
    ),
    "native direction lost": (Subject(LSTM, "native", LSTMCell, plan=ForwardNativePlan), EQUALS),
    "native padding run": (Subject(GRU, "native", GRUCell, plan=PaddedNativePlan), PADDING),
    "native gradient cut": (Subject(GRU, "native", GRUCell, plan=FrozenNativePlan), LOOP),
    "coupled gates alike": (
        Subject(
            "lstm+coupled",
            "reference",
            lambda E, H: AlikeGatesLSTM(E, H, options=LSTMOptions(coupled=True)),
        ),
        EQUALS,
    ),
    "mgu candidate sees all": (Subject("mgu", "reference", BlindMGU), EQUALS),
    "scan forgets the state": (
        Subject("mingru", "torch", MinGRUCell, plan=ForgetfulScanPlan),
        EQUALS,
    ),
    "state hidden on the module": (Subject(LSTM, "reference", LeakyLSTM), "state_is_a_value"),
    "gradient cut": (Subject(GRU, "reference", CutGradientGRU), "equals_torch_nn_with_gradients"),
    "none is ones": (
        Subject(LSTM, "torch", LSTMCell, recur_with_ones),
        "none_state_is_zeros_bit_for_bit",
    ),
    "global noise": (
        Subject(LSTM, "torch", LSTMCell, recur_with_noise),
        "same_seed_gives_the_same_bits",
    ),
    "batch neighbours": (
        Subject(LSTM, "torch", LSTMCell, recur_with_neighbours),
        "batch_order_and_size_change_nothing",
    ),
    "padded state final": (Subject(LSTM, "torch", LSTMCell, recur_to_the_padded_end), PADDING),
    "padded state final, twin": (
        Subject(GRU, "reference", GRUCell, recur_to_the_padded_end),
        PADDING,
    ),
    "backward from padding": (
        Subject(LSTM, "torch", LSTMCell, recur_backward_from_the_padded_end),
        PADDING,
    ),
}


def skip_where_not_applicable(subject: Subject) -> None:
    reason = why_not_applicable(subject.key, subject.path)
    if reason:
        pytest.skip(f"not applicable, because {reason}")


@pytest.mark.parametrize("mutant", CELL_MUTANTS)
def test_mutant_of_a_cell_is_caught(mutant: str) -> None:
    subject, promise = CELL_MUTANTS[mutant]
    skip_where_not_applicable(subject)
    with pytest.raises(AssertionError):
        PROMISES[promise](subject)


@pytest.mark.parametrize("mutant", CELL_MUTANTS)
def test_what_catches_a_mutant_lets_the_original_pass(mutant: str) -> None:
    subject, promise = CELL_MUTANTS[mutant]
    skip_where_not_applicable(subject)
    PROMISES[promise](Subject(subject.key, subject.path, CELLS[subject.key]))


class TurnedStack(RecurrentStack):
    """The backward half comes first."""

    def all_layers(self, x_BTE, state, lengths_B, *, plan, generator=None):
        layers, after = super().all_layers(x_BTE, state, lengths_B, plan=plan, generator=generator)
        return [torch.cat(layer.chunk(2, dim=2)[::-1], dim=2) for layer in layers], after


class LeakyNormStack(RecurrentStack):
    """Normalised outputs at padding are the shift instead of 0."""

    def joined(self, layer, read_BTE, written_BTH, lengths_B):
        return super().joined(layer, read_BTE, written_BTH, None)


@pytest.mark.parametrize(
    ("mutant", "directions", "options", "promise"),
    [
        (TurnedStack, 2, "plain", "equals_numpy_layer_by_layer"),
        (LeakyNormStack, 1, "residual, layer norm", "padding_is_invisible"),
    ],
)
def test_mutant_of_layers_is_caught(mutant, directions, options, promise, monkeypatch) -> None:
    monkeypatch.setattr(stack_promises, "RecurrentStack", mutant)
    with pytest.raises(AssertionError):
        STACK_PROMISES[promise](StackSubject("lstm", directions, 3, options))
