"""The reference of all settings as Markdown, made from the dataclasses alone.

The file in the documentation is written by `python -m elman.config.reference > docs/settings.md`.
"""

from elman.config.fields import SettingFacts, section_classes, setting_facts, shown

_OPENING = """# Settings

Every setting of a run, as `config.toml` in its folder holds it. `--config FILE` loads such a file,
`--set section.name=value` overrides one value of it. This page is made from the code.
"""
_HEAD = "| setting | allowed | default | meaning |\n| --- | --- | --- | --- |\n"


def settings_reference() -> str:
    """Return one Markdown table a section: name, range, default and meaning of each setting."""
    parts = [_OPENING]
    for section, cls in section_classes().items():
        rows = "".join(_row(facts) for facts in setting_facts() if facts.section == section)
        parts.append(f"## {section}\n\n{cls.__doc__}\n\n{_HEAD}{rows}")
    return "\n".join(parts)


def _row(facts: SettingFacts) -> str:
    cells = (f"`{facts.key}`", facts.allowed, f"`{shown(facts.default)}`", facts.meaning)
    return "| " + " | ".join(_cell(cell) for cell in cells) + " |\n"


def _cell(text: str) -> str:
    """Return `text` so that Markdown shows it as it is: no cell border, no HTML, no reference."""
    if text.startswith("`"):
        return text
    for mark in ("|", "<", "[", "]"):
        text = text.replace(mark, "\\" + mark)
    return text


if __name__ == "__main__":
    print(settings_reference(), end="")
