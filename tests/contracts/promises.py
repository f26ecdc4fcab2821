"""The promises every cell keeps on every path: functions of a `Subject` that raise when broken."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from independent import ROWS
from subjects import (
    SIZES,
    Subject,
    assert_close,
    gradients_of,
    normal,
    random_state,
)
from torch import nn

from elman.kernels.scan import SCANS

DIRECTIONS = ("forward", "backward")
LENGTHS = torch.tensor([4, 0, 7, 1, 4, 6])
FUZZED_SIZES = ((1, 1, 2, 17), (1, 9, 3, 5), (7, 1, 5, 33), (13, 6, 4, 16), (26, 4, 9, 49))
"""(B, T, E, H) about the edges of tiles and vectors: one row, one step, odd and even sizes."""
LOOP = Subject("any", "reference", lambda *_: None)


def none_state_is_zeros_bit_for_bit(subject: Subject) -> None:
    for batch_size, num_steps, input_size, hidden_size in SIZES:
        for dtype in subject.tolerances:
            cell = subject.cell(input_size, hidden_size, seed=1, dtype=dtype)
            x_BTE = normal(batch_size, num_steps, input_size, seed=2, dtype=dtype)
            zeros = cell.pack_state(
                [torch.zeros(batch_size, size, dtype=dtype) for size in cell.state_sizes]
            )
            none_BTH, none_state = subject.run(cell, x_BTE, None)
            zero_BTH, zero_state = subject.run(cell, x_BTE, zeros)
            assert torch.equal(none_BTH, zero_BTH)
            for got, want in zip(none_state, zero_state, strict=True):
                assert torch.equal(got, want)


def equals_numpy_in_both_directions(subject: Subject) -> None:
    equations = subject.key.split(",")[0]
    assert equations in ROWS, f"{equations} needs an independent reference in ROWS"
    for batch_size, num_steps, input_size, hidden_size in SIZES:
        cell = subject.cell(input_size, hidden_size, seed=3)
        x_BTE = subject.normal(batch_size, num_steps, input_size, seed=4)
        first = random_state(cell, batch_size, seed=5)
        lengths = [max(num_steps - row, 0) for row in range(batch_size)]
        weights = {n: weight.detach().double().numpy() for n, weight in cell.named_parameters()}
        for direction in DIRECTIONS:
            states_BTH, last = subject.run(cell, x_BTE, first, torch.tensor(lengths), direction)
            turn = slice(None, None, 1 if direction == "forward" else -1)
            for row, length in enumerate(lengths):
                if length == 0:
                    continue
                begin = tuple(part[row].double().numpy() for part in first)
                x_TE = x_BTE[row, :length].double().numpy()[turn]
                want_TH, want = ROWS[equations](x_TE, begin, weights)
                got_TH = states_BTH[row, :length]
                want_TH = torch.from_numpy(want_TH[turn].copy())
                assert_close(got_TH, want_TH, subject.parity, f"{direction} outputs of row {row}")
                for name, got_H, want_H in zip(cell.state_names, last, want, strict=True):
                    assert_close(
                        got_H[row], torch.from_numpy(want_H), subject.parity, f"final {name}"
                    )


TORCH_TWINS: Mapping[str, Callable[[int, int], nn.RNNBase]] = MappingProxyType(
    {
        "elman/tanh": lambda E, H: nn.RNN(E, H, nonlinearity="tanh", batch_first=True),
        "elman/relu": lambda E, H: nn.RNN(E, H, nonlinearity="relu", batch_first=True),
        "gru/after/keep": lambda E, H: nn.GRU(E, H, batch_first=True),
        "lstm": lambda E, H: nn.LSTM(E, H, batch_first=True),
        "lstm, no bias": lambda E, H: nn.LSTM(E, H, bias=False, batch_first=True),
        "lstm+projection": lambda E, H: nn.LSTM(E, H, proj_size=(H + 1) // 2, batch_first=True),
    }
)


def equals_torch_nn_with_gradients(subject: Subject) -> None:
    for batch_size, num_steps, input_size, hidden_size in SIZES:
        cell = subject.cell(input_size, hidden_size, seed=6)
        if "projection" in cell.key and cell.output_size == hidden_size:
            continue  # torch allows no projection to the full width
        twin = TORCH_TWINS[subject.key](input_size, hidden_size).double()
        with torch.no_grad():
            for got, want in zip(twin.parameters(), cell.weights, strict=True):
                got.copy_(want)
        x_BTE = subject.normal(batch_size, num_steps, input_size, seed=7).requires_grad_()
        first = [part.requires_grad_() for part in random_state(cell, batch_size, seed=8)]
        pull_BTH = subject.normal(batch_size, num_steps, cell.output_size, seed=9)
        states_BTH, last = subject.run(cell, x_BTE, cell.pack_state(first))
        leaves = [part.double() for part in (x_BTE, *first)]
        hx = tuple(part.unsqueeze(0) for part in leaves[1:])
        want_BTH, want_last = twin(leaves[0], hx if len(hx) > 1 else hx[0])
        want_parts = want_last if isinstance(want_last, tuple) else (want_last,)
        assert_close(states_BTH, want_BTH, subject.parity, "outputs")
        got_total, want_total = (states_BTH * pull_BTH).sum(), (want_BTH * pull_BTH).sum()
        for got, want in zip(last, want_parts, strict=True):
            assert_close(got, want.squeeze(0), subject.parity, "final state")
            got_total, want_total = got_total + got.sin().sum(), want_total + want.sin().sum()
        got_all = gradients_of(subject, cell, got_total, [x_BTE, *first])
        want_all = torch.autograd.grad(want_total, [*leaves, *twin.parameters()])
        for place, (got, want) in enumerate(zip(got_all, want_all, strict=True)):
            assert_close(got, want, subject.parity, f"gradient {place}")


def equals_the_readable_loop_with_gradients(subject: Subject) -> None:
    """In both directions, on full and on ragged rows; the loop in float64."""
    for place, (batch_size, num_steps, input_size, hidden_size) in enumerate(FUZZED_SIZES):
        generator = torch.Generator().manual_seed(100 + place)
        cell = subject.build(input_size, hidden_size)
        cell.initialise(generator)  # of this size a recurrence does not enlarge roundings
        cell.to(subject.dtype)
        x_BTE = subject.normal(batch_size, num_steps, input_size, seed=place)
        first = random_state(cell, batch_size, seed=50 + place)
        pull_BTH = subject.normal(batch_size, num_steps, cell.output_size, seed=90 + place)
        ragged_B = torch.randint(0, num_steps + 1, (batch_size,), generator=generator)
        for lengths_B in (None, ragged_B):
            for direction in DIRECTIONS:
                found = []
                for path, dtype in ((subject, subject.dtype), (LOOP, torch.float64)):
                    cell.to(dtype)
                    leaves = [part.to(dtype).requires_grad_() for part in (x_BTE, *first)]
                    begin = cell.pack_state(leaves[1:])
                    states_BTH, last = path.run(cell, leaves[0], begin, lengths_B, direction)
                    total = (states_BTH * pull_BTH).sum() + sum(part.sin().sum() for part in last)
                    found.append([states_BTH, *last, *gradients_of(path, cell, total, leaves)])
                    cell.to(subject.dtype)
                for got, want in zip(*found, strict=True):
                    size = want.abs().max().item() if want.numel() else 0.0
                    assert_close(got, want, subject.parity * max(1.0, size), f"{direction}")


FINITE_DIFFERENCES = (
    "gradients_are_those_of_finite_differences",
    "second_derivatives_are_those_of_finite_differences",
)


def _run_of(subject: Subject):
    """A function of input, state and weights, ragged rows among them, and where to ask it."""
    cell = subject.cell(2, 3, seed=10)
    x_BTE = subject.normal(3, 4, 2, seed=11).requires_grad_()
    first = [part.requires_grad_() for part in random_state(cell, 3, seed=12)]
    lengths_B = torch.tensor([2, 4, 0])
    names = [name for name, _ in cell.named_parameters()]

    def run(x_BTE, *rest):
        state, weights = rest[: len(first)], rest[len(first) :]
        twin = cell.with_weights(dict(zip(names, weights, strict=True)))
        states_BTH, last = subject.run(twin, x_BTE, cell.pack_state(state), lengths_B)
        return (states_BTH, *last)

    weights = [weight.detach().clone().requires_grad_() for weight in cell.weights]
    return run, (x_BTE, *first, *weights)


def gradients_are_those_of_finite_differences(subject: Subject) -> None:
    run, inputs = _run_of(subject)
    # eps 1e-6 leaves an error of about 1e-9 in central differences of float64.
    assert torch.autograd.gradcheck(run, inputs, eps=1e-6, atol=1e-6)


def second_derivatives_are_those_of_finite_differences(subject: Subject) -> None:
    run, inputs = _run_of(subject)
    assert torch.autograd.gradgradcheck(run, inputs, eps=1e-6, atol=1e-5)


def two_chunks_are_the_whole_with_gradients(subject: Subject) -> None:
    cell = subject.cell(3, 5, seed=13)
    x_BTE = subject.normal(6, 7, 3, seed=14).requires_grad_()
    pull_BTH = subject.normal(6, 7, cell.output_size, seed=15)
    for lengths_B in (None, LENGTHS):
        whole_BTH, whole = subject.run(cell, x_BTE, None, lengths_B)
        whole_total = (whole_BTH * pull_BTH).sum() + sum(part.sin().sum() for part in whole)
        whole_grads = gradients_of(subject, cell, whole_total, [x_BTE])
        for cut in (1, 3, 6):
            early = late = None
            if lengths_B is not None:
                early, late = lengths_B.clamp(max=cut), (lengths_B - cut).clamp(min=0)
            first_BTH, state = subject.run(cell, x_BTE[:, :cut], None, early)
            second_BTH, last = subject.run(cell, x_BTE[:, cut:], state, late)
            both_BTH = torch.cat([first_BTH, second_BTH], dim=1)
            total = (both_BTH * pull_BTH).sum() + sum(part.sin().sum() for part in last)
            assert_close(both_BTH, whole_BTH, subject.exact, f"outputs cut at {cut}")
            for got, want in zip(last, whole, strict=True):
                assert_close(got, want, subject.exact, f"final state cut at {cut}")
            for got, want in zip(
                gradients_of(subject, cell, total, [x_BTE]), whole_grads, strict=True
            ):
                assert_close(got, want, subject.exact_gradient, f"gradients cut at {cut}")


def padding_is_invisible(subject: Subject) -> None:
    """Forward, backward and in the final state: rows alone are rows in a batch padded with NaN."""
    cell = subject.cell(3, 5, seed=16)
    clean_BTE, pull_BTH = (
        subject.normal(6, 7, 3, seed=17),
        subject.normal(6, 7, cell.output_size, seed=18),
    )
    pad_BT = torch.arange(7) >= LENGTHS.unsqueeze(1)
    x_BTE = clean_BTE.masked_fill(pad_BT.unsqueeze(2), torch.nan).requires_grad_()
    first = random_state(cell, 6, seed=19)
    for direction in DIRECTIONS:
        states_BTH, last = subject.run(cell, x_BTE, first, LENGTHS, direction)
        assert states_BTH[pad_BT].eq(0).all(), "outputs at padding must be exactly 0"
        total = (states_BTH * pull_BTH).sum() + sum(part.sin().sum() for part in last)
        x_grad_BTE, *weight_grads = gradients_of(subject, cell, total, [x_BTE])
        assert x_grad_BTE[pad_BT].eq(0).all(), "gradients at padding must be exactly 0"
        sums = [torch.zeros_like(weight) for weight in cell.weights]
        for row, length in enumerate(LENGTHS.tolist()):
            begin = cell.pack_state([part[row : row + 1] for part in first])
            if length == 0:
                for got, want in zip(last, begin, strict=True):
                    assert torch.equal(got[row : row + 1], want), "an empty row keeps its state"
                continue
            alone_BTE = clean_BTE[row : row + 1, :length].requires_grad_()
            alone_BTH, alone = subject.run(cell, alone_BTE, begin, None, direction)
            assert_close(states_BTH[row : row + 1, :length], alone_BTH, subject.exact, "outputs")
            for got, want in zip(last, alone, strict=True):
                assert_close(got[row : row + 1], want, subject.exact, "final state")
            alone_total = (alone_BTH * pull_BTH[row : row + 1, :length]).sum()
            alone_total = alone_total + sum(part.sin().sum() for part in alone)
            grad_BTE, *grads = gradients_of(subject, cell, alone_total, [alone_BTE])
            assert_close(
                x_grad_BTE[row : row + 1, :length],
                grad_BTE,
                subject.exact_gradient,
                "input gradient",
            )
            sums = [left + right for left, right in zip(sums, grads, strict=True)]
        for got, want in zip(weight_grads, sums, strict=True):
            assert_close(
                got, want, subject.exact_gradient, "weight gradients are the sum over rows"
            )


def batch_order_and_size_change_nothing(subject: Subject) -> None:
    order = torch.tensor([3, 5, 0, 4, 1, 2])
    for dtype, tolerance in subject.tolerances.items():
        cell = subject.cell(3, 5, seed=20, dtype=dtype)
        x_BTE, first = normal(6, 7, 3, seed=21, dtype=dtype), random_state(cell, 6, seed=22)
        for lengths_B in (torch.full((6,), 7), LENGTHS):
            states_BTH, last = subject.run(cell, x_BTE, first, lengths_B)
            for rows in (order, order[:2], order[:1]):
                some = cell.pack_state([part[rows] for part in first])
                got_BTH, got_last = subject.run(cell, x_BTE[rows], some, lengths_B[rows])
                assert_close(got_BTH, states_BTH[rows], tolerance, f"outputs of rows {rows}")
                for got, want in zip(got_last, last, strict=True):
                    assert_close(got, want[rows], tolerance, f"final state of rows {rows}")


def same_seed_gives_the_same_bits(subject: Subject) -> None:
    def once(ambient_seed: int):
        torch.manual_seed(ambient_seed)  # whatever the global generator holds must not matter
        before = torch.get_rng_state()
        cell = subject.build(3, 5)
        cell.initialise(torch.Generator().manual_seed(23))
        x_BTE = normal(6, 7, 3, seed=24, dtype=torch.float32).requires_grad_()
        states_BTH, last = subject.run(cell, x_BTE, None, LENGTHS)
        grads = gradients_of(subject, cell, states_BTH.sum(), [x_BTE])
        assert torch.equal(before, torch.get_rng_state()), "the global generator was used"
        return [states_BTH, *last, *grads, *cell.weights]

    for got, want in zip(once(1), once(2), strict=True):
        assert torch.equal(got, want)


def state_is_a_value(subject: Subject) -> None:
    """Running hides nothing on the cell and writes into nothing it was given."""
    cell = subject.cell(3, 5, seed=25)
    x_BTE, first = subject.normal(4, 6, 3, seed=26), random_state(cell, 4, seed=27)
    x_copy, first_copy = x_BTE.clone(), [part.clone() for part in first]
    once_BTH, once = subject.run(cell, x_BTE, first)
    subject.run(cell, subject.normal(4, 6, 3, seed=28), None)
    twice_BTH, twice = subject.run(cell, x_BTE, first)
    assert torch.equal(once_BTH, twice_BTH)
    for got, want in zip(once, twice, strict=True):
        assert torch.equal(got, want)
    assert torch.equal(x_BTE, x_copy)
    for got, want in zip(first, first_copy, strict=True):
        assert torch.equal(got, want)
    assert not list(cell.buffers())
    assert type(once) is type(first), "the state that comes out is of the type that goes in"


def threads_change_nothing_beyond_the_tolerance(subject: Subject) -> None:
    threads = torch.get_num_threads()
    try:
        for dtype, tolerance in subject.tolerances.items():
            # Weights of the initial size: with larger ones the recurrence itself, chaotic then,
            # would multiply roundings by orders of magnitude over five steps.
            cell = subject.build(17, 33)
            cell.initialise(torch.Generator().manual_seed(29))
            cell.to(dtype)
            x_BTE = normal(19, 5, 17, seed=30, dtype=dtype)
            torch.set_num_threads(1)
            want_BTH, _ = subject.run(cell, x_BTE, None)
            for number in (2, 3, 8):
                torch.set_num_threads(number)
                got_BTH, _ = subject.run(cell, x_BTE, None)
                assert_close(got_BTH, want_BTH, tolerance, f"outputs on {number} threads")
    finally:
        torch.set_num_threads(threads)


PROMISES: Mapping[str, Callable[[Subject], None]] = MappingProxyType(
    {
        promise.__name__: promise
        for promise in (
            none_state_is_zeros_bit_for_bit,
            equals_numpy_in_both_directions,
            equals_torch_nn_with_gradients,
            equals_the_readable_loop_with_gradients,
            gradients_are_those_of_finite_differences,
            second_derivatives_are_those_of_finite_differences,
            two_chunks_are_the_whole_with_gradients,
            padding_is_invisible,
            batch_order_and_size_change_nothing,
            same_seed_gives_the_same_bits,
            state_is_a_value,
            threads_change_nothing_beyond_the_tolerance,
        )
    }
)


def why_promise_not_applicable(promise: str, key: str, path: str) -> str | None:
    if path == "native" and promise in FINITE_DIFFERENCES:
        return "native kernels take float32, in which finite differences are noise"
    if promise == "equals_the_readable_loop_with_gradients" and path == "reference":
        return "this is the readable loop"
    second = promise == "second_derivatives_are_those_of_finite_differences"
    if second and path == "torch" and key.split(",")[0] not in SCANS:
        return "torch's fused operators have no second derivative; the readable loop has"
    if promise == "equals_torch_nn_with_gradients" and key not in TORCH_TWINS:
        return "torch.nn has no such cell; equals_numpy_in_both_directions holds its values"
    return None
