"""The settings of how weights are learnt."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from elman.config.reading_settings import Count, OrNone, RowTraining, Share


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
    activation_penalty: Annotated[
        float,
        Field(
            ge=0.0,
            allow_inf_nan=False,
            description="Language models: weight of the mean square of what the output reads, "
            "added to what is minimised (AR).",
        ),
    ] = 0.0
    change_penalty: Annotated[
        float,
        Field(
            ge=0.0,
            allow_inf_nan=False,
            description="Language models: weight of the mean square of how much the last layer's "
            "output changes from step to step (TAR).",
        ),
    ] = 0.0
    window_deviation: Annotated[
        float,
        Field(
            ge=0.0,
            allow_inf_nan=False,
            description="stream: windows are of lengths by chance with this deviation, one in "
            "twenty half as long, and weigh as many as they hold; 0: all alike.",
        ),
    ] = 0.0
    average_trigger: Annotated[
        OrNone,
        Field(
            description="Begin to average the weights once a validation is worse than the best one "
            "of more than this many ago, the mean of all since; 0: never."
        ),
    ] = 0
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
    keep_last: Annotated[
        OrNone,
        Field(
            description="Checkpoints kept in kept/ beside the latest, each a run of its own: the "
            "last so many."
        ),
    ] = 0
    keep_best: Annotated[
        OrNone,
        Field(description="Checkpoints kept in kept/: so many of the lowest validation loss."),
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
