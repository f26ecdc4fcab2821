"""`manifest.json`: what a run was made from, with what, and what came out."""

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from elman import __version__
from elman.checkpoints.json_values import readable_json
from elman.checkpoints.schema import SCHEMA_VERSION, check_schema_version
from elman.errors import RunError

IMPORTED = "imported_from"
"""Stands in the data of a run that was trained elsewhere, with what it was read from."""


def software_versions() -> dict[str, str]:
    """Return the versions of what computes: elman, torch, python."""
    return {
        "elman": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


@dataclass(frozen=True)
class Manifest:
    """The record of a run.

    `sizes`: counts, such as parameters, vocabulary, training tokens. `data`: digest, name and size
    of what was read. `vocabulary`: its digest and what was noticed when it was made. `kernels`: the
    implementation chosen for each cell, with the reason. `results`: figures of the finished run.
    Values are what JSON holds; an infinite figure is null beside a flag.
    """

    sizes: Mapping[str, int] = field(default_factory=dict)
    data: Mapping[str, object] = field(default_factory=dict)
    vocabulary: Mapping[str, object] = field(default_factory=dict)
    kernels: Mapping[str, str] = field(default_factory=dict)
    results: Mapping[str, object] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=software_versions)
    schema_version: int = SCHEMA_VERSION

    @property
    def is_finished(self) -> bool:
        """Whether training has ended, of which the results then tell."""
        return isinstance(self.results.get("training"), dict)


def manifest_to_json(manifest: Manifest) -> str:
    """Return `manifest` as JSON with sorted keys: equal manifests give equal texts."""
    return readable_json(asdict(manifest), indent=2) + "\n"


def manifest_from_json(text: str, *, name: str = "manifest.json") -> Manifest:
    """Return the manifest that `text` holds; `name` is what errors call it.

    Raises `RunError` where it is no JSON, is of a newer format, or is no manifest.
    """
    try:
        table = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RunError(f"{name} is not valid JSON, so it was altered", got=str(error)) from None
    if not isinstance(table, dict):
        raise RunError(f"{name} is no manifest of a run", got=type(table).__name__)
    check_schema_version(table.get("schema_version"), name)
    return Manifest(
        sizes=_section(table, "sizes", name),
        data=_section(table, "data", name),
        vocabulary=_section(table, "vocabulary", name),
        kernels=_section(table, "kernels", name),
        results=_section(table, "results", name),
        versions=_section(table, "versions", name),
    )


def _section(table: Mapping[str, object], section: str, name: str) -> dict[str, Any]:
    value = table.get(section)
    if not isinstance(value, dict):
        raise RunError(f"{name} lacks the section {section}", hint="it was altered")
    return value
