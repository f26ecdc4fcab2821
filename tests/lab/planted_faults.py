"""What tests of experiments share: the verdict on a claim, as the command would give it."""

from elman.recipes.lab.checking import run_experiments
from elman.recipes.lab.claims import Verdict
from elman.recipes.lab.experiment import Experiment


def verdicts(experiment: Experiment) -> dict[str, Verdict]:
    """Run the experiment and return the verdict on each of its claims."""
    report = run_experiments([experiment])
    return {finding.claim.name: finding.verdict for finding in report.findings}
