"""Named settings of a task: what each of them sets, beneath a person's own."""

from collections.abc import Mapping
from types import MappingProxyType

from elman.errors import SettingError

_COMMON = (
    "model.kind=gru",
    "model.num_layers=1",
    "model.dropout=0.0",
    "model.tie_weights=false",
    "training.label_smoothing=0.0",
)

PRESETS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "lecture": (
            *_COMMON,
            "model.reset=after",
            "model.update=keep",
            "model.bidirectional=false",
            "model.attention=projected",
            "model.attention_bias=true",
            "model.query=current",
            "model.context=output",
            "model.bridge=copy",
            "model.bridge_from=all",
            "model.initialisation=uniform",
            "training.schedule=cosine",
            "training.schedule_unit=epoch",
            "training.warmup_updates=0",
        ),
        "bahdanau": (
            *_COMMON,
            "model.reset=before",
            "model.update=replace",
            "model.bidirectional=true",
            "model.attention=additive",
            "model.query=previous",
            "model.context=transition",
            "model.bridge=tanh",
            "model.bridge_from=backward",
            "model.initialisation=orthogonal",
            "training.schedule=constant",
            "training.schedule_unit=update",
        ),
    }
)
"""lecture: a small encoder-decoder with attention as it is taught. One reader, whose last valid
state is the decoder's first; the decoder's current output, projected with a bias, is scored against
the source by an unscaled dot product; the context enters the output layer alone; the cosine moves
once an epoch, without warm-up; no Xavier. Where it is taught, padding is read and attended to; here
it never is.

bahdanau: D. Bahdanau et al., arXiv:1409.0473. Two readers, the previous state scores by a small
network, the context enters the transition, the first state is tanh of a projection of the backward
reader's; orthogonal recurrent matrices. Not theirs: Adadelta and the maxout layer before the
output.
"""


def named_preset(presets: Mapping[str, tuple[str, ...]], name: str) -> tuple[str, ...]:
    """Return the overrides of the preset `name`; raises `SettingError` where there is none."""
    if name not in presets:
        raise SettingError("there is no such preset", got=name, allowed=", ".join(presets))
    return presets[name]
