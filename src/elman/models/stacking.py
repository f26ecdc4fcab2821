"""What settings make of a stack of cells, and how a model tells of it."""

from elman.config.model_settings import ModelSettings
from elman.layers.noise import NoiseRates
from elman.layers.stack import StackOptions

NOISE = (*NoiseRates.__dataclass_fields__, "token_dropout")
"""Settings of the noise within a model, beside its dropouts between layers."""


def stack_options(s: ModelSettings) -> StackOptions:
    """Return how the layers of such a model meet, and the noise within them."""
    noise = NoiseRates(
        recurrent_dropout=s.recurrent_dropout,
        zoneout=s.zoneout,
        zoneout_cell=s.zoneout_cell,
        weight_dropout=s.weight_dropout,
    )
    return StackOptions(
        dropout=s.dropout,
        dropout_kind=s.dropout_kind,
        residual=s.residual,
        layer_norm=s.layer_norm in ("layers", "both"),
        noise=noise,
    )


def describe_noise(s: ModelSettings) -> dict[str, str]:
    """Return how the cells began and where what noise acts, in words."""
    places = {f"layer {n}": s.dropout for n in range(1, s.num_layers + 1)}
    rates = {"embedding": s.embedding_dropout, **places}
    noise = ", ".join(f"{name} {getattr(s, name):g}" for name in NOISE if getattr(s, name))
    dropped = ", ".join(f"{rate:g} on {place}" for place, rate in rates.items() if rate)
    return {
        "initialisation": _initialisation(s),
        "noise": noise or "none",
        "dropout": f"{s.dropout_kind}: {dropped}" if dropped else "none",
    }


def _initialisation(s: ModelSettings) -> str:
    """Return how the cells began, as the manifest records it."""
    if s.kind not in ("lstm", "minlstm") or s.bias == "none":
        return s.initialisation
    biases = s.forget_biases or (s.forget_bias,)
    return f"{s.initialisation}, forget bias {', '.join(f'{bias:g}' for bias in biases)}"
