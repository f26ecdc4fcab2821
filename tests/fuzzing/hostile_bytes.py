"""Changes to the bytes of a file: by chance, but the same for the same seed."""

import json
import random
from collections.abc import Callable

Change = Callable[[random.Random, bytes], bytes]

NUMBERS = (0, -1, 2, 2**31, 2**63, 10**30, 1e308, -0.5, float("nan"), float("inf"), 10**5000)
TEXTS = ("", "\0", "../x", "/etc/passwd", "a\nb", "\ud800", "x" * 5000, "nan", "[ S ]", "\u202e")
DEEP = 3000


def cut(draw: random.Random, content: bytes) -> bytes:
    return content[: draw.randrange(len(content) + 1)]


def flip_bits(draw: random.Random, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(draw.choice((1, 1, 2, 8)) if changed else 0):
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def insert_bytes(draw: random.Random, content: bytes) -> bytes:
    place = draw.randrange(len(content) + 1)
    odd = (b"\0", b"\xff\xfe", b"\n", b'"', b"\\", b"\x1f\x8b", b"\xef\xbb\xbf", b"\t", b"{[")
    return content[:place] + draw.choice((*odd, draw.randbytes(9))) + content[place:]


def repeat_part(draw: random.Random, content: bytes) -> bytes:
    first, last = sorted(draw.randrange(len(content) + 1) for _ in range(2))
    return content[:last] + content[first:last] * draw.choice((1, 2, 50)) + content[last:]


def swap_lines(draw: random.Random, content: bytes) -> bytes:
    lines = content.split(b"\n")
    draw.shuffle(lines)
    return b"\n".join(lines)


def replace_number(draw: random.Random, content: bytes) -> bytes:
    """Put an odd number in the place of one that is spelt in digits."""
    places = [i for i, c in enumerate(content) if chr(c).isdigit()]
    if not places:
        return content
    place = draw.choice(places)
    end = place
    while end < len(content) and chr(content[end]).isdigit():
        end += 1
    odd = draw.choice((b"-1", b"1e400", b"nan", b"inf", b"9" * 40, b"9" * 5000, b"0.5", b"true"))
    return content[:place] + odd + content[end:]


def nest_deep(draw: random.Random, content: bytes) -> bytes:
    opened, closed = draw.choice(((b"[", b"]"), (b'{"a":', b"}")))
    deep = draw.choice((150, 900, DEEP, 100_000))
    return opened * deep + draw.choice((b"", b"1" + closed * deep))


def replace_all(draw: random.Random, content: bytes) -> bytes:
    odd = (b"", b"\0" * 64, b"null", b"[]", b"{}", b'""', b"NaN", b"\xff" * 30, b"\n" * 1000)
    return draw.choice((*odd, draw.randbytes(100), b"\x1f\x8b\x08" + draw.randbytes(40)))


BYTE_CHANGES: tuple[Change, ...] = (
    *(cut, flip_bits, insert_bytes, repeat_part, swap_lines, replace_number, nest_deep),
    replace_all,
)


def change_json(draw: random.Random, content: bytes) -> bytes:
    """Change one value, or one key, somewhere within a JSON file; a key may come to stand twice."""
    whole = json.loads(content)
    holder, key = draw.choice(list(_places({"": whole})))
    how = draw.randrange(6)
    if how == 0 and not (isinstance(holder, dict) and "" in holder):
        del holder[key]
    elif how == 1 and isinstance(holder, dict) and "" not in holder:
        holder[draw.choice(TEXTS)] = holder.pop(key)
    elif how == 2:
        twice = json.dumps(whole).encode()
        return twice[:-1] + b"," + twice[1:] if twice[:1] == b"{" and len(twice) > 2 else twice
    elif how == 3:
        deep: object = holder[key]
        for _ in range(draw.choice((5, 200, 800))):
            deep = [deep]
        holder[key] = deep
    else:
        values = (*NUMBERS, *TEXTS, None, True, [], {}, [None], {"a": 1}, ["x"] * 3)
        holder[key] = draw.choice(values)
    return _spelt(holder[""] if isinstance(holder, dict) and "" in holder else whole)


def _places(value):  # type: ignore[no-untyped-def]
    """Yield every list or object within, with each of its keys."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield value, key
            yield from _places(item)
    elif isinstance(value, list):
        for place, item in enumerate(value[:20]):
            yield value, place
            yield from _places(item)


def _spelt(value: object) -> bytes:
    try:
        return json.dumps(value).encode()
    except ValueError:  # more digits than Python spells
        return b"[" + b"9" * 5000 + b"]"


def change_toml(draw: random.Random, content: bytes) -> bytes:
    """Change one line of a TOML file: its value, its key, or where it stands."""
    lines = content.decode().split("\n")
    places = [i for i, line in enumerate(lines) if "=" in line]
    place = draw.choice(places)
    key, _, _ = lines[place].partition("=")
    values = (
        *("nan", "inf", "-1", "0", "1e308", "9" * 30, "9" * 5000, '""', '"\\u0000"', '"../x"'),
        *("[]", "[[]]", "{}", "true", "1979-05-27", '"x"', "[" * 500, "[" * 20000, "{a=" * 500),
        *("1000000000000", "2147483648", '["/etc/passwd"]', '"\\ud800"', "0.5"),
    )
    how = draw.randrange(5)
    if how == 0:
        lines.insert(place, lines[place])
    elif how == 1:
        del lines[place]
    elif how == 2:
        lines[place] = draw.choice(("a", "a.b", '""', "x" * 500)) + " = 1"
    else:
        lines[place] = f"{key}= {draw.choice(values)}"
    return "\n".join(lines).encode()
