"""What is installed with Elman: licences that go with its own, and ranges with both ends."""

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
EXTRAS = ("keras", "onnx", "metrics")

GOES_WITH = (
    *("MIT", "BSD", "Apache", "ISC", "Zlib", "0BSD", "CC0", "BSL", "PSF", "Python Software"),
    *("MPL-2.0", "Mozilla Public License 2.0", "CNRI-Python", "HPND", "Unlicense"),
)
"""Beginnings of licences under which a package may be installed beside one under Apache-2.0."""

TOLD_ELSEWHERE = {"namex": "Apache-2.0"}
"""Packages whose metadata name no licence, and the one that their repository has."""


def own_name(name: str) -> str:
    """A name as all spellings of it are."""
    return re.sub(r"[-_.]+", "-", name).lower()


def installed() -> dict[str, Distribution]:
    """Return every package that Elman and its extras need and that is installed here."""
    found: dict[str, Distribution] = {}
    todo: list[tuple[str, frozenset[str]]] = [("elman", frozenset(EXTRAS))]
    asked = set(todo)
    while todo:
        name, extras = todo.pop()
        try:
            package = distribution(name)
        except PackageNotFoundError:
            continue  # an extra that is not installed, or a package for another system
        found[own_name(name)] = package
        for told in package.requires or ():
            needed = Requirement(told)
            marker = needed.marker
            if marker is None or any(marker.evaluate({"extra": e}) for e in (*extras, "")):
                step = (needed.name, frozenset(needed.extras))
                if step not in asked:
                    asked.add(step)
                    todo.append(step)
    return found


def licences(package: Distribution) -> Iterator[str]:
    """Yield each licence that the metadata of a package name, the plainest telling alone."""
    told = package.metadata
    if expression := told.get("License-Expression"):
        yield from re.split(r"\s+(?:AND|OR|WITH)\s+", re.sub(r"[()]", "", expression))
        return
    classifiers = [
        line.rpartition(" :: ")[2]
        for line in told.get_all("Classifier") or ()
        if line.startswith("License :: ")
    ]
    if classifiers:
        yield from classifiers
    elif text := (told.get("License") or "").strip():
        yield re.sub(r"^(The|3-Clause)\s+", "", text.splitlines()[0].strip())


def test_every_licence_goes_with_our_own() -> None:
    packages = installed()
    assert len(packages) > 15, "the packages that torch alone needs are more"
    wrong = {}
    for name, package in packages.items():
        found = list(licences(package)) or [TOLD_ELSEWHERE.get(name, "")]
        # What follows WITH is an exception to a licence, which takes nothing away.
        found = [each for each in found if not each.endswith("-exception")]
        if not all(each.startswith(GOES_WITH) for each in found):
            wrong[name] = found
    assert wrong == {}


@pytest.mark.parametrize("told", ["GPL-3.0-only", "MIT AND LGPL-2.1", "Proprietary", ""])
def test_a_licence_that_does_not_go_with_it_is_seen(told: str) -> None:
    each = re.split(r"\s+(?:AND|OR|WITH)\s+", told)
    assert not all(one.startswith(GOES_WITH) for one in each)


def test_what_we_need_to_run_has_a_lower_and_an_upper_bound() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    needed = [*project["dependencies"], *(one for name in EXTRAS for one in extras[name])]
    assert len(needed) >= 15
    for told in needed:
        signs = {each.operator for each in Requirement(told).specifier}
        assert signs == {">=", "<"}, told


def test_the_tested_versions_lie_within_the_ranges() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    everything = [*project["dependencies"], *(one for extra in extras for one in extra)]
    ranges = {own_name(Requirement(one).name): Requirement(one).specifier for one in everything}
    pinned = {}
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, _, version = line.partition("==")
            pinned[own_name(name)] = version
    assert set(ranges) <= set(pinned), "each range has a version that is tested"
    for name, versions in ranges.items():
        assert versions.contains(pinned[name]), f"{name} {pinned[name]}"
