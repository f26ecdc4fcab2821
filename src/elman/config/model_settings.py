"""The settings of what a model is made of."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from elman.config.language_settings import LookingBackModel
from elman.config.ngram_settings import NgramModel
from elman.config.reading_settings import Count, OrNone, Share
from elman.config.tag_settings import TaggerModel
from elman.config.translate_settings import TransductionModel


@dataclass(frozen=True)
class ModelSettings(TaggerModel, TransductionModel, NgramModel, LookingBackModel):
    """What the model is made of."""

    kind: Annotated[
        Literal[
            "elman",
            "gru",
            "lstm",
            "mgu",
            "mingru",
            "minlstm",
            "ngram",
            "window",
            "transformer",
        ],
        Field(
            description="The recurrent cell; or of a language model: ngram counts, window sees the "
            "last tokens alone, transformer attends to them."
        ),
    ] = "lstm"
    input: Annotated[
        Literal["embedding", "one-hot", "series"],
        Field(
            description="What a cell reads: of a token a learnt vector or its one-hot code; "
            "series: numbers, scaled as those learnt from."
        ),
    ] = "embedding"
    embedding_size: Annotated[Count, Field(description="Width of a token's vector (E).")] = 64
    hidden_size: Annotated[Count, Field(description="Units in each layer (H).")] = 384
    embedding_std: Annotated[
        float,
        Field(
            ge=0.0,
            allow_inf_nan=False,
            description="Deviation of new embeddings; 0: 1, or 2/√E where the output is the same "
            "matrix.",
        ),
    ] = 0.0
    num_layers: Annotated[
        int, Field(ge=1, le=256, description="Recurrent layers, one above the other (L).")
    ] = 1
    tie_weights: Annotated[
        bool,
        Field(
            description="Use one matrix as embedding and output; with a projection when E and "
            "H differ."
        ),
    ] = False
    softmax: Annotated[
        Literal["full", "adaptive", "auto"],
        Field(
            description="full: one softmax over all tokens; adaptive: rare tokens are split off "
            "into classes, for very large vocabularies; auto: adaptive from 10,000 tokens on."
        ),
    ] = "full"
    cutoffs: Annotated[
        tuple[int, ...],
        Field(
            description="adaptive: how many of the most frequent tokens stand before each class; "
            "empty: chosen from the counts of the training text."
        ),
    ] = ()
    tail_divisor: Annotated[
        float,
        Field(
            ge=1.0,
            allow_inf_nan=False,
            description="adaptive, untied: each class sees the state through a width smaller by "
            "this.",
        ),
    ] = 4.0
    dropout: Annotated[
        Share, Field(description="Dropout on the output of every recurrent layer.")
    ] = 0.0
    embedding_dropout: Annotated[
        Share, Field(description="Dropout on the output of the embedding.")
    ] = 0.0
    dropout_kind: Annotated[
        Literal["ordinary", "locked"],
        Field(
            description="ordinary: a new mask at each step; locked: one mask for all steps of "
            "a sequence."
        ),
    ] = "ordinary"
    activation: Annotated[
        Literal["tanh", "relu", "identity"],
        Field(description="Elman only: the function of the state."),
    ] = "tanh"
    reset: Annotated[
        Literal["before", "after"],
        Field(description="GRU only: the reset gate acts before or after the recurrent product."),
    ] = "after"
    update: Annotated[
        Literal["keep", "replace"],
        Field(description="GRU only: an open update gate keeps the old state, or replaces it."),
    ] = "keep"
    forget_bias: Annotated[
        float,
        Field(
            description="LSTM, minLSTM: initial forget bias, the sum over both bias vectors.",
            allow_inf_nan=False,
        ),
    ] = 1.0
    forget_biases: Annotated[
        tuple[float, ...],
        Field(description="LSTM, minLSTM: one for each layer in place of forget_bias."),
    ] = ()
    bias: Annotated[
        Literal["two", "one", "none"],
        Field(
            description="Bias vectors of a cell: two as torch has them, the first alone, or none; "
            "minGRU and minLSTM have one at most."
        ),
    ] = "two"
    initialisation: Annotated[
        Literal["uniform", "xavier", "orthogonal", "identity"],
        Field(
            description="How the cells begin: uniform as torch, Xavier, or Xavier with orthogonal "
            "or identity recurrent matrices."
        ),
    ] = "uniform"
    peepholes: Annotated[
        bool, Field(description="LSTM only: gates look at the memory as well.")
    ] = False
    coupled: Annotated[
        bool, Field(description="LSTM only: the input gate is one less the forget gate.")
    ] = False
    layer_norm: Annotated[
        Literal["none", "cell", "layers", "both"],
        Field(
            description="cell: within the LSTM's step; layers: on what each layer hands on; both."
        ),
    ] = "none"
    projection_size: Annotated[
        OrNone,
        Field(description="LSTM only: width that the output is projected to (P); 0: none."),
    ] = 0
    residual: Annotated[
        bool, Field(description="Add a layer's input to its output where their widths are equal.")
    ] = False
    recurrent_dropout: Annotated[
        Share, Field(description="Dropout on the state that the recurrent products see, one mask.")
    ] = 0.0
    zoneout: Annotated[
        Share, Field(description="Share of the outputs that stay as they were at a step.")
    ] = 0.0
    zoneout_cell: Annotated[
        Share, Field(description="LSTM only: share of the memory that stays as it was at a step.")
    ] = 0.0
    weight_dropout: Annotated[
        Share, Field(description="Share of the recurrent matrix left out, anew for each window.")
    ] = 0.0
    token_dropout: Annotated[
        Share,
        Field(description="Share of the vocabulary whose vectors are left out in a window."),
    ] = 0.0
