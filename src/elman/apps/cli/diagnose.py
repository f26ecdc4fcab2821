"""`elman diagnose`: what is wrong with a run, with the evidence and the setting to change."""

from textwrap import wrap
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from elman.apps.cli.options import Json, Run
from elman.apps.cli.output import output_console, plural, print_json

if TYPE_CHECKING:
    from elman.recipes.diagnosing.diagnosis import Diagnosis

EXIT_FAULT = 1
INDENT = "   "


def diagnose(
    run: Run,
    *,
    check: Annotated[
        bool,
        Parameter(
            help="Exit with status 1 where a fault is found, or where data, metrics or state "
            "are missing, so that not all could be looked at.",
            negative="",
        ),
    ] = False,
    json: Json = False,
) -> int:
    """Say what is wrong with a run: elman diagnose RUN.

    Its metrics, weights, saved state and text are looked at, and the model is run on some held-out
    passages. Each fault is told with its evidence and the setting to change; nothing of the run is
    changed. The kinds of fault, and what tells each, stand in docs/diagnose.md. A run that cannot
    be opened ends with status 2.
    """
    from elman.recipes.diagnosing.diagnosis import diagnosis_of

    found = diagnosis_of(run)
    if json:
        print_json(found.to_json())
    else:
        _show(found)
    return EXIT_FAULT if check and (found.faults or found.is_lacking) else 0


def _show(found: "Diagnosis") -> None:
    from rich.text import Text

    console = output_console()
    count, asked = len(found.faults), len(found.asked)
    told = f"{count} fault{plural(count)} found" if count else "nothing wrong was found"
    where = " in what could be looked at:" if found.is_lacking else ","
    kinds = f"{where} {asked} kind{plural(asked)} of fault {'were' if asked != 1 else 'was'}"
    console.print(Text(f"{found.path}: {told}{kinds} looked for"))
    for number, fault in enumerate(found.faults, 1):
        console.print()
        console.print(Text.assemble(f"{number}. ", (fault.meaning, "bold")))
        for line in (fault.evidence, f"change: {fault.change}", f"[{fault.name}]"):
            for each in wrap(line, console.width - len(INDENT)):
                console.print(Text(INDENT + each))
    if found.following:
        console.print()
    for cause in dict.fromkeys(cause for _, cause in found.following):
        names = ", ".join(fault.name for fault, other in found.following if other == cause)
        console.print(Text(f"also seen, and explained by {cause}: {names}"))
    for line in found.left_out:
        console.print(Text(f"note: {line}"))
