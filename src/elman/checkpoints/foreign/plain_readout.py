"""The readout of a model for formats that know one matrix and one softmax."""

from elman.errors import ConversionError
from elman.layers.readout import Readout
from elman.models.recurrent import RecurrentLanguageModel


def full_readout(model: RecurrentLanguageModel, format_name: str) -> Readout:
    """Return the readout of `model`; raises `ConversionError` where it is split into classes."""
    if not isinstance(model.readout, Readout):
        raise ConversionError(
            f"{format_name} has no place for an output that is split into classes",
            got='model.softmax = "adaptive"',
            hint='convert to onnx, or train with model.softmax = "full"',
        )
    return model.readout
