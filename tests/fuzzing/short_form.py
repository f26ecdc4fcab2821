"""The first attempts of a subject with one seed, as tests make them."""

from collections import Counter
from pathlib import Path

from outcomes import Subject, outcome_of

SEED = 1


def outcomes_of(subject: Subject, scratch: Path, attempts: int) -> Counter[str]:
    """Return how many attempts came to which end; an `AssertionError` tells the first fault."""
    subject.prepare(scratch)
    counts: Counter[str] = Counter()
    for number in range(attempts):
        outcome = outcome_of(subject, SEED, number)
        again = f'--only "{subject.name}" --seed {SEED} --number {number}'
        assert outcome.kind != "fault", f"{again}: {outcome.told}"
        counts[outcome.kind] += 1
    print(f"{subject.name}, seed {SEED}: {dict(counts)}")
    return counts
