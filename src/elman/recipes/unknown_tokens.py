"""How much of what is read a run has never seen, told once for a whole file."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from elman.config.text_settings import UnknownPolicy
from elman.text.tokenizer import Tokenizer


@dataclass
class UnknownTokens:
    """Tokens that were read, those unknown to the run, and rows in which all of them are."""

    tokens: int = 0
    unknown: int = 0
    strange_rows: int = 0

    def add(self, tokens: int, unknown: int) -> None:
        """Count one row of `tokens`, `unknown` of them unknown."""
        self.tokens += tokens
        self.unknown += unknown
        self.strange_rows += 0 < tokens == unknown

    def notices(self) -> tuple[str, ...]:
        """Return one line to show a person; none where every token is known."""
        if not self.unknown:
            return ()
        share = 100.0 * self.unknown / self.tokens
        told = f"{share:.1f}" if share >= 0.05 else "less than 0.1"
        rows = ""
        if self.strange_rows:
            has = "row has" if self.strange_rows == 1 else "rows have"
            rows = f"; {self.strange_rows:,} {has} no known token"
        return (f"{told} % of the tokens unknown to the run{rows}",)


def known_and_unknown(
    tokenizer: Tokenizer,
    text: str,
    ids: npt.NDArray[np.integer],
    policy: UnknownPolicy | None = None,
) -> tuple[int, int]:
    """Return how many tokens a line has and how many are unknown; `ids` is what is read of it.

    Those that the policy (None: that of the settings) leaves out are counted like any others.
    """
    left_out = 0
    if tokenizer.checked_policy(policy) == "skip" and not tokenizer.spells_every_text:
        normal = tokenizer.normalise(text)
        size = len(normal.split()) if tokenizer.level == "word" else len(normal)
        left_out = size - len(tokenizer.encode(text, policy="skip"))
    return len(ids) + left_out, tokenizer.count_unknown(ids) + left_out
