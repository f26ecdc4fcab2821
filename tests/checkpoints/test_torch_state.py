"""State dicts of PyTorch's word language model: the same values, every name accounted for."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from elman.checkpoints.foreign.torch_state import (
    from_torch,
    prove_torch,
    to_torch,
    without_wrapper,
)
from elman.config.checks import check_settings
from elman.config.model_settings import ModelSettings
from elman.config.settings import Settings
from elman.errors import ConversionError
from elman.kernels.dispatch import KernelPlan
from elman.models.recurrent import RecurrentLanguageModel

V, E, H = 11, 5, 6
SEED = 7
PLAN = KernelPlan("reference")

CHOICES: dict[str, dict[str, Any]] = {
    "tanh": {"kind": "elman"},
    "relu": {"kind": "elman", "activation": "relu"},
    "gru": {"kind": "gru"},
    "lstm": {"kind": "lstm"},
    "lstm, three layers": {"kind": "lstm", "num_layers": 3},
    "lstm, tied": {"kind": "lstm", "tie_weights": True, "embedding_size": H},
    "lstm, no bias": {"kind": "lstm", "bias": "none"},
    "lstm, projected": {"kind": "lstm", "projection_size": 4, "num_layers": 2},
    "lstm, projected and tied": {
        "kind": "lstm",
        "projection_size": E,
        "tie_weights": True,
    },
}
REWRITTEN: dict[str, dict[str, Any]] = {
    "gru, replace": {"kind": "gru", "update": "replace", "num_layers": 2},
    "gru, one bias": {"kind": "gru", "bias": "one"},
    "lstm, coupled": {"kind": "lstm", "coupled": True},
    "lstm, coupled, one bias, projected": {
        "kind": "lstm",
        "coupled": True,
        "bias": "one",
        "projection_size": 3,
    },
    "tanh, one-hot": {"kind": "elman", "input": "one-hot"},
}


def model_of(choice: dict[str, Any]) -> RecurrentLanguageModel:
    """A model whose every weight and bias is random and not zero."""
    sizes = {"hidden_size": H} if "input" in choice else {"embedding_size": E, "hidden_size": H}
    generator = torch.Generator().manual_seed(SEED)
    model = RecurrentLanguageModel(ModelSettings(**{**sizes, **choice}), V, generator)
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(0.0, 0.6, generator=generator)
    return model


def kind_of(model: RecurrentLanguageModel) -> Any:
    s = model.settings
    return f"RNN_{s.activation.upper()}" if s.kind == "elman" else s.kind.upper()


class Example(nn.Module):
    """The example's own class, time first as there; written here from its published form."""

    def __init__(self, state: dict[str, Tensor], kind: str, num_layers: int, units: int) -> None:
        super().__init__()
        self.encoder = nn.Embedding(*state["encoder.weight"].shape)
        width, bias = state["encoder.weight"].shape[1], "rnn.bias_ih_l0" in state
        if kind.startswith("RNN"):
            function = {"RNN_TANH": "tanh", "RNN_RELU": "relu"}[kind]
            self.rnn: nn.RNNBase = nn.RNN(
                width, units, num_layers, nonlinearity=function, bias=bias
            )
        elif kind == "GRU":
            self.rnn = nn.GRU(width, units, num_layers, bias=bias)
        else:
            written = state["decoder.weight"].shape[1]
            size = written if written < units else 0
            self.rnn = nn.LSTM(width, units, num_layers, bias=bias, proj_size=size)
        self.decoder = nn.Linear(state["decoder.weight"].shape[1], len(state["decoder.bias"]))
        self.load_state_dict(state)

    def forward(self, ids_TB: Tensor) -> Tensor:
        states_TBH, _ = self.rnn(self.encoder(ids_TB))
        logits_TBV: Tensor = self.decoder(states_TBH)
        return logits_TBV


def example_state(kind: str = "LSTM", tied: bool = False) -> dict[str, Tensor]:
    """What the example's model would save: two layers, random weights."""
    gates = {"LSTM": 4, "GRU": 3}.get(kind, 1)
    generator = torch.Generator().manual_seed(SEED)
    width = H if tied else E
    shapes = {"encoder.weight": (V, width)}
    for layer in (0, 1):
        shapes[f"rnn.weight_ih_l{layer}"] = (gates * H, H if layer else width)
        shapes[f"rnn.weight_hh_l{layer}"] = (gates * H, H)
        shapes[f"rnn.bias_ih_l{layer}"] = (gates * H,)  # type: ignore[assignment]
        shapes[f"rnn.bias_hh_l{layer}"] = (gates * H,)  # type: ignore[assignment]
    shapes |= {"decoder.weight": (V, H), "decoder.bias": (V,)}  # type: ignore[dict-item]
    state = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    if tied:
        state["decoder.weight"] = state["encoder.weight"]
    return state


def logits(model: RecurrentLanguageModel, ids_BT: Tensor) -> Tensor:
    output = model(ids_BT, plan=PLAN)
    return output.readout.logits(output.states_BTH).detach()


def loaded(
    settings: ModelSettings, vocabulary_size: int, weights: dict[str, Tensor]
) -> RecurrentLanguageModel:
    check_settings(replace(Settings(), model=settings))
    model = RecurrentLanguageModel(settings, vocabulary_size, torch.Generator())
    model.load_state_dict(weights)
    return model


@pytest.mark.filterwarnings("ignore:LSTM with projections")  # torch: no oneDNN for them
@pytest.mark.parametrize("name", [*CHOICES, *REWRITTEN])
def test_the_example_computes_what_the_model_does(name: str) -> None:
    model = model_of(CHOICES.get(name) or REWRITTEN[name]).double()
    example = Example(to_torch(model), kind_of(model), model.settings.num_layers, H).double()
    example.load_state_dict(to_torch(model))
    ids_BT = torch.randint(V, (3, 9), generator=torch.Generator().manual_seed(SEED))
    want = logits(model, ids_BT)
    got = example(ids_BT.T).detach().transpose(0, 1)
    torch.testing.assert_close(got, want, rtol=0, atol=1e-12)  # float64


@pytest.mark.parametrize("name", [*CHOICES, *REWRITTEN])
def test_the_proof_finds_no_difference_beyond_rounding(name: str) -> None:
    model = model_of(CHOICES.get(name) or REWRITTEN[name])
    before = torch.get_rng_state()
    proof = prove_torch(model, to_torch(model))
    assert torch.equal(torch.get_rng_state(), before)
    assert proof.largest < 1e-10  # float64; a chaotic recurrence enlarges the last place
    parts = 2 if model.settings.kind == "lstm" else 1
    steps = 1 * 1 + 3 * 7 + 2 * 64
    h, c = model.settings.projection_size or H, H
    rows, layers = 1 + 3 + 2, model.settings.num_layers
    final = rows * layers * (h + (c if parts == 2 else 0))
    assert proof.num_values == 2 * (steps * V + final)


@pytest.mark.parametrize("name", CHOICES)
def test_there_and_back_gives_the_same_bits(name: str) -> None:
    model = model_of(CHOICES[name])
    settings, vocabulary_size, weights = from_torch(to_torch(model), kind=kind_of(model))
    assert settings == model.settings
    assert vocabulary_size == V
    back = loaded(settings, vocabulary_size, weights)
    own = model.state_dict()
    assert list(back.state_dict()) == list(own)
    for key, weight in back.state_dict().items():
        assert torch.equal(weight, own[key]), key


@pytest.mark.parametrize("name", REWRITTEN)
def test_a_rewritten_model_comes_back_with_the_same_values(name: str) -> None:
    model = model_of(REWRITTEN[name])
    back = loaded(*from_torch(to_torch(model), kind=kind_of(model)))
    ids_BT = torch.randint(V, (3, 9), generator=torch.Generator().manual_seed(SEED))
    # float32: the rounding of σ(−a) against 1 − σ(a), over nine steps
    torch.testing.assert_close(logits(back, ids_BT), logits(model, ids_BT), rtol=0, atol=1e-5)


def test_one_hot_inputs_become_the_identity() -> None:
    state = to_torch(model_of(REWRITTEN["tanh, one-hot"]))
    assert torch.equal(state["encoder.weight"], torch.eye(V))


def test_tied_matrices_are_one_tensor_on_both_sides() -> None:
    model = model_of(CHOICES["lstm, tied"])
    state = to_torch(model)
    assert state["encoder.weight"] is state["decoder.weight"]
    assert state["encoder.weight"].data_ptr() != model.readout.weight.data_ptr()
    settings, size, weights = from_torch(state, kind=None)
    assert weights["embedding.weight"] is weights["readout.weight"]
    back = loaded(settings, size, weights)
    with torch.no_grad():
        back.embedding.weight.add_(1.0)  # type: ignore[union-attr]
    assert torch.equal(back.readout.weight, state["decoder.weight"] + 1.0)


def test_equal_matrices_are_not_tied_by_accident() -> None:
    state = example_state(tied=True)
    assert from_torch(state, kind=None)[0].tie_weights
    state["decoder.weight"] = state["encoder.weight"].clone()
    assert not from_torch(state, kind=None)[0].tie_weights


def test_an_export_shares_no_memory_with_the_model() -> None:
    model = model_of(CHOICES["gru"])
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    for weight in to_torch(model).values():
        weight.zero_()
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, before[name])


@pytest.mark.parametrize(
    ("choice", "reason"),
    [
        ({"kind": "gru", "reset": "before"}, "reset gate"),
        ({"kind": "mgu"}, "minimal gated unit"),
        ({"kind": "mingru"}, "minGRU"),
        ({"kind": "minlstm"}, "minLSTM"),
        ({"kind": "lstm", "peepholes": True}, "peepholes"),
        ({"kind": "lstm", "layer_norm": "cell"}, "layer normalisation"),
        ({"kind": "gru", "layer_norm": "layers"}, "layer normalisation"),
        ({"kind": "gru", "residual": True, "num_layers": 2}, "residual"),
        ({"kind": "gru", "zoneout": 0.1}, "zoneout"),
        ({"kind": "elman", "activation": "identity"}, "identity activation"),
        ({"kind": "lstm", "projection_size": H}, "full width"),
    ],
)
def test_a_model_that_torch_cannot_express_is_refused_in_one_line(
    choice: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ConversionError, match=reason) as caught:
        to_torch(model_of(choice))
    assert "the nearest it has" in caught.value.hint
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kind", ["RNN_TANH", "RNN_RELU", "GRU", "LSTM"])
def test_a_checkpoint_of_the_example_gives_its_logits(kind: Any, tied: bool) -> None:
    state = example_state(kind, tied)
    model = loaded(*from_torch(state, kind=kind)).double()
    example = Example(state, kind, 2, H).double()
    ids_BT = torch.randint(V, (2, 6), generator=torch.Generator().manual_seed(SEED))
    want = example(ids_BT.T).detach().transpose(0, 1)
    torch.testing.assert_close(logits(model, ids_BT), want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("kind", "own"), [("LSTM", "lstm"), ("GRU", "gru")])
def test_the_shapes_tell_gated_kinds(kind: str, own: str) -> None:
    assert from_torch(example_state(kind), kind=None)[0].kind == own


def test_the_function_of_a_plain_rnn_must_be_told() -> None:
    with pytest.raises(ConversionError, match="allowed: RNN_TANH or RNN_RELU"):
        from_torch(example_state("RNN_TANH"), kind=None)


def test_a_kind_that_the_shapes_contradict_is_refused() -> None:
    with pytest.raises(ConversionError, match=r"does not fit LSTM; got 18 × 6.*it fits GRU"):
        from_torch(example_state("GRU"), kind="LSTM")


def test_a_wrapper_around_every_name_is_taken_off_with_a_notice() -> None:
    plain = example_state()
    notices: list[str] = []
    wrapped = {f"module.{name}": tensor for name, tensor in plain.items()}
    _, _, weights = from_torch(wrapped, kind=None, notify=notices.append)
    _, _, want = from_torch(plain, kind=None, notify=notices.append)
    assert all(torch.equal(weights[name], want[name]) for name in want)
    assert len(notices) == 1
    assert "'module.'" in notices[0]
    assert f"all {len(plain)} names" in notices[0]


def test_a_mix_of_wrapped_and_plain_names_is_refused_with_both() -> None:
    state = example_state()
    state["module.rnn.bias_hh_l1"] = state.pop("rnn.bias_hh_l1")
    with pytest.raises(ConversionError) as caught:
        from_torch(state, kind=None)
    message = str(caught.value)
    assert "with it: module.rnn.bias_hh_l1; without: encoder.weight, " in message
    assert all(name in message for name in state)


def test_names_of_a_network_with_a_part_called_module_are_left_alone() -> None:
    notices: list[str] = []
    real = {"module.scale": torch.ones(1, 1), "module.shift": torch.ones(1)}
    assert without_wrapper(real, notices.append) is real
    beside = {**example_state(), **real}
    assert without_wrapper(beside, notices.append) is beside
    assert notices == []
    with pytest.raises(ConversionError, match=r"unexpected: module\.scale, module\.shift"):
        from_torch(beside, kind=None)


def test_every_missing_and_unexpected_name_is_told() -> None:
    state = example_state()
    gone = ["decoder.bias", "rnn.weight_hh_l0", "rnn.bias_ih_l1"]
    for name in gone:
        del state[name]
    odd = ["input_emb.weight", "rnn.weight_ih_l7_reverse", "rnn.weight_ih_l123456789"]
    state |= {name: torch.ones(1, 1) for name in odd}
    with pytest.raises(ConversionError) as caught:
        from_torch(state, kind=None)
    missing, _, unexpected = caught.value.got.partition("; unexpected: ")
    assert set(missing.removeprefix("missing: ").split(", ")) == set(gone)
    assert set(unexpected.split(", ")) == set(odd)
    assert "cannot read backwards" in caught.value.hint


def test_nothing_at_all_is_refused_with_the_names_of_one_layer() -> None:
    with pytest.raises(ConversionError, match=r"missing: encoder\.weight, decoder\.weight"):
        from_torch({}, kind="LSTM")


@pytest.mark.parametrize(
    ("name", "tensor", "reason"),
    [
        ("decoder.weight", torch.ones(V, H + 1), "decoder.weight of 11 × 7 in place of 11 × 6"),
        ("decoder.bias", torch.ones(V + 1), "decoder.bias of 12 in place of 11"),
        ("rnn.weight_ih_l1", torch.ones(4 * H, E), "rnn.weight_ih_l1 of 24 × 5"),
        ("encoder.weight", torch.ones(V, E, dtype=torch.int64), "encoder.weight of int64 11 × 5"),
        ("decoder.bias", torch.ones(V, 1), "decoder.bias of float32 11 × 1"),
        ("rnn.weight_hh_l0", torch.ones(5 * H, H), "does not fit any recurrence"),
    ],
)
def test_weights_that_do_not_fit_each_other_are_refused(
    name: str, tensor: Tensor, reason: str
) -> None:
    with pytest.raises(ConversionError) as caught:
        from_torch({**example_state(), name: tensor}, kind=None)
    assert reason in str(caught.value)


def test_weights_of_other_types_become_float32_and_a_rounding_is_told() -> None:
    notices: list[str] = []
    half = {name: tensor.half() for name, tensor in example_state().items()}
    _, _, weights = from_torch(half, kind=None, notify=notices.append)
    assert notices == []
    assert torch.equal(weights["readout.bias"], half["decoder.bias"].float())
    double = {name: tensor.double() for name, tensor in example_state().items()}
    _, _, weights = from_torch(double, kind=None, notify=notices.append)
    assert weights["readout.bias"].dtype == torch.float32
    assert notices == ["weights of float64 are rounded to float32, as a run keeps them"]


@pytest.mark.parametrize("name", ["rnn.weight_ih_l0", "rnn.bias_hh_l0", "decoder.weight"])
def test_an_export_with_swapped_rows_is_not_proven(name: str) -> None:
    model = model_of(CHOICES["lstm"])
    state = to_torch(model)
    state[name] = state[name].roll(H, dims=0)
    with pytest.raises(ConversionError, match="computes other values"):
        prove_torch(model, state)
