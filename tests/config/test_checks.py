"""Settings that clash are refused; the defaults and what fits together are not."""

import pytest

from elman.config.checks import check_settings
from elman.config.model_settings import ModelSettings
from elman.config.settings import Settings
from elman.config.toml_file import apply_overrides
from elman.errors import SettingError

CLASHES = [
    (["training.epochs=2", "training.updates=5"], "both say when to stop; got epochs = 2 and"),
    (
        ["text.prompt_unknown=replace", "text.unknown=refuse"],
        'text.prompt_unknown = "replace" needs text.unknown = "replace"; got text.unknown',
    ),
    (["text.literal_unknown=<unk>"], 'an effect only with text.level = "word"; got'),
    (
        ["text.literal_unknown=<unk>", "text.level=word", "text.unknown=skip"],
        'text.literal_unknown needs text.unknown = "replace"',
    ),
    (["text.literal_unknown=a b", "text.level=word"], "one word without white space"),
    (["text.start=mark", "text.unit=line"], 'text.start has an effect only with text.unit = "str'),
    (["text.encoding=utf-9"], 'that Python knows; got "utf-9"'),
    (["text.encoding=rot13"], 'that Python knows; got "rot13"'),
    (["text.level=byte", "text.min_count=2"], "text.min_count has an effect only with"),
    (["text.level=byte", "text.vocabulary_size=300"], "text.vocabulary_size has an effect only"),
    (
        ["model.activation=relu"],
        'model.activation has an effect only with model.kind = "elman"; got model.activation = '
        '"relu" with model.kind = "lstm"; leave model.activation at "tanh", or change model.kind',
    ),
    (["model.reset=before"], 'model.reset has an effect only with model.kind = "gru"'),
    (["model.update=replace", "model.kind=elman"], "model.update has an effect only with"),
    (["model.forget_bias=0", "model.kind=gru"], 'with model.kind = "lstm"'),
    (["training.momentum=0.9"], 'with training.optimizer = "sgd"'),
    (["training.beta1=0.8", "training.optimizer=sgd"], '= "adam" or "adamw"'),
    (["training.step_every=5"], 'with training.schedule = "step"'),
    (["training.final_rate=0.1", "training.schedule=constant"], '= "cosine" or "linear"'),
    (["model.cutoffs=20,30"], 'model.cutoffs has an effect only with model.softmax = "adaptive"'),
    (["model.tail_divisor=2"], 'model.tail_divisor has an effect only with model.softmax = "adap'),
    (["model.softmax=adaptive", "model.cutoffs=20,20"], "rise strictly from 1 on; got [20, 20]"),
    (["model.softmax=adaptive", "model.cutoffs=0,20"], "rise strictly from 1 on; got [0, 20]"),
    (
        ["model.softmax=adaptive", "model.tie_weights=true", "model.tail_divisor=2"],
        "every class is as wide as the embedding; got 2.0; leave it out, or set model.tie_weights",
    ),
    (
        ["model.softmax=adaptive", "training.label_smoothing=0.1"],
        'training.label_smoothing has an effect only with model.softmax = "full"',
    ),
    (["model.order=3"], 'model.order has an effect only with model.kind = "ngram"'),
    (
        ["model.kind=ngram", "model.hidden_size=9"],
        'no effect with model.kind = "ngram"; got model.hidden_size = 9; leave it out: it says',
    ),
    (
        ["model.kind=ngram", "training.epochs=9"],
        'training.epochs has no effect with model.kind = "',
    ),
    (
        ["model.kind=window", "model.zoneout=0.1"],
        "model.zoneout has an effect only with model.kind",
    ),
    (["model.kind=gru", "model.num_heads=2"], "model.num_heads has an effect only with model.kind"),
    (["model.kind=transformer", "model.hidden_size=20"], "even width; got model.hidden_size = 20"),
    (["model.task=tag", "model.kind=window"], 'model.kind = "window" is a language model'),
    (
        ["model.kind=window", "model.direct_connections=true", "model.tie_weights=true"],
        "another matrix than the embedding",
    ),
    (["model.head=crf"], 'model.head has an effect only with model.task = "tag"'),
    (["model.task=translate", "text.unit=line", "model.head=crf"], 'with model.task = "tag"; got'),
    (["model.task=translate", "text.unit=line", "data.tag_column=2"], 'with model.task = "tag"'),
    (["model.task=tag", "model.attention=dot"], 'with model.task = "translate"; got'),
    (["model.task=classify", "model.encoder_size=8"], 'only with model.task = "translate"'),
    (["model.task=tag", "data.train_target=a.txt"], 'only with model.task = "translate"'),
    (["training.recompute=64"], "got recompute = 64 with window = 64; about the square root"),
    (
        [
            "training.recompute=8",
            "model.task=classify",
            "text.unit=line",
            "model.bidirectional=true",
        ],
        "one direction; got recompute = 8 with model.bidirectional = true; set training.recomp",
    ),
    (["model.pooling=max"], 'model.pooling has an effect only with model.task = "classify"'),
    (["data.text_column=2"], 'data.text_column has an effect only with model.task = "classify"'),
    (
        ["model.softmax=adaptive", "model.task=classify", "text.unit=line"],
        'model.softmax has an effect only with model.task = "lm"',
    ),
    (["data.valid_fraction=0.5", "data.test_fraction=0.5"], "got 0.5 and 0.5; allowed: a sum"),
    (["data.split=shuffled"], "is for texts of lines that stand alone; got text.unit"),
]


@pytest.mark.parametrize(("overrides", "part"), CLASHES)
def test_a_clash_is_refused_in_one_line(overrides: list[str], part: str) -> None:
    settings = apply_overrides(Settings(), overrides)
    with pytest.raises(SettingError) as caught:
        check_settings(settings)
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["training.epochs=2"],
        ["training.updates=5"],
        ["text.prompt_unknown=replace"],
        ["text.literal_unknown=<unk>", "text.level=word", "text.vocabulary_size=9"],
        ["text.start=mark"],
        ["training.recompute=8"],
        ["training.label_smoothing=0.1"],
        ["model.softmax=adaptive", "model.cutoffs=20,30", "model.tail_divisor=2"],
        ["training.recompute=100", "text.unit=line"],
        ["text.unit=line", "text.start=none"],
        ["model.kind=elman", "model.activation=relu"],
        ["model.kind=gru", "model.reset=before", "model.update=replace"],
        ["model.kind=gru", "model.forget_bias=1.0"],
        ["training.optimizer=sgd", "training.momentum=0.9"],
        ["training.schedule=step", "training.step_every=5", "training.step_factor=1"],
        ["data.valid=v", "data.valid_fraction=0.5", "data.test_fraction=0.5"],
        ["text.level=byte"],
        ["model.kind=ngram", "model.order=3", "model.smoothing=add_k", "model.added_count=0.5"],
        ["model.kind=window", "model.context_length=2", "model.direct_connections=true"],
        ["model.kind=transformer", "model.num_heads=8", "model.num_layers=3"],
    ],
)
def test_what_fits_together_passes(overrides: list[str]) -> None:
    check_settings(apply_overrides(Settings(), overrides))


def test_values_of_settings_built_in_python_are_checked_too() -> None:
    with pytest.raises(SettingError, match="num_layers must be an integer >= 1 and <= 256; got 0"):
        check_settings(Settings(model=ModelSettings(num_layers=0)))
