"""Stacks become torch's recurrences and come back: the same values, the same bits, or a refusal."""

import pytest
import torch
from torch import Tensor, nn

from elman.cells.cell import BiasKind, Cell
from elman.cells.elman import ElmanCell
from elman.cells.gru import GRUCell
from elman.cells.lstm import LSTMCell, LSTMOptions
from elman.cells.mgu import MGUCell
from elman.cells.min_gru import MinGRUCell
from elman.cells.min_lstm import MinLSTMCell
from elman.checkpoints.foreign.torch_rebuild import stack_from_torch, stack_to_torch
from elman.errors import ConversionError
from elman.kernels.dispatch import KernelPlan
from elman.layers.noise import NoiseRates
from elman.layers.stack import RecurrentStack, StackOptions, StackState, flat_state

E, H = 3, 4
SEED = 5
PLAN = KernelPlan("reference")
SEVEN, SIX = 6e-8, 6e-7  # half a unit of the last decimal that the reports quote, and a little
EXACT = 1e-12  # float64, sums of a dozen numbers of order 1 over seven steps


def drawn(cell: Cell, seed: int = SEED) -> Cell:
    """The cell in float64, every weight and bias random and not zero."""
    generator = torch.Generator().manual_seed(seed)
    cell = cell.double()
    with torch.no_grad():
        for weight in cell.weights:
            weight.normal_(0.0, 0.7, generator=generator)
    return cell


def cell_of(kind: str, width: int, bias: BiasKind = "two") -> Cell:
    match kind:
        case "tanh" | "relu":
            return ElmanCell(width, H, activation=kind, bias=bias)  # type: ignore[arg-type]
        case "gru keep" | "gru replace":
            return GRUCell(width, H, update=kind.split()[1], bias=bias)  # type: ignore[arg-type]
    options = LSTMOptions(
        coupled="coupled" in kind, projection_size=2 if "projected" in kind else 0
    )
    return LSTMCell(width, H, bias=bias, options=options)


KINDS = ("tanh", "relu", "gru keep", "gru replace", "lstm", "lstm coupled", "lstm projected")
AS_TORCH = ("tanh", "relu", "gru keep", "lstm", "lstm projected")


def stack_of(
    kind: str, num_layers: int = 2, num_directions: int = 1, bias: BiasKind = "two"
) -> RecurrentStack:
    cells: list[Cell] = []
    width = E
    for layer in range(num_layers):
        row = [
            drawn(cell_of(kind, width, bias), SEED + 2 * layer + way)
            for way in range(num_directions)
        ]
        width = sum(cell.output_size for cell in row)
        cells += row
    return RecurrentStack(cells, num_directions=num_directions)


def random_state(stack: RecurrentStack, batch_size: int) -> StackState:
    generator = torch.Generator().manual_seed(SEED)
    return tuple(
        stack.cell(place).pack_state(
            [torch.randn(part.shape, generator=generator, dtype=part.dtype) for part in zeros]
        )
        for place, zeros in enumerate(stack.zero_state(batch_size))
    )


def run_torch(module: nn.RNNBase, x_BTE: Tensor, parts: tuple[Tensor, ...]) -> list[Tensor]:
    states_BTH, last = module(x_BTE, parts if len(parts) > 1 else parts[0])
    return [states_BTH, *(last if isinstance(last, tuple) else (last,))]


@pytest.mark.filterwarnings("ignore:LSTM with projections")  # torch: no oneDNN for them
@pytest.mark.parametrize("bias", ["two", "one", "none"])
@pytest.mark.parametrize("num_directions", [1, 2])
@pytest.mark.parametrize("num_layers", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_torch_computes_what_the_stack_does(
    kind: str, num_layers: int, num_directions: int, bias: BiasKind
) -> None:
    stack = stack_of(kind, num_layers, num_directions, bias)
    before = [weight.clone() for weight in stack.parameters()]
    module = stack_to_torch(stack)
    x_BTE = torch.randn(5, 7, E, dtype=torch.float64, generator=torch.Generator().manual_seed(SEED))
    state = random_state(stack, 5)
    states_BTH, after = stack(x_BTE, state, None, plan=PLAN)
    got = run_torch(module, x_BTE, flat_state(state))
    for left, right in zip(got, [states_BTH, *flat_state(after)], strict=True):
        torch.testing.assert_close(left, right, rtol=0, atol=EXACT, msg=f"seed {SEED}")
    assert module.bias == (bias != "none")
    for weight, was in zip(stack.parameters(), before, strict=True):
        assert torch.equal(weight, was)


@pytest.mark.parametrize("bias", ["two", "none"])
@pytest.mark.parametrize("num_directions", [1, 2])
@pytest.mark.parametrize("kind", AS_TORCH)
def test_there_and_back_gives_the_same_bits(kind: str, num_directions: int, bias: BiasKind) -> None:
    stack = stack_of(kind, 2, num_directions, bias)
    back = stack_from_torch(stack_to_torch(stack))
    assert back.num_directions == num_directions
    ours, theirs = stack.state_dict(), back.state_dict()
    assert list(ours) == list(theirs)
    for place in range(len(stack.cells)):
        assert back.cell(place).key == stack.cell(place).key
    for name, weight in ours.items():
        assert weight.dtype == theirs[name].dtype
        assert torch.equal(weight, theirs[name]), name


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize("time_first", [True, False])
@pytest.mark.parametrize(
    "module",
    [
        nn.RNN(E, H, 2, nonlinearity="relu"),
        nn.RNN(E, H, bias=False, bidirectional=True),
        nn.GRU(E, H, 3, bidirectional=True),
        nn.LSTM(E, H, 2, proj_size=2, bidirectional=True),
        nn.LSTM(E, H, 2, dropout=0.25),
    ],
    ids=str,
)
def test_a_module_of_torch_becomes_the_stack_that_computes_the_same(
    module: nn.RNNBase, time_first: bool
) -> None:
    generator = torch.Generator().manual_seed(SEED)
    module = module.double().eval()
    module.batch_first = not time_first
    with torch.no_grad():
        for weight in module.parameters():
            weight.normal_(0.0, 0.7, generator=generator)
    stack = stack_from_torch(module)
    x_BTE = torch.randn(2, 6, E, dtype=torch.float64, generator=generator)
    want, last = module(x_BTE.transpose(0, 1) if time_first else x_BTE)
    states_BTH, after = stack(x_BTE, None, None, plan=PLAN)
    want_BTH = want.transpose(0, 1) if time_first else want
    torch.testing.assert_close(states_BTH, want_BTH, rtol=0, atol=EXACT)
    parts = last if isinstance(last, tuple) else (last,)
    for left, right in zip(flat_state(after), parts, strict=True):
        torch.testing.assert_close(left, right, rtol=0, atol=EXACT)
    assert stack.options.dropout == module.dropout
    assert stack_to_torch(stack).dropout == module.dropout
    for name, weight in stack_to_torch(stack).state_dict().items():
        assert torch.equal(weight, module.state_dict()[name]), name


def test_the_weights_are_copies_and_no_random_number_is_drawn() -> None:
    stack = stack_of("lstm")
    begun = torch.get_rng_state()
    module = stack_to_torch(stack)
    back = stack_from_torch(module)
    assert torch.equal(torch.get_rng_state(), begun)
    with torch.no_grad():
        for weight in module.parameters():
            weight.zero_()
    assert all(weight.abs().sum() > 0 for weight in stack.parameters())
    assert all(weight.abs().sum() > 0 for weight in back.parameters())
    assert not module.training


def test_layers_with_different_biases_get_both_vectors() -> None:
    cells = [drawn(GRUCell(E, H, bias="none")), drawn(GRUCell(H, H, bias="one"))]
    module = stack_to_torch(RecurrentStack(cells))
    assert torch.equal(module.bias_ih_l0, torch.zeros(3 * H).double())
    assert torch.equal(module.bias_ih_l1, cells[1].bias_ih)
    assert torch.equal(module.bias_hh_l1, torch.zeros(3 * H).double())


def options_of(**options: object) -> LSTMCell:
    return LSTMCell(E, H, options=LSTMOptions(**options))  # type: ignore[arg-type]


REFUSED = {
    "identity": (ElmanCell(E, H, activation="identity"), "identity activation", "model.activation"),
    "reset before": (GRUCell(E, H, reset="before"), "reset gate", 'model.reset = "after"'),
    "mgu": (MGUCell(E, H), "no minimal gated unit", 'model.kind = "gru"'),
    "mingru": (MinGRUCell(E, H), "no minGRU", 'model.kind = "gru"'),
    "minlstm": (MinLSTMCell(E, H), "no minLSTM", 'model.kind = "lstm"'),
    "peepholes": (options_of(peepholes=True), "no peepholes", "model.peepholes = false"),
    "layer_norm": (options_of(layer_norm=True), "no layer norm", 'model.layer_norm = "none"'),
    "both": (options_of(layer_norm=True, coupled=True), "no layer norm", "model.layer_norm"),
    "full projection": (options_of(projection_size=H), "full width", "projection_size = 3"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_cell_that_torch_lacks_is_refused_with_the_nearest_it_has(name: str) -> None:
    cell, reason, hint = REFUSED[name]
    with pytest.raises(ConversionError) as caught:
        stack_to_torch(RecurrentStack([cell]))
    assert reason in str(caught.value)
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (StackOptions(residual=True), "no residual connections"),
        (StackOptions(layer_norm=True), "no layer normalisation"),
        (StackOptions(noise=NoiseRates(zoneout=0.1)), "no zoneout"),
        (StackOptions(noise=NoiseRates(zoneout_cell=0.1)), "no zoneout"),
    ],
)
def test_what_torch_cannot_put_between_cells_is_refused(options: StackOptions, reason: str) -> None:
    cells = [LSTMCell(E, H), LSTMCell(H, H)]
    with pytest.raises(ConversionError, match=reason):
        stack_to_torch(RecurrentStack(cells, options=options))


def test_a_residual_connection_that_adds_nothing_is_no_reason_to_refuse() -> None:
    stack = RecurrentStack([drawn(GRUCell(E, H))], options=StackOptions(residual=True))
    assert torch.equal(stack_to_torch(stack).weight_hh_l0, stack.cell(0).weight_hh)


def test_noise_that_acts_in_training_only_is_no_reason_to_refuse() -> None:
    noise = NoiseRates(recurrent_dropout=0.3, weight_dropout=0.2)
    options = StackOptions(dropout=0.5, dropout_kind="locked", noise=noise)
    cells = [drawn(GRUCell(E, H)), drawn(GRUCell(H, H))]
    assert stack_to_torch(RecurrentStack(cells, options=options)).dropout == 0.0


@pytest.mark.parametrize(
    "cells",
    [
        [LSTMCell(E, H), GRUCell(H, H)],
        [GRUCell(E, H), GRUCell(H, H + 1)],
        [ElmanCell(E, H), ElmanCell(H, H, activation="relu")],
    ],
)
def test_a_stack_of_several_kinds_is_refused(cells: list[Cell]) -> None:
    with pytest.raises(ConversionError, match="one kind of cell"):
        stack_to_torch(RecurrentStack(cells))


def test_a_module_with_equations_of_its_own_is_refused() -> None:
    class Altered(nn.LSTM):
        pass

    with pytest.raises(ConversionError, match=r"got Altered; allowed: nn\.RNN, nn\.GRU, nn\.LSTM"):
        stack_from_torch(Altered(E, H))


def lstm_of_the_report(bias: BiasKind = "one") -> LSTMCell:
    """One unit, rows i, f, g, o, of which public reports tell what each mistake computes."""
    cell = LSTMCell(1, 1, bias=bias).double()
    with torch.no_grad():
        cell.weight_ih.copy_(torch.tensor([[0.1], [0.2], [0.3], [0.4]], dtype=torch.float64))
        cell.weight_hh.copy_(torch.tensor([[0.5], [0.6], [0.7], [0.8]], dtype=torch.float64))
        assert cell.bias_ih is not None
        cell.bias_ih.copy_(torch.tensor([0.01, 0.02, 0.03, 0.04], dtype=torch.float64))
    return cell


def outputs(module: nn.RNNBase) -> list[float]:
    x_BTE = torch.tensor([[[1.0], [-2.0]]], dtype=torch.float64)
    with torch.no_grad():
        return [*module(x_BTE)[0].flatten().tolist()]


def reordered(cell: Cell, order: list[int]) -> nn.RNNBase:
    """What torch computes when its rows i, f, g, o (r, z, n) are those rows of the cell."""
    module = stack_to_torch(RecurrentStack([cell]))
    with torch.no_grad():
        for weight in module.parameters():
            weight.copy_(weight[order].clone())
    return module


def test_one_bias_becomes_two_whose_sum_it_is() -> None:
    module = stack_to_torch(RecurrentStack([lstm_of_the_report()]))
    assert outputs(module) == pytest.approx([0.1012433, -0.0481066], abs=SEVEN)
    _, (_, c_1BH) = module(torch.tensor([[[1.0], [-2.0]]], dtype=torch.float64))
    assert c_1BH.item() == pytest.approx(-0.1439551, abs=SEVEN)


def test_mistakes_with_an_lstm_have_the_values_that_are_known_of_them() -> None:
    cell = lstm_of_the_report()
    assert outputs(reordered(cell, [0, 2, 3, 1])) == pytest.approx([0.119160, -0.078991], abs=SIX)
    assert outputs(reordered(cell, [0, 2, 1, 3])) == pytest.approx(
        [0.0691671, -0.0355473], abs=SEVEN
    )
    module = stack_to_torch(RecurrentStack([cell]))
    with torch.no_grad():
        module.bias_hh_l0.copy_(module.bias_ih_l0)
    assert outputs(module) == pytest.approx([0.1117733, -0.0429287], abs=SEVEN)


def gru_of_the_report(**options: str) -> GRUCell:
    cell = GRUCell(1, 1, **options).double()  # type: ignore[arg-type]
    with torch.no_grad():
        cell.weight_ih.copy_(torch.tensor([[0.1], [0.2], [0.3]], dtype=torch.float64))
        cell.weight_hh.copy_(torch.tensor([[0.4], [0.5], [0.6]], dtype=torch.float64))
        assert cell.bias_ih is not None
        assert cell.bias_hh is not None
        cell.bias_ih.copy_(torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64))
        cell.bias_hh.copy_(torch.tensor([0.05, 0.15, 0.25], dtype=torch.float64))
    return cell


def test_a_gru_has_the_known_values_in_torch_and_those_of_swapped_gates_when_swapped() -> None:
    cell = gru_of_the_report()
    module = stack_to_torch(RecurrentStack([cell]))
    assert outputs(module) == pytest.approx([0.2303021, 0.0698170], abs=SEVEN)
    swapped = outputs(reordered(cell, [1, 0, 2]))
    assert swapped == pytest.approx([0.2803001, 0.1051082], abs=SEVEN)


def test_a_gru_with_the_reset_before_is_never_exported_with_other_values() -> None:
    stack = RecurrentStack([gru_of_the_report(reset="before")])
    x_BTE = torch.tensor([[[1.0], [-2.0]]], dtype=torch.float64)
    states_BTH, _ = stack(x_BTE, None, None, plan=PLAN)
    assert states_BTH.flatten().tolist() == pytest.approx([0.2528377, 0.1446079], abs=SEVEN)
    with pytest.raises(ConversionError, match="after the recurrent product only"):
        stack_to_torch(stack)
