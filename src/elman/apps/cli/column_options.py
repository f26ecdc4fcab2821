"""The columns of tables that `elman score` reads, called as in `elman train`."""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from elman.errors import SettingError

if TYPE_CHECKING:
    from elman.config.reading_settings import TaskName

Column = Annotated[str, Parameter(show_default=False)]
FIELDS_OF_TASK = (
    ("classify", ("text_column", "label_column")),
    ("translate", ("source_column", "target_column")),
)


@Parameter(name="*")
@dataclass(frozen=True)
class ColumnOptions:
    """Columns of the tables to score, by name or number from 1; not given: as in training."""

    text_column: Annotated[
        Column, Parameter(help="Classifiers: column of the texts. [default: as in training]")
    ] = ""
    label_column: Annotated[
        Column, Parameter(help="Classifiers: column of the labels. [default: as in training]")
    ] = ""
    source_column: Annotated[
        Column, Parameter(help="Sequences: column of the sources. [default: as in training]")
    ] = ""
    target_column: Annotated[
        Column, Parameter(help="Sequences: column of the targets. [default: as in training]")
    ] = ""


def require_columns_of(task: "TaskName", columns: ColumnOptions) -> None:
    """Raise `SettingError` for a column that means nothing to a run of this task."""
    own = dict(FIELDS_OF_TASK).get(task, ())
    for item in fields(columns):
        value = getattr(columns, item.name)
        if value and item.name not in own:
            raise SettingError(
                f"{option_of(item.name)} means nothing to a run of elman train {task}",
                got=value,
                allowed=", ".join(map(option_of, own)) or "none: it reads no column of a table",
            )


def option_of(field: str) -> str:
    """Return how a field is spelt as an option."""
    return f"--{field.replace('_', '-')}"
