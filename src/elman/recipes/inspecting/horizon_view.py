"""The views horizon and memory: how many tokens back a model uses, what its state still holds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from elman.evaluation.reach import ReachCurve, reach_curve
from elman.evaluation.scorers import ModelScorer
from elman.inspection.gradient_reach import gradient_reach
from elman.inspection.horizon import NOTICEABLE, PerturbationCurve, perturbation_curve
from elman.inspection.probes import Probe, probe_memory
from elman.recipes.inspecting.language_subject import LanguageSubject

BACKS = (0, 1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 75, 100, 150, 200)
PROBED = (0, 1, 2, 3, 4, 5, 7, 10, 15, 20)
GRADIENT_PLACES = 20
MOST_PROBED = 20_000
"""Tokens of the text, from its beginning, that probes are fitted on and asked about."""


@dataclass(frozen=True)
class HorizonView:
    """How far back, asked in three ways, and one sentence with its number.

    perturbed: another token k back. shuffled: the loss when what is further back than k tokens
    stands in an order by chance. gradients: mean norms by inputs k back.
    """

    perturbed: PerturbationCurve
    shuffled: ReachCurve
    backs: tuple[int, ...]
    gradients: tuple[float, ...]

    @property
    def gradient_horizon(self) -> int:
        """The largest k with a hundredth of the largest gradient."""
        limit = NOTICEABLE * max(self.gradients)
        pairs = zip(self.backs, self.gradients, strict=True)
        return max(back for back, norm in pairs if norm >= limit)

    @property
    def told(self) -> str:
        """The conclusion in one sentence."""
        back = self.perturbed.horizon
        return (
            f"the model uses about {back + 1} token{'s'[: back != 0]}: a change further back moves "
            f"the next prediction by less than a hundredth of the largest effect; the order of "
            f"tokens matters over the last {self.shuffled.effective_length}, gradients reach "
            f"{self.gradient_horizon + 1}"
        )

    def to_json(self) -> dict[str, object]:
        """Return what JSON can hold."""
        curve = self.perturbed
        return {
            "perturbation": {
                "tokens_back": list(curve.backs),
                "nats": list(curve.nats),
                "standard_errors": list(curve.errors),
                "num_positions": curve.num_positions,
                "horizon": curve.horizon,
            },
            "shuffled": self.shuffled.to_json(),
            "gradient": {
                "tokens_back": list(self.backs),
                "norms": list(self.gradients),
                "horizon": self.gradient_horizon,
            },
            "conclusion": self.told,
        }


def horizon_view(
    subject: LanguageSubject,
    *,
    num_positions: int,
    seed: int = 1,
    on_stage: Callable[[str], None] = lambda stage: None,
) -> HorizonView:
    """Return how far back the model looks in the text, as far as the text is long.

    Raises `DataError` for a text too short for anything to be asked.
    """
    ids_N, model, plan = subject.ids_N, subject.model, subject.trained.plan
    backs = [back for back in BACKS if back <= max(2, len(ids_N) // 4)]
    on_stage("another token instead …")
    perturbed = perturbation_curve(
        model, ids_N, backs, plan=plan, num_positions=num_positions, seed=seed
    )
    on_stage("another order …")
    lengths = [back for back in backs if back]
    scorer = ModelScorer(model, plan)
    shuffled = reach_curve(
        scorer, ids_N, "shuffled", num_positions=num_positions, lengths=lengths, seed=seed
    )
    on_stage("gradients …")
    return HorizonView(perturbed, shuffled, tuple(backs), _gradients(subject, backs, seed))


def _gradients(subject: LanguageSubject, backs: Sequence[int], seed: int) -> tuple[float, ...]:
    """Return mean norms of the gradient of −ln p by the input k back, over places by chance."""
    ids = torch.from_numpy(subject.ids_N)
    length = max(backs) + 1
    drawn = torch.Generator().manual_seed(seed)
    ends = torch.randint(length, len(ids), (GRADIENT_PLACES,), generator=drawn).tolist()
    rows_BT = torch.stack([ids[end - length : end] for end in ends])
    found = gradient_reach(subject.model, rows_BT, ids[torch.tensor(ends)])
    return tuple(found.inputs_BK.mean(dim=0)[list(backs)].tolist())


def memory_view(subject: LanguageSubject) -> list[Probe]:
    """Return how well the tokens before can be read off the state, by linear probes.

    The state is that which the readout sees. Raises `DataError` for a text too short.
    """
    ids_1T = torch.from_numpy(subject.ids_N[:MOST_PROBED])[None]
    with torch.no_grad():
        states_TH = subject.model(ids_1T, plan=subject.trained.plan).states_BTH[0]
    return probe_memory(states_TH, ids_1T[0], PROBED, subject.model.vocabulary_size)
