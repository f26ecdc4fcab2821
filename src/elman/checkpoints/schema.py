"""The version of the run format, and the refusal of newer ones."""

from elman import __version__
from elman.errors import RunError

SCHEMA_VERSION = 1


def check_schema_version(version: object, where: str) -> None:
    """Raise `RunError` where `version`, found in the file `where`, is not one this code reads."""
    if isinstance(version, int) and 1 <= version <= SCHEMA_VERSION:
        return
    newer = isinstance(version, int) and version > SCHEMA_VERSION
    raise RunError(
        f"{where} has a format this version of elman does not read",
        got=f"schema version {version}",
        allowed=f"1 to {SCHEMA_VERSION}" if SCHEMA_VERSION > 1 else "1",
        hint=f"install a newer elman than {__version__}" if newer else "the file was altered",
    )
