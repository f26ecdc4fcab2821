"""Whether weights or training state belong to the settings and the vocabulary beside them."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from elman.checkpoints.json_values import exact_json
from elman.errors import RunError

# Settings that no longer matter once weights are there: they change how a model is first filled,
# or how it is trained, but not what it computes.
_FREE_TO_CHANGE = (
    *("dropout", "embedding_dropout", "token_dropout", "recurrent_dropout", "weight_dropout"),
    *("dropout_kind", "forget_bias", "forget_biases", "initialisation", "embedding_std"),
)
_SHOWN_OF_DIGEST = 12
DIRECTION = "direction"
"""The one setting of the text that weights depend on and no vocabulary does."""


@dataclass(frozen=True)
class Belonging:
    """What weights and training state belong to: a vocabulary and the settings of a model.

    `model_settings` are those of the section model, and the `direction` that texts are read in.
    `vocabulary_size` is None where the tokenizer's file does not tell it. `vocabulary_names` are
    the files that the digest is of; a header does not hold them.
    """

    tokenizer_digest: str
    vocabulary_size: int | None
    model_settings: Mapping[str, object]
    vocabulary_names: tuple[str, ...] = ("tokenizer.json",)

    def to_facts(self) -> dict[str, object]:
        """Return what a header holds: the three fields, and the digest of the settings."""
        return {
            "model_digest": hashlib.sha256(exact_json(self.model_settings).encode()).hexdigest(),
            "model_settings": dict(self.model_settings),
            "tokenizer_digest": self.tokenizer_digest,
            "vocabulary_size": self.vocabulary_size,
        }

    @classmethod
    def from_facts(cls, facts: Mapping[str, object], where: Path) -> "Belonging":
        """Return what `facts`, from the header of `where`, tell; raises `RunError`."""
        digest, settings = facts.get("tokenizer_digest"), facts.get("model_settings")
        size = facts.get("vocabulary_size")
        if not isinstance(digest, str) or not isinstance(settings, dict):
            raise RunError(f"{where} does not tell which vocabulary and settings it belongs to")
        return cls(digest, size if isinstance(size, int) else None, settings)


def check_belonging(found: Belonging, expected: Belonging, *, folder: Path, name: str) -> None:
    """Raise `RunError` where the file `name` was not made with what lies beside it in `folder`.

    `found` is what the header of the file tells, `expected` what the folder holds.
    """
    differing = [
        f"{_name(key)} = {_shown(expected.model_settings[key])} in config.toml, "
        f"{_shown(value)} in {name}"
        for key, value in sorted(found.model_settings.items())
        if key in expected.model_settings
        and key not in _FREE_TO_CHANGE
        and _as_json_has_it(expected.model_settings[key]) != _as_json_has_it(value)
    ]
    if differing:
        raise RunError(
            f"config.toml and {name} of the run {folder} do not belong together",
            got="; ".join(differing),
            hint=f"put into config.toml what {name} was made with",
        )
    if found.tokenizer_digest != expected.tokenizer_digest:
        names = expected.vocabulary_names
        raise RunError(
            f"{' or '.join(names)} of the run {folder} is not the vocabulary {name} was made with",
            got=f"{_vocabulary(expected)} in the folder, {_vocabulary(found)} in {name}",
            hint=f"put back the {' and the '.join(names)} of this run",
        )


def _name(key: str) -> str:
    return f"text.{key}" if key == DIRECTION else f"model.{key}"


def _vocabulary(belonging: Belonging) -> str:
    digest = f"sha256 {belonging.tokenizer_digest[:_SHOWN_OF_DIGEST]}"
    size = belonging.vocabulary_size
    return digest if size is None else f"{size} entries, {digest}"


def _as_json_has_it(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def tokenizer_entries(tokenizer_json: str) -> int | None:
    """Return how many ids the file of a tokenizer names, or None where it does not tell.

    The file is in the `tokenizers` format: entries stand under model.vocab, and specials beside
    them under added_tokens.
    """
    try:
        table = json.loads(tokenizer_json)
        ids = set(dict(table["model"]["vocab"]).values())
        return len(ids | {token["id"] for token in table.get("added_tokens") or ()})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
