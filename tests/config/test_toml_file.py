"""Settings to TOML and back, and what is said of settings that cannot be."""

import tomllib
from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elman.config.fields import check_value, section_classes, setting_facts
from elman.config.model_settings import ModelSettings
from elman.config.settings import Settings
from elman.config.toml_file import apply_overrides, settings_from_toml, settings_to_toml
from elman.config.training_settings import TrainingSettings
from elman.errors import SettingError

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@st.composite
def any_settings(draw: st.DrawFn) -> Settings:
    """Settings whose every value is drawn from the range that its own facts declare."""
    strategies = {
        "text": texts,
        "texts": st.lists(texts, max_size=3).map(tuple),
        "numbers": st.lists(st.floats(-9, 9), max_size=3).map(tuple),
        "integers": st.lists(st.integers(-9, 9), max_size=3).map(tuple),
        "switch": st.booleans(),
        "integer": st.integers(1, 2**63 - 1),
        "number": st.floats(0, 1, exclude_min=True, exclude_max=True),
    }
    tables: dict[str, dict[str, object]] = {section: {} for section in section_classes()}
    bounded = {
        "threads": st.integers(0, 1024),
        "num_layers": st.integers(1, 256),
        "tail_divisor": st.floats(1, 16),
    }
    for facts in setting_facts():
        drawn = st.sampled_from(facts.choices) if facts.choices else strategies[facts.form]
        drawn = bounded.get(facts.name, drawn)
        tables[facts.section][facts.name] = draw(drawn)
    return Settings(**{name: cls(**tables[name]) for name, cls in section_classes().items()})


def message_of_toml(text: str) -> str:
    with pytest.raises(SettingError) as caught:
        settings_from_toml(text, name="my.toml")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def message_of_override(*overrides: str) -> str:
    with pytest.raises(SettingError) as caught:
        apply_overrides(Settings(), overrides)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@given(any_settings())
def test_settings_come_back_from_toml_exactly(settings: Settings) -> None:
    text = settings_to_toml(settings)
    assert settings_from_toml(text) == settings
    assert settings_to_toml(settings_from_toml(text)) == text
    as_tables = tomllib.loads(text)
    model = asdict(settings.model)  # TOML has lists where Python has tuples
    lists = {name: list(value) for name, value in model.items() if isinstance(value, tuple)}
    assert as_tables["model"] == {**model, **lists}
    assert lists.keys() == {"forget_biases", "cutoffs", "min_gram_counts"}


@pytest.mark.parametrize("raw", ["[1, -2.5]", "1, -2.5", "1,-2.5"])
def test_a_list_of_numbers_may_be_given_with_commas_alone(raw: str) -> None:
    settings = apply_overrides(Settings(), [f"model.forget_biases={raw}"])
    assert settings.model.forget_biases == (1.0, -2.5)


@pytest.mark.parametrize("raw", ["[20, 300]", "20,300", "20, 300"])
def test_integers_are_a_list_or_parted_by_commas(raw: str) -> None:
    settings = apply_overrides(Settings(), [f"model.cutoffs={raw}"])
    assert settings.model.cutoffs == (20, 300)
    message = message_of_override("model.cutoffs=2.5")
    assert "model.cutoffs must be a list of integers; got" in message


def test_a_list_of_numbers_holds_numbers() -> None:
    message = message_of_override("model.forget_biases=1,x")
    assert 'model.forget_biases must be a list of numbers; got "1,x"' in message


def test_the_file_holds_every_setting_in_the_order_of_the_code() -> None:
    tables = tomllib.loads(settings_to_toml(Settings()))
    keys = [f"{section}.{name}" for section, table in tables.items() for name in table]
    assert keys == [facts.key for facts in setting_facts()]
    assert len(keys) == sum(len(table) for table in asdict(Settings()).values())


def test_what_a_file_leaves_out_has_its_default() -> None:
    read = settings_from_toml("\ufeff[model]\r\nhidden_size = 7\r\n[training]\nlearning_rate = 1\n")
    assert read == Settings(
        model=ModelSettings(hidden_size=7), training=TrainingSettings(learning_rate=1.0)
    )
    assert isinstance(read.training.learning_rate, float)
    assert settings_from_toml("") == Settings()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model.hidden_size = 0", "model.hidden_size must be an integer >= 1; got 0"),
        ("model.hidden_size = 3.5", "model.hidden_size must be an integer >= 1; got 3.5"),
        ("model.hidden_size = 3.0", "model.hidden_size must be an integer >= 1; got 3.0"),
        ('model.hidden_size = "3"', 'model.hidden_size must be an integer >= 1; got "3"'),
        ("model.hidden_size = true", "model.hidden_size must be an integer >= 1; got true"),
        ("model.dropout = 1.0", "model.dropout must be a number >= 0 and < 1; got 1.0"),
        ("model.dropout = nan", "model.dropout must be a number >= 0 and < 1; got nan"),
        ("model.forget_bias = inf", "model.forget_bias must be a number; got inf"),
        ("model.tie_weights = 1", "model.tie_weights must be true or false; got 1"),
        (
            'model.kind = "lsmt"',
            "model.kind must be one of elman, gru, lstm, mgu, mingru, minlstm, ngram, window, "
            'transformer; got "lsmt"; did you mean lstm?',
        ),
        ("data.train = [1]", "data.train must be a list of texts; got [1]"),
        ('data.train = "a"', 'data.train must be a list of texts; got "a"'),
        (
            "training.updates = 9223372036854775808",
            "training.updates must be an integer >= 0; got 9223372036854775808",
        ),
        (
            "model.hiden_size = 3",
            "my.toml has an unknown setting; got model.hiden_size; did you mean model.hidden_size?",
        ),
        (
            "model.window = 3",
            "my.toml has an unknown setting; got model.window; did you mean training.window?",
        ),
        (
            "seed = 3",
            "my.toml has an unknown setting; got seed; did you mean training.seed?",
        ),
        (
            "[modell]\nkind = 'gru'",
            "my.toml has an unknown setting; got modell; did you mean model?",
        ),
        (
            "[zzz]\nqqq = 1",
            "my.toml has an unknown setting; got zzz; allowed: the sections text, data, model, "
            "training; docs/settings.md lists them all",
        ),
        (
            "model = 3",
            "model in my.toml must be a section of settings; got 3; "
            "write [model] on a line of its own, and below it key = value",
        ),
    ],
)
def test_a_wrong_setting_is_told_with_what_is_allowed(text: str, message: str) -> None:
    assert message_of_toml(text) == message


@pytest.mark.parametrize(
    "text",
    ["model", "[model", "a = 1\na = 2", "x = " + "9" * 5000, "x = " + "[" * 100_000, "[a]\n[a]"],
)
def test_what_is_no_toml_is_one_line(text: str) -> None:
    assert message_of_toml(text).startswith("my.toml is not valid TOML; got ")


def test_overrides_read_values_as_toml_does_and_bare_words_as_texts() -> None:
    changed = apply_overrides(
        Settings(),
        [
            "model.hidden_size=256",
            "model.kind = gru",
            'text.normal_form="NFC"',
            "model.tie_weights=true",
            "training.learning_rate=1e-3",
            "model.dropout=.5",
            "text.literal_unknown=<unk>",
            "text.encoding=1252",
            "data.train=a.txt, b c.txt",
            "data.valid=2024",
            'data.test="a,b.txt",c.txt',
        ],
    )
    assert (changed.model.hidden_size, changed.model.kind, changed.model.tie_weights) == (
        256,
        "gru",
        True,
    )
    assert (changed.text.normal_form, changed.text.literal_unknown) == ("NFC", "<unk>")
    assert changed.text.encoding == "1252"
    assert (changed.training.learning_rate, changed.model.dropout) == (0.001, 0.5)
    assert changed.data.train == ("a.txt", "b c.txt")
    assert changed.data.valid == ("2024",)
    assert changed.data.test == ("a,b.txt", "c.txt")


def test_quotes_keep_a_comma_inside_one_text() -> None:
    quoted = apply_overrides(Settings(), ['data.train="a,b.txt","c.txt"'])
    assert quoted.data.train == ("a,b.txt", "c.txt")
    listed = apply_overrides(Settings(), ['data.train=["a,b.txt"]'])
    assert listed.data.train == ("a,b.txt",)
    assert apply_overrides(listed, ["data.train="]).data.train == ()
    assert apply_overrides(listed, ["data.train=a\rb"]).data.train == ("a\rb",)


def test_a_later_override_wins_and_the_rest_stays() -> None:
    before = replace(Settings(), model=ModelSettings(num_layers=3))
    after = apply_overrides(before, ["model.hidden_size=1", "model.hidden_size=2"])
    assert after == replace(before, model=ModelSettings(num_layers=3, hidden_size=2))
    assert before.model.hidden_size == 384
    assert apply_overrides(before, []) == before


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model.hidden_size=3.5", "model.hidden_size must be an integer >= 1; got 3.5"),
        ("model.hidden_size=many", 'model.hidden_size must be an integer >= 1; got "many"'),
        ("model.hidden_size=", 'model.hidden_size must be an integer >= 1; got ""'),
        ("model.hidden_size=1\nx=2", 'model.hidden_size must be an integer >= 1; got "1\\nx=2"'),
        ("model.tie_weights=True", 'model.tie_weights must be true or false; got "True"'),
        (
            "model.hidden_size",
            '--set takes section.key=value; got "model.hidden_size"; '
            "for example --set model.hidden_size=256",
        ),
        (
            "hidden_size=3",
            "--set has an unknown setting; got hidden_size; did you mean model.hidden_size?",
        ),
        (
            "model.leraning_rate=1",
            "--set has an unknown setting; got model.leraning_rate; "
            "did you mean training.learning_rate?",
        ),
    ],
)
def test_a_wrong_override_is_told(override: str, message: str) -> None:
    assert message_of_override(override) == message


def test_a_text_that_toml_cannot_hold_is_refused_before_it_is_written() -> None:
    train = next(facts for facts in setting_facts() if facts.key == "data.train")
    with pytest.raises(SettingError, match=r"data\.train must be a list of texts"):
        check_value(train, ("name-\udc80.txt",))


def test_settings_built_in_python_are_checked_when_written() -> None:
    with pytest.raises(SettingError, match=r"model\.hidden_size must be an integer >= 1; got -1"):
        settings_to_toml(Settings(model=ModelSettings(hidden_size=-1)))


def test_what_a_file_leaves_out_is_as_in_the_base() -> None:
    base = apply_overrides(Settings(), ["model.hidden_size=48", "model.num_layers=2"])
    settings = settings_from_toml("[model]\nhidden_size = 64\n", base=base)
    assert (settings.model.hidden_size, settings.model.num_layers) == (64, 2)


def test_an_order_is_a_number_or_a_word() -> None:
    for raw, want in (("5", 5), ("auto", "auto"), ('"auto"', "auto")):
        settings = apply_overrides(Settings(), ["model.kind=ngram", f"model.order={raw}"])
        assert settings.model.order == want
        assert settings_from_toml(settings_to_toml(settings)) == settings
    for raw in ("0", "65", "many", "2.5"):
        message = message_of_override(f"model.order={raw}")
        assert "model.order must be an integer >= 1 and <= 64 or auto; got" in message
