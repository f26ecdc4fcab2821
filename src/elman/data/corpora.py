"""Two corpora that every Python carries, so that the first run needs no file and no network."""

import hashlib
import re
import sys
import unicodedata
from pydoc_data.topics import topics

from elman.data.repeats import FirstSeen, drop_repeated_paragraphs

# Scripts whose names are a prefix and a code point or a rule.
BY_RULE = ("CJK UNIFIED IDEOGRAPH-", "CJK COMPATIBILITY IDEOGRAPH-", "HANGUL SYLLABLE ")
# A last word that is a catalogue number (A045A, CM041, -128, DOTS-1234) or a code point (-18B13).
# One digit alone is kept: TAK4 and TONE-1 are names.
NUMBERED = re.compile(r"(-[0-9A-F]{4,}|[ -][A-Z]{0,2}[0-9]{2,}[A-Z]{0,2})$")


def language_reference() -> str:
    """Return the help topics of Python's own language reference, repeated paragraphs dropped.

    The topics come in the order of their names, a blank line between two. About 465,000 characters
    before repeats are dropped; the text differs a little from one version of Python to the next,
    therefore a run records its digest.
    """
    joined = "\n".join(topics[name].rstrip("\n") + "\n" for name in sorted(topics))
    return "".join(drop_repeated_paragraphs([joined], FirstSeen()))


def unicode_names() -> list[str]:
    """Return the names of Unicode characters in an order that code points do not tell.

    Left out are names made by a machine: those of CJK ideographs and Hangul syllables, and those
    that end in a catalogue number or a code point. The order is that of the SHA-256 of each name,
    a shuffle that is the same with every library and version. Names depend on the Unicode version
    of the Python that runs.
    """
    names = (unicodedata.name(chr(point), "") for point in range(sys.maxunicode + 1))
    kept = [n for n in names if n and not n.startswith(BY_RULE) and not NUMBERED.search(n)]
    return sorted(kept, key=text_digest)


def text_digest(text: str) -> str:
    """Return the SHA-256 of `text` as UTF-8, in hexadecimal."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def lines_digest(lines: list[str]) -> str:
    r"""Return the SHA-256 of the lines as UTF-8, each ended by \n, in hexadecimal."""
    return text_digest("".join(f"{line}\n" for line in lines))
