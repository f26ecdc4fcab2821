"""The text of a run again: from the arrays that it left, or else from the files it was made of."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from elman.config.settings import Settings
from elman.data.token_array import LineArray, TokenArray, open_line_array, open_token_array
from elman.errors import DataError, RunError
from elman.recipes.prepared_text import PART_NAMES, Part, PartName, PreparedText
from elman.recipes.preparing import prepare_text
from elman.text.tokenizer import Tokenizer


def reopen_prepared(
    settings: Settings, tokenizer: Tokenizer, scratch: Path, recorded: Mapping[str, object]
) -> PreparedText:
    """Return what `prepare_text` made for a run, from its arrays or else from the files again.

    `recorded` is the section `data` of the manifest. Raises `RunError` where the ids are no longer
    those that the run began with.
    """
    try:
        facts = cast(dict[PartName, dict[str, Any]], recorded["parts"])
        _check_facts(facts)
        parts = {
            name: _reopen_part(settings, scratch, name, facts[name])
            for name in PART_NAMES
            if name in facts
        }
        return PreparedText(tokenizer, parts, (), ())
    except DataError:
        scratch.mkdir(exist_ok=True)
    except (KeyError, TypeError, AttributeError):
        raise RunError(
            "the manifest of the run does not tell what its text was",
            got="another section data than was written",
            hint="put manifest.json back as it was",
        ) from None
    prepared = prepare_text(settings, scratch)
    for name, part in prepared.parts.items():
        if name not in facts or part.ids.digest() != facts[name]["ids_sha256"]:
            raise RunError(
                f"the {name} text is not the one that the run began with",
                got="other ids from the files that config.toml names",
                hint="put the files back as they were, or train anew",
            )
    return prepared


def _check_facts(facts: Mapping[PartName, Mapping[str, Any]]) -> None:
    """Raise `KeyError` or `TypeError` unless every part is known and its counts are integers."""
    if "train" not in facts or not set(facts) <= set(PART_NAMES):
        raise KeyError("train")
    for part in facts.values():
        if not all(isinstance(part[name], int) for name in ("characters", "utf8_bytes", "unknown")):
            raise TypeError("a count")


def _reopen_part(
    settings: Settings, scratch: Path, name: PartName, facts: Mapping[str, Any]
) -> Part:
    ids: TokenArray | LineArray
    if settings.text.unit == "line":
        ids = open_line_array(scratch, name)
    else:
        ids = open_token_array(scratch / f"{name}.ids.npy")
    if ids.digest() != facts["ids_sha256"]:
        raise DataError(f"the cached ids of the {name} text were altered")
    return Part(ids, facts["characters"], facts["utf8_bytes"], facts["unknown"])
