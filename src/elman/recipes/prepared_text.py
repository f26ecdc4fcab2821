"""A text read, split and encoded, with what a run records of it."""

from dataclasses import asdict, dataclass
from typing import Literal

from elman.checkpoints.run_folder import TOKENIZER
from elman.data.token_array import LineArray, TokenArray
from elman.text.reading import TextReport
from elman.text.tokenizer import Tokenizer

PartName = Literal["train", "valid", "test"]
PART_NAMES: tuple[PartName, ...] = ("train", "valid", "test")


@dataclass(frozen=True)
class Part:
    """One part of the data, encoded: what `sequences` holds is a stream or lines."""

    ids: TokenArray | LineArray
    characters: int
    utf8_bytes: int
    unknown: int

    @property
    def num_tokens(self) -> int:
        """Tokens of text, boundary marks not counted."""
        return len(self.ids.ids) if isinstance(self.ids, LineArray) else len(self.ids)

    @property
    def num_lines(self) -> int:
        """Lines, each of which ends with a stop mark; 0 for a stream."""
        return len(self.ids) if isinstance(self.ids, LineArray) else 0

    @property
    def num_predicted(self) -> int:
        """Tokens of text and stop marks: all that a score counts, but for a stream's first."""
        return self.num_tokens + self.num_lines

    def is_same(self, other: "Part") -> bool:
        """Return whether both have the same ids; a digest is made only of parts of one size."""
        sizes = self.num_tokens, self.num_lines
        return sizes == (other.num_tokens, other.num_lines) and (
            self.ids.digest() == other.ids.digest()
        )

    def facts(self) -> dict[str, object]:
        """Return what the manifest records of this part."""
        return {
            "tokens": self.num_tokens,
            "sequences": self.num_lines or 1,
            "characters": self.characters,
            "utf8_bytes": self.utf8_bytes,
            "unknown": self.unknown,
            "ids_sha256": self.ids.digest(),
        }


@dataclass(frozen=True)
class PreparedText:
    """A tokenizer and the parts it encoded. `notices` are lines a person should see."""

    tokenizer: Tokenizer
    parts: dict[PartName, Part]
    reports: tuple[TextReport, ...]
    notices: tuple[str, ...]

    @property
    def num_targets(self) -> int:
        """Tokens to learn from."""
        return self.parts["train"].num_tokens

    def vocabularies(self) -> dict[str, str]:
        """Return the tokenizer as a run folder keeps it."""
        return {TOKENIZER: self.tokenizer.to_json()}

    def sizes(self) -> dict[str, int]:
        """Return the counts that the manifest records."""
        tokens = {f"{name}_tokens": part.num_tokens for name, part in self.parts.items()}
        return {"vocabulary": len(self.tokenizer.vocabulary), **tokens}

    def facts(self) -> dict[str, object]:
        """Return what the manifest records of the data, which `reopen_prepared` compares."""
        return {
            "parts": {name: part.facts() for name, part in self.parts.items()},
            "files": [asdict(report) for report in self.reports],
        }
