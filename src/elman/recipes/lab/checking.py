"""Experiments run, their findings held against what is expected: a verdict for each claim."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from elman.recipes.lab.claims import Claim, Verdict, load_claims, verdict
from elman.recipes.lab.experiment import Experiment, Measured


@dataclass(frozen=True)
class Finding:
    """A claim, what an experiment measured for it (None: nothing), and whether that is expected."""

    claim: Claim
    experiment: str
    measured: Measured | None
    verdict: Verdict

    def to_json(self) -> dict[str, object]:
        """Return what JSON can hold."""
        claim = self.claim
        expected = None if claim.expected is None else claim.expected._asdict()
        told = {"claim": claim.name, "place": claim.place, "says": claim.says, "of": claim.of}
        told |= {"reason": claim.reason, "remark": claim.remark, "experiment": self.experiment}
        measured = None if self.measured is None else asdict(self.measured)
        return told | {"expected": expected, "measured": measured, "verdict": self.verdict}


@dataclass(frozen=True)
class LabReport:
    """What every experiment that ran has found, and how many seconds each took."""

    findings: tuple[Finding, ...]
    seconds: Mapping[str, float]

    @property
    def is_as_expected(self) -> bool:
        """Whether no claim that was measured differs."""
        return all(finding.verdict != "differs" for finding in self.findings)

    def count(self, verdict: Verdict) -> int:
        """Return how many claims have this verdict."""
        return sum(finding.verdict == verdict for finding in self.findings)


def run_experiments(
    experiments: Sequence[Experiment], *, on_begun: Callable[[str], None] = lambda name: None
) -> LabReport:
    """Run each, and return the findings in the order of the claims' names.

    Raises `ValueError` for a claim that no file has, or that two experiments measure.
    """
    claims, measured, seconds = load_claims(), dict[str, tuple[str, Measured]](), {}
    for experiment in experiments:
        on_begun(experiment.name)
        begun = time.perf_counter()
        for found in experiment.run():
            if found.claim not in claims:
                raise ValueError(f"{experiment.name} measures {found.claim}, which is no claim")
            if found.claim in measured:
                raise ValueError(f"{found.claim} is measured by {measured[found.claim][0]} too")
            measured[found.claim] = experiment.name, found
        seconds[experiment.name] = time.perf_counter() - begun
    findings = []
    for name in sorted(measured):
        by, found = measured[name]
        findings.append(Finding(claims[name], by, found, verdict(claims[name], found.value)))
    return LabReport(tuple(findings), seconds)


def with_unmeasured(report: LabReport) -> LabReport:
    """Return the report with every other claim beside those measured, with its reason or none."""
    measured = {finding.claim.name for finding in report.findings}
    others = (claim for name, claim in load_claims().items() if name not in measured)
    rest = [Finding(claim, "", None, verdict(claim, None)) for claim in others]
    findings = sorted((*report.findings, *rest), key=lambda finding: finding.claim.name)
    return LabReport(tuple(findings), report.seconds)
