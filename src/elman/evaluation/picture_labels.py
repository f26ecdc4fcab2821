"""Tokens and labels as they are written on a picture."""

from elman.text.vocabulary import SPECIALS


def token_label(token: str, most: int | None = None) -> str:
    """Return a token as a label of at most `most` characters, its end cut off.

    Blanks, line ends and other controls are seen; specials stand without their blanks.
    """
    if token in SPECIALS:
        return token.replace(" ", "")
    spelled = token.replace("\n", "⏎").replace("\t", "⇥").replace(" ", "␣")
    seen = "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in spelled
    )
    if most is not None and len(seen) > most:
        seen = f"{seen[: most - 1]}…"
    return not_mathematics(seen)


def not_mathematics(text: str) -> str:
    """Return a text that matplotlib writes as it stands: a dollar sign would begin a formula."""
    return text.replace("$", r"\$")
