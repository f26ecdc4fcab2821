"""Claims with what is expected of them, and whether a measured value is that."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib.resources import files
from types import MappingProxyType
from typing import Literal, NamedTuple

from elman.recipes.lab.experiment import Value

ClaimClass = Literal["exact", "over seeds", "figure without its inputs", "worded wrongly", "none"]
"""over seeds: an order, a slope or a threshold; figure without its inputs: weights or text are not
given, and the claim behind the figure is what is checked; none: nothing about a model."""

Verdict = Literal["holds", "holds as corrected", "differs", "not measured", "cannot be measured"]
"""holds as corrected: as it is worded the claim does not hold, what its remark says in its place
does, and that is what is measured."""


class Expected(NamedTuple):
    """A kind of expectation, its value, and how far off a number may be (absolutely)."""

    kind: str
    value: Value
    within: float


@dataclass(frozen=True)
class Claim:
    """One statement that can be checked. `expected` None: `reason` says why it cannot be.

    `remark` corrects its wording or says what its figure rests on, where that is needed.
    """

    name: str
    place: str
    says: str
    of: ClaimClass
    expected: Expected | None
    reason: str = ""
    remark: str = ""


def load_claims() -> Mapping[str, Claim]:
    """Return every claim by its name, in the order of their names.

    Raises `ValueError` for a file that does not say what it must.
    """
    found: dict[str, Claim] = {}
    for file in sorted(files("elman.recipes.lab").joinpath("claims").iterdir(), key=str):
        if file.name.endswith(".json"):
            for entry in json.loads(file.read_text(encoding="utf-8")):
                claim = _claim(entry)
                if claim.name in found:
                    raise ValueError(f"{claim.name} stands there twice")
                found[claim.name] = claim
    return MappingProxyType(dict(sorted(found.items())))


def _claim(entry: Mapping[str, object]) -> Claim:
    known = {"name", "place", "says", "of", "expected", "reason", "remark"}
    if set(entry) - known or not {"name", "place", "says", "of"} <= set(entry):
        raise ValueError(f"{entry.get('name')}: {sorted(entry)}")
    expected, found = entry.get("expected"), None
    if isinstance(expected, dict):
        within = expected.get("within", 0.0)
        ((kind, value),) = ((key, it) for key, it in expected.items() if key != "within")
        if kind not in _HOLDS:
            raise ValueError(f"{entry['name']}: expected {kind}")
        found = Expected(kind, value, float(within))
    texts = {key: str(entry.get(key, "")) for key in known - {"expected"}}
    if texts["of"] == "worded wrongly" and not texts["remark"]:
        raise ValueError(f"{texts['name']}: worded wrongly, and no remark that corrects it")
    if found is None and not texts["reason"]:
        raise ValueError(f"{texts['name']}: neither an expectation nor a reason")
    return Claim(expected=found, **texts)  # type: ignore[arg-type]


def verdict(claim: Claim, measured: Value) -> Verdict:
    """Return whether `measured` is what the claim expects; None: nothing was measured."""
    if claim.expected is None:
        return "cannot be measured"
    if measured is None:
        return "not measured"
    holds = _HOLDS[claim.expected.kind](measured, claim.expected)
    if not holds:
        return "differs"
    return "holds as corrected" if claim.of == "worded wrongly" else "holds"


def _equals(measured: Value, expected: Expected) -> bool:
    """Element by element: texts and whole numbers exactly, fractions as numbers."""
    wanted = expected.value
    if _is_row(measured) and _is_row(wanted):
        assert isinstance(measured, Sequence)
        assert isinstance(wanted, Sequence)
        return len(measured) == len(wanted) and all(
            _equals(one, expected._replace(value=other))
            for one, other in zip(measured, wanted, strict=True)
        )
    if _is_row(measured) or _is_row(wanted) or isinstance(measured, bool | None):
        return measured is wanted
    if isinstance(wanted, bool | None):
        return False
    one, other = _number(measured), _number(wanted)
    if one is None or other is None:
        return measured == wanted
    return abs(one - other) <= Fraction(expected.within)


def _at_least(measured: Value, expected: Expected) -> bool:
    one, other = _number(measured), _number(expected.value)
    return one is not None and other is not None and one >= other


def _at_most(measured: Value, expected: Expected) -> bool:
    one, other = _number(measured), _number(expected.value)
    return one is not None and other is not None and one <= other


def _between(measured: Value, expected: Expected) -> bool:
    assert isinstance(expected.value, Sequence)
    low, high = expected.value
    return _at_least(measured, expected._replace(value=low)) and _at_most(
        measured, expected._replace(value=high)
    )


_HOLDS: Mapping[str, Callable[[Value, Expected], bool]] = MappingProxyType(
    {"equals": _equals, "at least": _at_least, "at most": _at_most, "between": _between}
)
"""Each kind of expectation, and when a measured value is that."""


def _is_row(value: Value) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _number(value: Value) -> Fraction | None:
    """Return a number or a text such as "1/256" exactly; None for what is neither."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    try:
        return Fraction(value)
    except ValueError:
        return None


def told_value(value: Value, digits: int = 7) -> str:
    """Return a value in as few characters as tell it: so many digits of a number."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.{digits}g}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(told_value(one, digits) for one in value)}]"
    return str(value)
