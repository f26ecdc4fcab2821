"""Print every promise against every class: kept, or not applicable and why. `make contracts`.

Each entry is run while it is printed. A promise that is broken shows as BROKEN, and the exit status
is 1.
"""

import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from conversion_promises import FORMATS, converted
from language_promises import LANGUAGE_PROMISES, all_language_models, why_not_for_language
from model_promises import MODEL_PROMISES, all_models
from promises import PROMISES, why_promise_not_applicable
from rich.console import Console
from rich.table import Table
from stack_promises import STACK_PROMISES, all_stacks, why_not_for_stack
from subjects import PATHS, Subject, why_not_applicable
from translation_promises import TRANSLATION_PROMISES, all_meetings

from elman.cells.registry import CELLS

KEPT, BROKEN = "✓", "BROKEN"
LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Reasons:
    """Why promises do not apply, numbered in the order in which they are met."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def number(self, text: str) -> str:
        if text not in self.texts:
            self.texts.append(text)
        return f"({LETTERS[self.texts.index(text)]})"


def kept(check: Callable[[], object]) -> str:
    try:
        check()
    except Exception as error:  # a broken promise may fail in any way
        print(f"{BROKEN}: {error}", file=sys.stderr)
        return BROKEN
    return KEPT


def cell_entry(key: str, promise: str, reasons: Reasons) -> str:
    entries = []
    for path in PATHS:
        why = why_not_applicable(key, path) or why_promise_not_applicable(promise, key, path)
        if why:
            entries.append(reasons.number(why))
            continue
        subject = Subject(key, path, CELLS[key])
        entries.append(kept(lambda s=subject: PROMISES[promise](s)))
    return entries[0] if len(set(entries)) == 1 else "".join(entries)


def layers_entry(key: str, promise: str, reasons: Reasons) -> str:
    entries: dict[str, int] = {}
    for subject in all_stacks():
        if subject.key != key:
            continue
        why = why_not_for_stack(promise, subject)
        entry = reasons.number(why) if why else kept(lambda s=subject: STACK_PROMISES[promise](s))
        entries[entry] = entries.get(entry, 0) + 1
    return " ".join(f"{count}{entry}" for entry, count in sorted(entries.items(), reverse=True))


def conversion_entry(key: str, target: str, reasons: Reasons) -> str:
    with tempfile.TemporaryDirectory() as folder:
        refused: list[str] = []
        entry = kept(lambda: refused.append(converted(key, target, Path(folder))))  # type: ignore[arg-type]
    return reasons.number(refused[0]) if refused and refused[0] else entry


def model_entry(name: str, promise: str, reasons: Reasons) -> str:
    subject = next(model for model in all_models() if str(model) == name)
    return kept(lambda: MODEL_PROMISES[promise](subject))


def language_entry(name: str, promise: str, reasons: Reasons) -> str:
    (subject,) = (model for model in all_language_models() if str(model) == name)
    why = why_not_for_language(promise, subject)
    return reasons.number(why) if why else kept(lambda: LANGUAGE_PROMISES[promise](subject))


def meeting_entry(name: str, promise: str, reasons: Reasons) -> str:
    (meeting,) = (each for each in all_meetings() if str(each) == name)
    return kept(lambda: TRANSLATION_PROMISES[promise](meeting))


def show(
    console: Console,
    title: str,
    columns: Sequence[str],
    entry: Callable[[str, str, Reasons], str],
    rows: Sequence[str] = tuple(CELLS),
) -> bool:
    reasons = Reasons()
    console.print(f"\n[bold]{title}[/]\n")
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for number in range(1, len(columns) + 1):
        table.add_column(str(number), justify="center")
    holds = True
    for key in rows:
        entries = [entry(key, column, reasons) for column in columns]
        holds = holds and not any(BROKEN in result for result in entries)
        table.add_row(f"  {key}", *entries)
    console.print(table)
    for number, column in enumerate(columns, 1):
        console.print(f"  {number}: {column.replace('_', ' ')}", markup=False)
    for number, text in enumerate(reasons.texts):
        console.print(f"  ({LETTERS[number]}) not applicable, because {text}", markup=False)
    return holds


def main() -> int:
    console = Console(highlight=False, width=110)
    held = [
        show(
            console,
            "Cells: on the readable path, then torch's, then the native one where they differ",
            list(PROMISES),
            cell_entry,
        ),
        show(
            console,
            "Layers: two directions × two depths × two options",
            list(STACK_PROMISES),
            layers_entry,
        ),
        show(console, "Conversions: there and back", FORMATS, conversion_entry),
        show(
            console,
            "Language models: what is learnt, and what is counted",
            list(LANGUAGE_PROMISES),
            language_entry,
            [str(model) for model in all_language_models()],
        ),
        show(
            console,
            "Models with one answer for a row: cell, directions, pooling, input",
            list(MODEL_PROMISES),
            model_entry,
            [str(model) for model in all_models()],
        ),
        show(
            console,
            "Encoder-decoders: cell, attention, query, place of the context",
            list(TRANSLATION_PROMISES),
            meeting_entry,
            [str(meeting) for meeting in all_meetings()],
        ),
    ]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
