"""Counts of what passes through on its way from text to ids, without holding it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from elman.text.tokenizer import Tokenizer


@dataclass
class TextTally:
    """Characters and UTF-8 bytes of text before normalisation, unknown ids, lines left out."""

    characters: int = 0
    utf8_bytes: int = 0
    unknown: int = 0
    blank_lines: int = 0

    def text(self, chunks: Iterable[str]) -> Iterator[str]:
        """Yield `chunks` and count their characters and bytes."""
        for chunk in chunks:
            self.characters += len(chunk)
            self.utf8_bytes += len(chunk.encode("utf-8", "surrogatepass"))
            yield chunk

    def ids(
        self, tokenizer: Tokenizer, chunks: Iterable[npt.NDArray[np.int32]]
    ) -> Iterator[npt.NDArray[np.int32]]:
        """Yield `chunks` and count the unknown ids in them."""
        for chunk in chunks:
            self.unknown += tokenizer.count_unknown(chunk)
            yield chunk
