"""The settings of a run, each with its default, its range and its meaning.

`docs/settings.md` is made from this file by `elman.config.reference`.
"""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

from elman.config.reading_settings import Count, OrNone, RowTraining, Share
from elman.config.tag_settings import TagData, TaggerModel
from elman.config.translate_settings import PairData, TransductionModel

Level = Literal["char", "byte", "word", "bpe"]
Unit = Literal["line", "stream"]
UnknownPolicy = Literal["replace", "refuse", "skip"]
NormalForm = Literal["none", "NFC", "NFD", "NFKC", "NFKD"]


@dataclass(frozen=True)
class TextSettings:
    """How text becomes ids."""

    level: Annotated[Level, Field(description="What one token is.")] = "char"
    target_level: Annotated[
        Literal["same", "char", "byte", "word", "bpe"],
        Field(description="translate: what one token of a target is; same: as level says."),
    ] = "same"
    unit: Annotated[
        Unit,
        Field(
            description="line: every line is a sequence of its own with start and stop; "
            "stream: one long sequence."
        ),
    ] = "stream"
    encoding: Annotated[str, Field(description="Encoding of the files, read strictly.")] = "utf-8"
    normal_form: Annotated[
        NormalForm, Field(description="Unicode normal form applied to data and prompts alike.")
    ] = "none"
    unknown: Annotated[
        UnknownPolicy,
        Field(
            description="Symbols of data outside the vocabulary: replace by [ UNK ], refuse "
            "the text, or skip them."
        ),
    ] = "replace"
    prompt_unknown: Annotated[
        UnknownPolicy,
        Field(description='The same for prompts; replace needs text.unknown = "replace".'),
    ] = "refuse"
    min_count: Annotated[
        Count, Field(description="Symbols seen less often in training text are unknown.")
    ] = 1
    vocabulary_size: Annotated[
        OrNone,
        Field(
            description="Most entries kept, specials included; 0: all (bpe: 2048, or as many "
            "as the text allows)."
        ),
    ] = 0
    literal_unknown: Annotated[
        str,
        Field(
            description="Word level: a spelling in the data that means the unknown word, such "
            "as <unk>."
        ),
    ] = ""
    start: Annotated[
        Literal["none", "mark"],
        Field(
            description="stream: begin with a start mark, so that the first token is predicted too."
        ),
    ] = "none"


@dataclass(frozen=True)
class DataSettings(TagData, PairData):
    """Which files are learnt from and which are held out."""

    train: Annotated[
        tuple[str, ...], Field(description="Files or folders to learn from; - is standard input.")
    ] = ()
    valid: Annotated[
        tuple[str, ...], Field(description="Files to choose by; empty: split off from train.")
    ] = ()
    test: Annotated[
        tuple[str, ...],
        Field(description="Files for the final figure only; empty: split off from train."),
    ] = ()
    valid_fraction: Annotated[
        Share, Field(description="Share of train held out for choosing when valid is empty.")
    ] = 0.05
    test_fraction: Annotated[
        Share, Field(description="Share of train held out for the final figure when test is empty.")
    ] = 0.05
    split: Annotated[
        Literal["auto", "tail", "shuffled"],
        Field(
            description="Where the split is taken: from the tail, or from shuffled lines. "
            "auto: stream tail, line shuffled, labels spread evenly."
        ),
    ] = "auto"
    repeats: Annotated[
        Literal["keep", "drop"],
        Field(
            description="drop: keep only the first of equal paragraphs (stream) or lines "
            "(line), before splitting."
        ),
    ] = "keep"


@dataclass(frozen=True)
class ModelSettings(TaggerModel, TransductionModel):
    """What the model is made of."""

    kind: Annotated[
        Literal["elman", "gru", "lstm", "mgu", "mingru", "minlstm"],
        Field(description="The recurrent cell."),
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
        Literal["full", "adaptive"],
        Field(
            description="full: one softmax over all tokens; adaptive: rare tokens are split off "
            "into classes, for very large vocabularies."
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
            description="adaptive: each class sees the state through a width smaller by this.",
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


@dataclass(frozen=True)
class TrainingSettings(RowTraining):
    """How weights are learnt."""

    batch_size: Annotated[
        Count, Field(description="Lanes of a stream, or lines, learnt from at once (B).")
    ] = 32
    window: Annotated[
        Count, Field(description="stream: tokens between two cuts of the gradient (T).")
    ] = 64
    length_pool: Annotated[
        Count,
        Field(
            description="line: batches whose lines are sorted by length together; more pad less, "
            "1 leaves every batch to chance, which learns best."
        ),
    ] = 1
    epochs: Annotated[
        OrNone, Field(description="Passes over the training text; 0: as updates or a budget says.")
    ] = 0
    updates: Annotated[OrNone, Field(description="Optimiser steps; 0: as epochs says.")] = 0
    optimizer: Annotated[
        Literal["sgd", "adam", "adamw", "muon"], Field(description="The rule of the step.")
    ] = "muon"
    learning_rate: Annotated[
        float,
        Field(
            ge=0.0, allow_inf_nan=False, description="Peak rate; 0: the optimizer's own default."
        ),
    ] = 0.0
    momentum: Annotated[Share, Field(description="sgd only.")] = 0.0
    beta1: Annotated[Share, Field(description="adam, adamw: decay of the mean of gradients.")] = 0.9
    beta2: Annotated[Share, Field(description="adam, adamw: decay of the mean of squares.")] = 0.99
    weight_decay: Annotated[
        float,
        Field(
            ge=-1.0,
            allow_inf_nan=False,
            description="Shrinkage of matrices, not of biases; adamw applies it apart. "
            "Below 0: the optimizer's own, 0.01 for adamw and 0 for the others.",
        ),
    ] = -1.0
    schedule: Annotated[
        Literal["cosine", "linear", "step", "constant"],
        Field(description="Course of the rate after the warm-up."),
    ] = "cosine"
    schedule_unit: Annotated[
        Literal["update", "epoch"],
        Field(description="The schedule moves at every update, or once an epoch."),
    ] = "update"
    warmup_updates: Annotated[
        OrNone, Field(description="Updates over which the rate rises linearly to its peak.")
    ] = 50
    final_rate: Annotated[
        float,
        Field(ge=0.0, le=1.0, description="cosine, linear: last rate as a share of the peak."),
    ] = 0.0
    step_every: Annotated[
        Count, Field(description="step: updates (or epochs) between two drops of the rate.")
    ] = 1000
    step_factor: Annotated[
        float, Field(gt=0.0, le=1.0, description="step: what each drop multiplies the rate by.")
    ] = 0.5
    clip_norm: Annotated[
        float,
        Field(ge=0.0, allow_inf_nan=False, description="Largest gradient norm; 0: no clipping."),
    ] = 1.0
    label_smoothing: Annotated[
        Share,
        Field(
            description="Share of each target that is spread over the whole vocabulary while "
            "learning; every loss that is told is the plain one."
        ),
    ] = 0.0
    average_decay: Annotated[
        Share,
        Field(
            description="Decay of a moving average of the weights that is scored and kept; 0: "
            "the weights themselves."
        ),
    ] = 0.0
    evaluate_every: Annotated[
        OrNone,
        Field(description="Updates between two validations; 0: once an epoch, at least ten a run."),
    ] = 0
    save_every: Annotated[
        OrNone, Field(description="Updates between two checkpoints; 0: at every validation.")
    ] = 0
    patience: Annotated[
        OrNone,
        Field(description="Validations without a better loss before stopping early; 0: never."),
    ] = 0
    precision: Annotated[
        Literal["auto", "float32", "bfloat16"],
        Field(
            description="Arithmetic of the recurrent products in training; weights and scores "
            "stay float32. auto: bfloat16 where the processor has it and layers are wide."
        ),
    ] = "auto"
    recompute: Annotated[
        OrNone,
        Field(
            description="For long windows: blocks of this many steps are run again in the backward "
            "pass, and what lies within is not kept; less memory, more time. 0: off."
        ),
    ] = 0
    kernels: Annotated[
        Literal["auto", "native", "torch", "reference"],
        Field(
            description="Which implementation runs the recurrence: Elman's own kernels, torch's, "
            "the readable loop; auto: the fastest for the shape."
        ),
    ] = "auto"
    threads: Annotated[
        int, Field(ge=0, le=1024, description="CPU threads; 0: as torch decides.")
    ] = 0
    seed: Annotated[
        int, Field(ge=0, lt=2**63, description="Seed of every random draw of the run.")
    ] = 1


@dataclass(frozen=True)
class Settings:
    """All settings of a language-model run, as `config.toml` holds them."""

    text: TextSettings = field(default_factory=TextSettings)
    data: DataSettings = field(default_factory=DataSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
