"""Noise within a recurrence: what it does on average, when it acts, and that it is a function."""

import pytest
import torch

from elman.cells.lstm import LSTMState
from elman.cells.registry import CELLS
from elman.errors import SettingError
from elman.kernels.dispatch import KernelPlan
from elman.layers.embedding import Embedding
from elman.layers.noise import NoiseRates
from elman.layers.recurrence import recur

PLAN = KernelPlan("reference")
RECURRENT = [key for key in CELLS if CELLS[key](2, 3).is_recurrent]
seed = 5


def made(key: str, *, input_size: int = 3, hidden_size: int = 4):
    generator = torch.Generator().manual_seed(seed)
    cell = CELLS[key](input_size, hidden_size).double()
    with torch.no_grad():
        for weight in cell.weights:
            weight.normal_(0.0, 0.5, generator=generator)
    x_BTE = torch.randn(6, 5, input_size, dtype=torch.float64, generator=generator)
    return cell, x_BTE


def run(cell, x_BTE, rates: NoiseRates, generator, lengths_B=None, state=None):
    noisy = rates.with_dropped_weights(cell, generator)
    noise = rates.for_run(noisy, x_BTE, generator)
    return recur(noisy, x_BTE, state, lengths_B, plan=KernelPlan("reference"), noise=noise)


@pytest.mark.parametrize("key", CELLS)
def test_no_rate_and_no_generator_are_no_noise(key: str) -> None:
    cell, x_BTE = made(key)
    plain_BTP, _ = recur(cell, x_BTE, None, None, plan=PLAN)
    rates = NoiseRates(recurrent_dropout=0.5, weight_dropout=0.5)
    for some, generator in ((rates, None), (NoiseRates(), torch.Generator())):
        states_BTP, _ = run(cell, x_BTE, some, generator)
        assert torch.equal(states_BTP, plain_BTP)


@pytest.mark.parametrize("key", CELLS)
@pytest.mark.parametrize("name", ["recurrent_dropout", "weight_dropout", "zoneout"])
def test_noise_is_a_function_of_the_generator_for_every_cell(key: str, name: str) -> None:
    cell, x_BTE = made(key)
    rates = NoiseRates(**{name: 0.4})
    lengths_B = torch.tensor([5, 0, 3, 5, 1, 4])

    def once(number: int):
        return run(cell, x_BTE, rates, torch.Generator().manual_seed(number), lengths_B)[0]

    assert torch.equal(once(1), once(1)), f"seed {seed}"
    assert not torch.equal(once(1), once(2)) or not (cell.is_recurrent or name == "zoneout")
    assert once(1)[1].eq(0).all()  # the row of no step


@pytest.mark.parametrize("key", CELLS)
def test_zoneout_without_a_generator_is_its_expectation(key: str) -> None:
    cell, x_BTE = made(key)
    rates = NoiseRates(zoneout=0.3, zoneout_cell=0.2)
    states_BTP, last = run(cell, x_BTE, rates, None)
    state = cell.zero_state(6, dtype=torch.float64)
    for step, x_BE in enumerate(x_BTE.unbind(1)):
        after = cell.step(x_BE, state)
        parts = zip((0.3, 0.2), state, after, strict=False)
        state = cell.pack_state([rate * old + (1 - rate) * new for rate, old, new in parts])
        torch.testing.assert_close(states_BTP[:, step], state[0], rtol=0, atol=1e-12)
    for got, want in zip(last, state, strict=True):
        torch.testing.assert_close(got, want, rtol=0, atol=1e-12)


def test_zoneout_keeps_its_share_of_units_and_their_exact_values() -> None:
    rates = NoiseRates(zoneout=0.3, zoneout_cell=0.1)
    cell, x_BTE = made("lstm", hidden_size=500)
    x_BTE = x_BTE.new_zeros(40, 2, 3)
    noise = rates.for_run(cell, x_BTE, torch.Generator().manual_seed(seed))
    assert noise is not None
    before = LSTMState(torch.zeros(40, 500), torch.zeros(40, 500))
    after = LSTMState(torch.ones(40, 500), torch.ones(40, 500))
    assert not torch.equal(noise.mixed(0, before, after)[0], noise.mixed(1, before, after)[0])
    h_BH, c_BH = noise.mixed(0, before, after)
    assert set(h_BH.unique().tolist()) == {0.0, 1.0}
    # 20,000 draws: four deviations of the share are 0.013 and 0.009.
    assert abs(1 - h_BH.mean().item() - 0.3) < 0.013, f"seed {seed}"
    assert abs(1 - c_BH.mean().item() - 0.1) < 0.009, f"seed {seed}"


@pytest.mark.parametrize("key", RECURRENT)
def test_recurrent_dropout_hides_units_from_the_products_alone_and_the_same_ones_at_all_steps(
    key: str,
) -> None:
    cell, x_BTE = made(key)
    noise = NoiseRates(recurrent_dropout=0.5).for_run(
        cell, x_BTE, torch.Generator().manual_seed(seed)
    )
    assert noise is not None
    assert noise.mask_BP is not None
    assert set(noise.mask_BP.unique().tolist()) <= {0.0, 2.0}
    states_BTP, _ = recur(cell, x_BTE, None, None, plan=PLAN, noise=noise)
    state = cell.zero_state(6, dtype=torch.float64)
    for step, x_BE in enumerate(x_BTE.unbind(1)):
        state = cell.step(x_BE, state, state[0] * noise.mask_BP)
        assert torch.equal(states_BTP[:, step], state[0])


@pytest.mark.parametrize("key", RECURRENT)
def test_weight_dropout_is_a_run_on_other_weights_with_their_gradient(key: str) -> None:
    cell, x_BTE = made(key, hidden_size=8)
    rates = NoiseRates(weight_dropout=0.5)
    twin = rates.with_dropped_weights(cell, torch.Generator().manual_seed(seed))
    share = (twin.weight_hh == 0).double().mean().item()
    assert 0.2 < share < 0.8, f"seed {seed}"
    kept = twin.weight_hh != 0
    torch.testing.assert_close(twin.weight_hh[kept], 2 * cell.weight_hh[kept])
    states_BTP, _ = recur(twin, x_BTE, None, None, plan=KernelPlan("auto"))
    (gradient,) = torch.autograd.grad(states_BTP.sum(), [cell.weight_hh])
    assert gradient[~kept].eq(0).all()
    assert gradient[kept].ne(0).any()
    assert twin.weight_ih is cell.weight_ih


def test_dropped_tokens_are_dropped_wherever_they_occur() -> None:
    table = Embedding(50, 4)
    with torch.no_grad():
        table.weight.fill_(1.0)
    ids_BT = torch.arange(50).repeat(2, 2)
    x_BTE = table(ids_BT, 0.4, torch.Generator().manual_seed(seed))
    of_token = x_BTE.view(4, 50, 4)
    assert torch.equal(of_token, of_token[:1].expand(4, 50, 4))
    values = of_token[0, :, 0]
    # The rate is a multiple of 1 / 65536, so that 1 / 0.6 is met to five places.
    kept = values[values > 0]
    torch.testing.assert_close(kept, torch.full_like(kept, 1 / 0.6), rtol=1e-4, atol=0)
    assert 10 <= int((values == 0).sum()) <= 30, f"seed {seed}"


@pytest.mark.parametrize("rate", [-0.1, 1.0, float("nan")])
def test_rates_outside_of_zero_to_one_are_refused(rate: float) -> None:
    with pytest.raises(SettingError, match="zoneout must be at least 0 and below 1"):
        NoiseRates(zoneout=rate)
