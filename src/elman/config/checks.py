"""What settings must not be together: each clash is told before any work is done.

A setting that another one leaves without effect is a clash as soon as it is changed from its
default: silence would let a person believe that it acts.
"""

from collections.abc import Iterable, Iterator
from dataclasses import fields
from itertools import pairwise

from elman.config.fields import check_value, setting_facts, shown
from elman.config.kind_checks import CELL_KINDS, acts_on_counts, kind_clashes
from elman.config.model_settings import ModelSettings
from elman.config.ngram_settings import NgramModel
from elman.config.settings import Settings
from elman.config.tag_settings import TagData, TaggerModel
from elman.config.text_settings import TextSettings
from elman.config.translate_settings import PairData, TransductionModel
from elman.errors import SettingError


def _names_added(section: type) -> tuple[str, ...]:
    """Return the settings of a section that the section it widens, if any, has not."""
    (widened,) = section.__bases__
    return tuple(item.name for item in fields(section) if not hasattr(widened, item.name))


_OF_CELLS = (*("input", "initialisation", "layer_norm", "residual", "zoneout", "bias"),)
"""Settings that act in every recurrent cell, and in nothing else."""

# setting, the setting that decides whether it acts, and the values under which it does
_ACTS_ONLY_WITH = (
    ("model.bidirectional", "model.task", ("classify", "tag", "translate")),
    ("model.pooling", "model.task", ("classify",)),
    *((f"data.{name}", "model.task", ("tag",)) for name in _names_added(TagData)),
    *((f"model.{name}", "model.task", ("tag",)) for name in _names_added(TaggerModel)),
    ("data.format", "model.task", ("classify", "tag", "translate")),
    ("data.header", "model.task", ("classify", "translate")),
    ("data.delimiter", "model.task", ("classify", "translate")),
    ("data.bad_rows", "model.task", ("classify", "tag", "translate")),
    ("data.text_column", "model.task", ("classify",)),
    ("data.label_column", "model.task", ("classify",)),
    ("data.label_separator", "model.task", ("classify",)),
    ("data.max_length", "model.task", ("classify",)),
    ("training.class_weights", "model.task", ("classify",)),
    ("model.softmax", "model.task", ("lm",)),
    *((f"data.{name}", "model.task", ("translate",)) for name in _names_added(PairData)),
    *((f"model.{name}", "model.task", ("translate",)) for name in _names_added(TransductionModel)),
    ("text.target_level", "model.task", ("translate",)),
    ("text.direction", "model.task", ("lm",)),
    ("training.scheduled_sampling", "model.task", ("translate",)),
    ("model.attention_bias", "model.attention", ("projected",)),
    ("model.attention_size", "model.attention", ("additive", "multi_head")),
    ("model.coverage", "model.attention", ("additive",)),
    *((f"model.{name}", "model.kind", ("ngram",)) for name in _names_added(NgramModel)),
    ("model.context_length", "model.kind", ("window", "transformer")),
    ("model.direct_connections", "model.kind", ("window",)),
    ("model.positions", "model.kind", ("transformer",)),
    ("model.num_heads", "model.kind", ("transformer",)),
    *((f"model.{name}", "model.kind", CELL_KINDS) for name in _OF_CELLS),
    ("model.embedding_size", "model.kind", (*CELL_KINDS, "window")),
    ("training.recompute", "model.kind", CELL_KINDS),
    ("model.added_count", "model.smoothing", ("add_k",)),
    ("model.num_layers", "model.kind", (*CELL_KINDS, "transformer")),
    ("model.activation", "model.kind", ("elman",)),
    ("model.reset", "model.kind", ("gru",)),
    ("model.update", "model.kind", ("gru",)),
    ("model.forget_bias", "model.kind", ("lstm", "minlstm")),
    ("model.forget_biases", "model.kind", ("lstm", "minlstm")),
    ("model.peepholes", "model.kind", ("lstm",)),
    ("model.coupled", "model.kind", ("lstm",)),
    ("model.projection_size", "model.kind", ("lstm",)),
    ("model.zoneout_cell", "model.kind", ("lstm",)),
    ("model.recurrent_dropout", "model.kind", ("elman", "gru", "lstm", "mgu")),
    ("model.weight_dropout", "model.kind", ("elman", "gru", "lstm", "mgu")),
    ("model.embedding_size", "model.input", ("embedding",)),
    ("model.embedding_std", "model.input", ("embedding",)),
    ("model.token_dropout", "model.input", ("embedding",)),
    ("model.cutoffs", "model.softmax", ("adaptive",)),
    ("model.tail_divisor", "model.softmax", ("adaptive",)),
    ("training.label_smoothing", "model.softmax", ("full",)),
    ("text.start", "text.unit", ("stream",)),
    ("training.window_deviation", "text.unit", ("stream",)),
    ("training.activation_penalty", "model.task", ("lm",)),
    ("training.change_penalty", "model.task", ("lm",)),
    ("training.change_penalty", "model.kind", CELL_KINDS),
    ("text.literal_unknown", "text.level", ("word",)),
    ("text.min_count", "text.level", ("char", "word")),
    ("text.vocabulary_size", "text.level", ("char", "word", "bpe")),
    ("training.momentum", "training.optimizer", ("sgd",)),
    ("training.beta1", "training.optimizer", ("adam", "adamw", "muon")),
    ("training.beta2", "training.optimizer", ("adam", "adamw", "muon")),
    ("training.step_every", "training.schedule", ("step",)),
    ("training.step_factor", "training.schedule", ("step",)),
    ("training.final_rate", "training.schedule", ("cosine", "linear")),
)


def acts_with_kind(key: str, kind: str) -> bool:
    """Return whether the setting `key`, such as `model.order`, says something to a `model.kind`."""
    if kind == "ngram":
        return acts_on_counts(key)
    return all(
        kind in values
        for name, decider, values in _ACTS_ONLY_WITH
        if (name, decider) == (key, "model.kind")
    )


def acts_in(key: str, settings: Settings) -> bool:
    """Return whether the setting `key` says something where all else is as in `settings`."""
    return acts_with_kind(key, settings.model.kind) and all(
        _value_of(settings, decider) in values
        for name, decider, values in _ACTS_ONLY_WITH
        if name == key
    )


def check_settings(settings: Settings) -> None:
    """Raise `SettingError` for the first value out of its range, and for the first clash.

    Values are checked here again, so that settings built in Python are held to the same rules as
    those read from a file.
    """
    for facts in setting_facts():
        check_value(facts, _value_of(settings, facts.key))
    for clash in _clashes(settings):
        raise clash


def _clashes(settings: Settings) -> Iterator[SettingError]:
    yield from _without_effect(settings)
    yield from _text_clashes(settings.text)
    yield from _data_clashes(settings)
    yield from _model_clashes(settings.model)
    yield from kind_clashes(settings)
    yield from _classifier_clashes(settings)
    if settings.model.task == "tag":
        yield from _tag_clashes(settings)
    if settings.model.task == "translate":
        yield from _transduction_clashes(settings)
    training = settings.training
    if training.average_decay and training.average_trigger:
        yield SettingError(
            "weights are averaged all along or from a trigger on",
            got=f"training.average_decay = {training.average_decay:g} and "
            f"training.average_trigger = {training.average_trigger}",
            allowed="one of them, the other 0",
        )
    if training.epochs and training.updates:
        yield SettingError(
            "training.epochs and training.updates both say when to stop",
            got=f"epochs = {training.epochs} and updates = {training.updates}",
            allowed="one of them, the other 0",
        )
    if settings.text.unit == "stream" and training.recompute >= training.window:
        yield SettingError(
            "training.recompute must be below training.window, or no block is left out",
            got=f"recompute = {training.recompute} with window = {training.window}",
            hint="about the square root of the window needs least memory; 0 is off",
        )
    if training.recompute and settings.model.bidirectional:
        yield SettingError(
            "training.recompute is for models that read in one direction",
            got=f"recompute = {training.recompute} with model.bidirectional = true",
            hint="set training.recompute = 0, or model.bidirectional = false",
        )


def _without_effect(settings: Settings) -> Iterator[SettingError]:
    defaults = {facts.key: facts.default for facts in setting_facts()}
    for key, decider, values in _ACTS_ONLY_WITH:
        value, decision = _value_of(settings, key), _value_of(settings, decider)
        if value != defaults[key] and decision not in values:
            yield SettingError(
                f"{key} has an effect only with {decider} = {_any_of(values)}",
                got=f"{key} = {shown(value)} with {decider} = {shown(decision)}",
                hint=f"leave {key} at {shown(defaults[key])}, or change {decider}",
            )


def _text_clashes(text: TextSettings) -> Iterator[SettingError]:
    if text.prompt_unknown == "replace" and text.unknown != "replace":
        yield SettingError(
            'text.prompt_unknown = "replace" needs text.unknown = "replace"',
            got=f"text.unknown = {shown(text.unknown)}",
            hint="without it the vocabulary has no symbol to replace by",
        )
    if text.literal_unknown and text.unknown != "replace":
        yield SettingError(
            'text.literal_unknown needs text.unknown = "replace"',
            got=f"text.unknown = {shown(text.unknown)}",
            hint="without it the vocabulary has no unknown word",
        )
    if text.literal_unknown and text.literal_unknown.split() != [text.literal_unknown]:
        yield SettingError(
            "text.literal_unknown must be one word without white space",
            got=shown(text.literal_unknown),
        )
    try:
        "".encode(text.encoding)
    except (LookupError, ValueError):
        yield SettingError(
            "text.encoding must be a text encoding that Python knows",
            got=shown(text.encoding),
            allowed="utf-8, utf-16, latin-1, cp1252 and so on",
        )


def _model_clashes(model: ModelSettings) -> Iterator[SettingError]:
    if model.layer_norm in ("cell", "both") and model.kind != "lstm":
        yield SettingError(
            f"model.layer_norm = {shown(model.layer_norm)} has an effect only with "
            'model.kind = "lstm"',
            got=f"model.kind = {shown(model.kind)}",
            hint='set model.layer_norm = "layers", or change model.kind',
        )
    if model.tie_weights and model.input == "one-hot":
        yield SettingError(
            "model.tie_weights needs an embedding to share",
            got='model.input = "one-hot"',
            hint='set model.input = "embedding"',
        )
    if model.tie_weights and model.tail_divisor != ModelSettings().tail_divisor:
        yield SettingError(
            "model.tail_divisor has no effect with model.tie_weights = true: every class is as "
            "wide as the embedding",
            got=shown(model.tail_divisor),
            hint="leave it out, or set model.tie_weights = false",
        )
    if any(left >= right for left, right in pairwise((0, *model.cutoffs))):
        yield SettingError(
            "model.cutoffs must rise strictly from 1 on",
            got=shown(model.cutoffs),
            hint="for example [2000, 10000]; empty, they are chosen",
        )
    if model.forget_biases and len(model.forget_biases) != model.num_layers:
        yield SettingError(
            "model.forget_biases must have one number for each layer",
            got=f"{len(model.forget_biases)} for model.num_layers = {model.num_layers}",
        )
    if model.projection_size > model.hidden_size:
        yield SettingError(
            "model.projection_size must be at most model.hidden_size",
            got=f"{model.projection_size} for {model.hidden_size} units",
        )


def _classifier_clashes(settings: Settings) -> Iterator[SettingError]:
    text, data, model = settings.text, settings.data, settings.model
    if model.task != "classify":
        if model.input == "series":
            yield SettingError(
                'model.input = "series" has an effect only with model.task = "classify"',
                got=f"model.task = {shown(model.task)}",
            )
        return
    for key, value, needed in (
        ("text.unit", text.unit, "line"),
        ("model.tie_weights", model.tie_weights, False),
    ):
        if value != needed:
            yield SettingError(f"{key} of a classifier must be {shown(needed)}", got=shown(value))
    if data.format in ("conll", "conllu", "text"):
        yield SettingError(
            "data.format must be one that holds labels of whole texts",
            got=shown(data.format),
            allowed="auto, tsv, csv, jsonl, class-files or class-folders",
        )
    if model.input == "series" and data.format in ("class-files", "class-folders"):
        yield SettingError(
            "series are read from a table",
            got=f"data.format = {shown(data.format)}",
            allowed="auto, tsv, csv or jsonl",
        )
    if model.input == "series" and (data.label_separator or data.text_column):
        yield SettingError(
            "a series has one label and all other columns are its numbers",
            got=f"label_separator = {shown(data.label_separator)} and "
            f"text_column = {shown(data.text_column)}",
            allowed="both empty",
        )


def _tag_clashes(settings: Settings) -> Iterator[SettingError]:
    text, model = settings.text, settings.model
    for key, value, needed in (
        ("text.level", text.level, "word"),
        ("text.unit", text.unit, "line"),
        ("text.unknown", text.unknown, "replace"),
        ("text.literal_unknown", text.literal_unknown, ""),
        ("model.input", model.input, "embedding"),
        ("model.tie_weights", model.tie_weights, False),
    ):
        if value != needed:
            yield SettingError(
                f"{key} of a tagger must be {shown(needed)}: a token is a word of a sentence",
                got=shown(value),
            )
    if settings.data.format not in ("auto", "conll", "conllu"):
        yield SettingError(
            "data.format of a tagger must be one that holds a tag for each token",
            got=shown(settings.data.format),
            allowed="auto, conll or conllu",
        )
    if model.head == "crf" and settings.training.label_smoothing:
        yield SettingError(
            'training.label_smoothing has no effect with model.head = "crf"',
            got=str(settings.training.label_smoothing),
            hint='set model.head = "softmax", or no smoothing',
        )


def _transduction_clashes(settings: Settings) -> Iterator[SettingError]:
    text, data, model = settings.text, settings.data, settings.model
    if text.unit != "line":
        yield SettingError("text.unit of pairs must be line", got=shown(text.unit))
    if model.input == "series":
        yield SettingError("model.input of pairs must be of tokens", got=shown(model.input))
    if model.attention != "none" and model.context == "state":
        yield SettingError(
            'model.context = "state" needs model.attention = "none"',
            got=f"model.attention = {shown(model.attention)}",
            allowed="transition, output or both",
        )
    for part in ("train", "valid", "test"):
        sides = getattr(data, part), getattr(data, f"{part}_target")
        if sides[1] and len(sides[0]) != len(sides[1]):
            yield SettingError(
                f"data.{part} and data.{part}_target must name as many files as each other",
                got=f"{len(sides[0])} and {len(sides[1])}",
            )
    readers = (model.encoder_size or model.hidden_size) * (2 if model.bidirectional else 1)
    if model.attention in ("dot", "scaled_dot") and readers != model.hidden_size:
        yield SettingError(
            f"{model.attention} attention needs an encoder as wide as the decoder",
            got=f"{readers} and {model.hidden_size}",
            hint="set model.encoder_size to half of model.hidden_size where both ways are read, or "
            'model.attention = "projected"',
        )


def _data_clashes(settings: Settings) -> Iterator[SettingError]:
    data = settings.data
    held_out = (0.0 if data.valid else data.valid_fraction) + (
        0.0 if data.test else data.test_fraction
    )
    if held_out >= 1.0:
        yield SettingError(
            "data.valid_fraction and data.test_fraction must leave text to learn from",
            got=f"{data.valid_fraction:g} and {data.test_fraction:g}",
            allowed="a sum below 1",
        )
    is_stream = settings.model.task == "lm" and settings.text.unit == "stream"
    if is_stream and data.split == "shuffled":
        yield SettingError(
            'data.split = "shuffled" is for texts of lines that stand alone',
            got='text.unit = "stream", whose tail is held out',
            hint="set text.unit = line, or leave data.split out",
        )


def _value_of(settings: Settings, key: str) -> object:
    section, name = key.split(".")
    value: object = getattr(getattr(settings, section), name)
    return value


def _any_of(values: Iterable[str]) -> str:
    return " or ".join(shown(value) for value in values)
