"""Settings from TOML, to TOML, and with single values overridden (`--set section.key=value`).

What is read here is checked value by value. What settings must not be together is the matter of
`elman.config.checks`, once all overrides are applied.
"""

import csv
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any

import tomli_w

from elman.config.fields import (
    SettingFacts,
    check_value,
    nearest,
    section_classes,
    setting_facts,
    shown,
)
from elman.config.settings import Settings
from elman.errors import SettingError


def settings_from_toml(
    text: str, *, name: str = "the configuration", base: Settings | None = None
) -> Settings:
    """Return the settings that the TOML `text` holds; what it leaves out is as in `base`.

    Without `base`, as the defaults are.

    `name` is what errors call the text, the path of its file for example. Raises `SettingError`
    where it is no TOML, for an unknown section or key (naming the nearest known one), and for a
    value that its setting cannot have.
    """
    tables = _tables_of(text, name)
    values = _values_of(base or Settings())
    known = {facts.key: facts for facts in setting_facts()}
    for section, table in tables.items():
        for key, value in table.items():
            full = f"{section}.{key}"
            if full not in known:
                raise _unknown_key(full, known, name)
            values[section, key] = check_value(known[full], value)
    return _settings_of(values)


def keys_of_toml(text: str, *, name: str = "the configuration") -> list[str]:
    """Return the keys, as model.order, that the TOML `text` sets; raises where it is no TOML."""
    tables = _tables_of(text, name)
    return [f"{section}.{key}" for section, table in tables.items() for key in table]


def without_settings(
    text: str, drop: Callable[[str], bool], *, name: str = "the configuration"
) -> str:
    """Return the TOML `text` without the settings whose key, as model.order, `drop` names.

    Its comments are lost. Raises as `settings_from_toml` where it is no TOML.
    """
    return tomli_w.dumps(
        {
            section: {key: value for key, value in table.items() if not drop(f"{section}.{key}")}
            for section, table in _tables_of(text, name).items()
        }
    )


def settings_to_toml(settings: Settings) -> str:
    """Return `settings` as TOML: every setting, in the order of the dataclasses.

    `settings_from_toml` gives equal settings back, and equal settings give equal texts. Raises
    `SettingError` for a value that its setting cannot have.
    """
    tables: dict[str, dict[str, object]] = {section: {} for section in section_classes()}
    for facts in setting_facts():
        value = check_value(facts, getattr(getattr(settings, facts.section), facts.name))
        tables[facts.section][facts.name] = list(value) if isinstance(value, tuple) else value
    return tomli_w.dumps(tables)


def apply_overrides(settings: Settings, overrides: Iterable[str]) -> Settings:
    """Return `settings` with each of `overrides`, such as `model.hidden_size=256`, set in turn.

    A value is read as TOML reads it; a word without quotes is a text; where a list of texts is
    meant, texts parted by commas are one. Raises `SettingError` as `settings_from_toml` does.
    """
    known = {facts.key: facts for facts in setting_facts()}
    values = _values_of(settings)
    for override in overrides:
        key = key_of_override(override)
        _, equals, raw = override.partition("=")
        if not equals:
            raise SettingError(
                "--set takes section.key=value",
                got=shown(override),
                hint="for example --set model.hidden_size=256",
            )
        if key not in known:
            raise _unknown_key(key, known, "--set")
        facts = known[key]
        values[facts.section, facts.name] = check_value(facts, _read_value(facts, raw.strip()))
    return _settings_of(values)


def key_of_override(override: str) -> str:
    """Return the key of an override, such as model.order of model.order=3."""
    return override.partition("=")[0].strip()


def _tables_of(text: str, name: str) -> dict[str, dict[str, Any]]:
    """Return the sections of the TOML `text`; raises `SettingError` for anything else."""
    try:
        tables = tomllib.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise SettingError(f"{name} is not valid TOML", got=str(error)) from None
    for section, table in tables.items():
        if section not in section_classes():
            raise _unknown_key(section, {facts.key: facts for facts in setting_facts()}, name)
        if not isinstance(table, dict):
            raise SettingError(
                f"{section} in {name} must be a section of settings",
                got=shown(table),
                hint=f"write [{section}] on a line of its own, and below it key = value",
            )
    return tables


def _values_of(settings: Settings) -> dict[tuple[str, str], object]:
    return {
        (section, name): value
        for section, table in asdict(settings).items()
        for name, value in table.items()
    }


def _settings_of(values: Mapping[tuple[str, str], object]) -> Settings:
    sections: dict[str, Any] = {
        section: cls(**{name: value for (at, name), value in values.items() if at == section})
        for section, cls in section_classes().items()
    }
    return Settings(**sections)


def _read_value(facts: SettingFacts, raw: str) -> object:
    value = _read_toml(raw)
    if facts.form == "texts":
        return _read_texts(raw, value)
    if facts.form in ("numbers", "integers"):
        return value if isinstance(value, list) else _read_toml(f"[{raw}]") or raw
    if facts.form in ("text", "choice"):
        return value if isinstance(value, str) else raw
    if value is None and facts.form == "number":
        try:  # TOML knows no .5 and no 1.
            return float(raw)
        except ValueError:
            return raw
    return raw if value is None else value


def _read_texts(raw: str, value: object) -> object:
    if isinstance(value, list):
        return value
    quoted = _read_toml(f"[{raw}]")
    if isinstance(quoted, list) and all(isinstance(item, str) for item in quoted):
        return quoted
    try:
        parts = next(csv.reader([raw], skipinitialspace=True), [])
    except csv.Error:  # a line end inside
        parts = [raw]
    return [part.strip() for part in parts if part.strip()]


def _read_toml(raw: str) -> object:
    """Return the value that `raw` spells in TOML, or None (which TOML has not) where it is none."""
    try:
        table = tomllib.loads(f"value = {raw}")
    except (ValueError, RecursionError):
        return None
    return table["value"] if table.keys() == {"value"} else None


def _unknown_key(key: str, known: Mapping[str, SettingFacts], where: str) -> SettingError:
    section, _, name = key.rpartition(".")
    namesakes = [facts.key for facts in known.values() if facts.name == name]
    in_section = [facts.name for facts in known.values() if facts.section == section]
    near = nearest(name, [facts.name for facts in known.values()])
    like_section = "" if section else nearest(name, section_classes())
    if like_section and not namesakes:
        namesakes = [like_section]
    elif near not in in_section:
        namesakes += [facts.key for facts in known.values() if facts.name == near]
    if namesakes:
        meant = namesakes[0]
    elif near:
        meant = f"{section}.{near}"
    else:
        meant = nearest(key, [*known, *section_classes()])
    hint = f"did you mean {meant}?" if meant else "docs/settings.md lists them all"
    allowed = ""
    if not meant and not in_section:
        allowed = "the sections " + ", ".join(section_classes())
    return SettingError(f"{where} has an unknown setting", got=key, allowed=allowed, hint=hint)
