"""JSON as the files of a run hold it: the same value, the same bytes.

JSON has no infinity. Where a value is read back, infinities and NaN are tagged so that they come
back exactly; where a person or another program reads, they are null beside a flag.
"""

import json
import math
from collections.abc import Mapping, Sequence

_TAG = "$float"


def exact_json(value: object) -> str:
    """Return `value` as JSON that `value_of_exact_json` turns back into an equal value.

    `value` is made of dicts with str keys, lists, tuples (which come back as lists), str, bool,
    int, float and None. Raises `TypeError` for anything else.
    """
    return json.dumps(
        _tagged(value), sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )


def value_of_exact_json(text: str) -> object:
    """Return the value that `exact_json` has written; raises `ValueError` where it is no JSON."""
    try:
        value: object = json.loads(text, object_hook=_untagged)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    return value


def readable_json(value: object, *, indent: int | None = None) -> str:
    """Return `value` as strict JSON in which an infinite or undefined figure is null.

    Beside the key `k` of such a figure stands `k_is_infinite` or `k_is_nan`, which is true.
    """
    text = json.dumps(
        _flagged(value), sort_keys=indent is not None, indent=indent, ensure_ascii=False
    )
    # Half a surrogate pair (a file name that is no UTF-8) is escaped, as JSON escapes it.
    return text.encode("utf-8", "backslashreplace").decode()


def _tagged(value: object) -> object:
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {_TAG: repr(float(value))}
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str) or key == _TAG:
                raise TypeError(f"a key of saved facts must be a str and not {_TAG}; got {key!r}")
        return {key: _tagged(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [_tagged(item) for item in value]
    raise TypeError(f"saved facts cannot hold {type(value).__name__}")


def _untagged(table: dict[str, object]) -> object:
    tagged = table.get(_TAG)
    return float(tagged) if isinstance(tagged, str) and len(table) == 1 else table


def _flagged(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        flagged: dict[str, object] = {}
        for key, item in value.items():
            flagged[key] = _flagged(item)
            if isinstance(item, float) and not math.isfinite(item):
                flagged[f"{key}_is_nan" if math.isnan(item) else f"{key}_is_infinite"] = True
        return flagged
    if isinstance(value, list | tuple):
        return [_flagged(item) for item in value]
    return value
