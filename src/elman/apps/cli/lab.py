"""`elman lab`: experiments whose figures are checked, run on this machine."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

from cyclopts import Parameter

from elman.apps.cli.options import Json
from elman.apps.cli.output import output_console, plural, print_json, say
from elman.errors import SettingError

if TYPE_CHECKING:
    from elman.recipes.lab.checking import LabReport
    from elman.recipes.lab.experiment import Experiment

EXIT_DIFFERS = 1
MOST_NEAR = 3
"""Experiments named where there is none of a name, and some are like it."""


def lab(
    name: Annotated[
        str | None, Parameter(help="The experiment to run. [default: list them]")
    ] = None,
    *,
    check: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="Run every experiment that takes seconds; the exit status is 1 where one differs.",
        ),
    ] = False,
    all_of_them: Annotated[
        bool,
        Parameter(
            name="--all",
            negative="",
            show_default=False,
            help="Run every experiment, and list claims that nothing measures too.",
        ),
    ] = False,
    plot: Annotated[
        Path | None, Parameter(help="Draw the experiment to this .png or .svg file.")
    ] = None,
    notebook: Annotated[
        Path | None, Parameter(help="Write the experiment to this .ipynb file, its cells run.")
    ] = None,
    json: Json = False,
) -> int:
    """Run experiments on recurrent networks, each with what is expected and what was measured.

    Their figures come from the same classes that train a model of your own. Expectations are kept
    apart from the experiments.
    """
    _require_one(name, check, all_of_them)
    for option, path in (("--plot", plot), ("--notebook", notebook)):
        if path is not None and name is None:
            raise SettingError(f"{option} is of one experiment", got="no name of one")
    from elman.recipes.lab.registry import EXPERIMENTS

    if name is None and not (check or all_of_them):
        return _list(list(EXPERIMENTS.values()), as_json=json)
    if name is not None:
        chosen = [_experiment(name)]
    else:
        chosen = [one for one in EXPERIMENTS.values() if all_of_them or one.takes == "seconds"]
    if plot is not None:
        _draw(chosen[0], plot)
    if notebook is not None:
        _write_notebook(chosen[0], notebook)
    return _run(chosen, whole=all_of_them, as_json=json)


def _require_one(name: str | None, check: bool, all_of_them: bool) -> None:
    """Raise `SettingError` where more than one way of choosing is taken."""
    ways = (("a name", name is not None), ("--check", check), ("--all", all_of_them))
    given = [told for told, is_given in ways if is_given]
    if len(given) > 1:
        raise SettingError(
            "elman lab runs one experiment or many",
            got=" and ".join(given),
            allowed="a name, --check or --all",
        )


def _experiment(name: str) -> "Experiment":
    from difflib import get_close_matches

    from elman.recipes.lab.registry import EXPERIMENTS

    if name in EXPERIMENTS:
        return EXPERIMENTS[name]
    near = [one for one in EXPERIMENTS if name and name in one][:MOST_NEAR]
    near = near or get_close_matches(name, EXPERIMENTS, n=MOST_NEAR)
    raise SettingError(
        "there is no such experiment",
        got=name,
        hint=f"did you mean {' or '.join(near)}?" if near else "elman lab lists them",
    )


def _draw(experiment: "Experiment", path: Path) -> None:
    if experiment.draw is None:
        raise SettingError(
            "this experiment has no picture",
            got=experiment.name,
            hint="elman lab marks those that have one",
        )
    experiment.draw(path)
    say(f"picture written to {path}")


def _write_notebook(experiment: "Experiment", path: Path) -> None:
    from elman.atomic_files import write_atomically
    from elman.recipes.lab.notebook import notebook

    if path.suffix != ".ipynb":
        raise SettingError("a notebook must be a .ipynb file", got=str(path))
    write_atomically(path, notebook(experiment).encode())
    say(f"notebook written to {path}")


def _list(experiments: "Sequence[Experiment]", *, as_json: bool) -> int:
    if as_json:
        print_json(
            [
                {
                    "name": one.name,
                    "title": one.title,
                    "source": one.source,
                    "takes": one.takes,
                    "has_picture": one.draw is not None,
                }
                for one in experiments
            ]
        )
        return 0
    from elman.apps.cli.lab_view import show_experiments

    show_experiments(experiments)
    return 0


def _run(experiments: "Sequence[Experiment]", *, whole: bool, as_json: bool) -> int:
    from elman.recipes.lab.checking import run_experiments, with_unmeasured

    report = run_experiments(experiments, on_begun=lambda name: say(f"{name} …"))
    if whole:
        report = with_unmeasured(report)
    if as_json:
        print_json(report_json(report))
    else:
        from elman.apps.cli.lab_view import show_findings

        show_findings(report)
        output_console().print(_conclusion(report))
    return 0 if report.is_as_expected else EXIT_DIFFERS


def report_json(report: "LabReport") -> dict[str, object]:
    """Return the findings, how many there are of each verdict, and the seconds taken."""
    from elman.recipes.lab.claims import Verdict

    return {
        "findings": [finding.to_json() for finding in report.findings],
        "verdicts": {verdict: report.count(verdict) for verdict in get_args(Verdict)},
        "seconds": dict(report.seconds),
        "is_as_expected": report.is_as_expected,
    }


def _conclusion(report: "LabReport") -> str:
    corrected = report.count("holds as corrected")
    expected = report.count("holds") + corrected
    measured = expected + report.count("differs")
    told = f"{expected:,} of {measured:,} claim{plural(measured)} as expected"
    if corrected:
        told += f", {corrected:,} of them not as worded but as corrected"
    if report.count("not measured") or report.count("cannot be measured"):
        told += (
            f"; {report.count('not measured'):,} not measured, "
            f"{report.count('cannot be measured'):,} that cannot be"
        )
    return f"{told}, in {sum(report.seconds.values()):.1f} s"
