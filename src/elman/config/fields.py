"""What is known of each setting, read from the dataclasses, and the check of one value."""

import difflib
import json
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from elman.config.settings import Settings
from elman.errors import SettingError

Form = Literal["integer", "number", "switch", "choice", "text", "texts", "numbers", "integers"]
_FORM_OF_TYPE = ((bool, "switch"), (int, "integer"), (float, "number"), (str, "text"))
_WORDS = (
    ("integer", "an integer"),
    ("number", "a number"),
    ("switch", "true or false"),
    ("text", "a text"),
    ("texts", "a list of texts"),
    ("numbers", "a list of numbers"),
    ("integers", "a list of integers"),
)
_BOUNDS = (("ge", ">="), ("gt", ">"), ("le", "<="), ("lt", "<"))
_TOML_INTEGERS = 2**63  # a TOML integer is a signed one of 64 bits
_LONGEST_SHOWN = 80


@dataclass(frozen=True)
class SettingFacts:
    """One setting: where it stands, what it may be, what it is unless set, what it means."""

    section: str
    name: str
    form: Form
    allowed: str
    choices: tuple[str, ...]
    default: object
    meaning: str
    annotation: Any

    @property
    def key(self) -> str:
        """The full name, such as `model.hidden_size`."""
        return f"{self.section}.{self.name}"


def setting_facts() -> tuple[SettingFacts, ...]:
    """Return the facts of every setting, in the order in which the dataclasses declare them."""
    return tuple(
        facts
        for section, cls in section_classes().items()
        for facts in _facts_of_section(section, cls)
    )


def section_classes() -> dict[str, type]:
    """Return the dataclass of each section, by the name of the section."""
    return {item.name: item.type for item in fields(Settings) if isinstance(item.type, type)}


def check_value(facts: SettingFacts, value: object) -> object:
    """Return `value` as its setting holds it: an integer given for a number becomes a float.

    Nothing else is converted: 3.0 is no integer, 1 is no switch, "3" is no number. Raises
    `SettingError` naming the setting, what it must be and the value got.
    """
    if facts.form in ("texts", "numbers", "integers") and isinstance(value, list):
        value = tuple(value)
    try:
        checked = TypeAdapter(facts.annotation).validate_python(value, strict=True)
        _refuse_what_toml_cannot_hold(checked)
    except (ValidationError, UnicodeEncodeError, OverflowError):
        near = nearest(value, facts.choices) if isinstance(value, str) else ""
        raise SettingError(
            f"{facts.key} must be {facts.allowed}",
            got=shown(value),
            hint=f"did you mean {near}?" if near else "",
        ) from None
    return checked


def shown(value: object, *, deepest: int = 8) -> str:
    """Return `value` as TOML would write it, cut when long or deep: what an error shows as got."""
    if isinstance(value, tuple | list):
        inner = (shown(item, deepest=deepest - 1) for item in value) if deepest else ("…",)
        text = "[" + ", ".join(inner) + "]"
    elif isinstance(value, str | bool):
        text = json.dumps(value, ensure_ascii=False)
    else:
        text = str(value)
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"


def nearest(word: str, allowed: Iterable[str]) -> str:
    """Return the entry of `allowed` that `word` most resembles, or "" where none is near."""
    found = difflib.get_close_matches(word, list(allowed), n=1, cutoff=0.5)
    return found[0] if found else ""


def _facts_of_section(section: str, cls: type) -> Iterable[SettingFacts]:
    hints = get_type_hints(cls, include_extras=True)
    for item in fields(cls):
        annotation = hints[item.name]
        base, notes = _unwrap(annotation)
        choices = _choices_of(base)
        form = _form_of(base)
        yield SettingFacts(
            section=section,
            name=item.name,
            form=form,
            allowed=_allowed(form, choices, notes),
            choices=choices,
            default=_default_of(item),
            meaning=next((note.description for note in notes if note.description), ""),
            annotation=annotation,
        )


def _unwrap(annotation: Any) -> tuple[Any, tuple[FieldInfo, ...]]:
    """Return what a setting is, and what is said of it; of an integer or a word, both."""
    if get_origin(annotation) is not Annotated:
        return annotation, ()
    base, *notes = get_args(annotation)
    told = tuple(note for note in notes if isinstance(note, FieldInfo))
    if _is_number_or_word(base):
        number, _ = get_args(base)
        told += _unwrap(number)[1]
    return base, told


def _is_choice(base: Any) -> bool:
    return get_origin(base) is Literal


def _is_number_or_word(base: Any) -> bool:
    return get_origin(base) in (Union, UnionType)


def _choices_of(base: Any) -> tuple[str, ...]:
    if _is_number_or_word(base):
        return _choices_of(get_args(base)[1])
    return tuple(str(choice) for choice in get_args(base)) if _is_choice(base) else ()


def _form_of(base: Any) -> Form:
    if _is_number_or_word(base):
        return "integer"
    if _is_choice(base):
        return "choice"
    if get_origin(base) is tuple:
        lists: dict[Any, Form] = {float: "numbers", int: "integers", str: "texts"}
        return lists[get_args(base)[0]]
    for kind, form in _FORM_OF_TYPE:
        if base is kind:
            return form  # type: ignore[return-value]  # every second entry of the table is a Form
    raise TypeError(f"a setting cannot be of type {base!r}")


def _allowed(form: Form, choices: tuple[str, ...], notes: Sequence[FieldInfo]) -> str:
    if choices and form == "choice":
        return "one of " + ", ".join(choices)
    bounds = [
        f"{sign} {_bound_text(getattr(rule, name))}"
        for name, sign in _BOUNDS
        for note in notes
        for rule in note.metadata
        if hasattr(rule, name)
    ]
    words = " or ".join(["", *choices])
    return " ".join([dict(_WORDS)[form], " and ".join(bounds)]).strip() + words


def _bound_text(bound: float) -> str:
    return "2^63" if bound == 2**63 else f"{bound:g}"


def _default_of(item: "Field[Any]") -> object:
    if item.default is MISSING:
        raise TypeError(f"the setting {item.name} has no default")
    return item.default


def _refuse_what_toml_cannot_hold(value: object) -> None:
    """Raise where config.toml could not hold `value`: lone surrogates, integers over 64 bits."""
    if isinstance(value, str):
        value.encode()
    elif isinstance(value, tuple):
        for item in value:
            _refuse_what_toml_cannot_hold(item)
    elif isinstance(value, int) and not -_TOML_INTEGERS <= value < _TOML_INTEGERS:
        raise OverflowError
