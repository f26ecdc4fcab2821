"""`elman diagnose`: what is wrong with a run, with the evidence and the setting to change."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from elman.apps.cli.options import Json, Run
from elman.apps.cli.output import output_console, plural, print_json, say

if TYPE_CHECKING:
    from elman.recipes.diagnosing.diagnosis import Diagnosis

EXIT_FAULT = 1


def diagnose(
    run: Run,
    *,
    check: Annotated[
        bool, Parameter(help="Exit with status 1 where a fault is found.", negative="")
    ] = False,
    json: Json = False,
) -> int:
    """Say what is wrong with a run: elman diagnose RUN.

    Its metrics, weights, saved state and text are looked at, and the model is run on some held-out
    passages. Each fault is told with its evidence and the setting to change; nothing of the run is
    changed.
    """
    from elman.recipes.diagnosing.diagnosis import diagnosis_of

    found = diagnosis_of(run)
    if json:
        print_json(found.to_json())
    else:
        _show(found)
    return EXIT_FAULT if check and found.faults else 0


def _show(found: "Diagnosis") -> None:
    from rich.padding import Padding
    from rich.text import Text

    console = output_console()
    count = len(found.faults)
    told = f"{count} fault{plural(count)} found" if count else "nothing wrong was found"
    console.print(Text(f"{found.path}: {told}, {len(found.asked)} kinds were looked for"))
    for number, fault in enumerate(found.faults, 1):
        console.print()
        console.print(Text.assemble(f"{number}. ", (fault.meaning, "bold"), f"  [{fault.name}]"))
        console.print(Padding(Text(fault.evidence), (0, 0, 0, 3), expand=False))
        console.print(Padding(Text(f"change: {fault.change}"), (0, 0, 0, 3), expand=False))
    for line in found.left_out:
        say(f"note: {line}")
