"""The views horizon and memory: how many tokens back a model uses, what its state still holds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from elman.errors import DataError
from elman.evaluation.reach import ReachCurve, reach_curve
from elman.evaluation.scorers import ModelScorer
from elman.inspection.gradient_reach import gradient_reach
from elman.inspection.horizon import (
    NOTICEABLE,
    PerturbationCurve,
    perturbation_curve,
    require_perturbable,
)
from elman.inspection.probes import (
    MOST_NEEDED,
    Probe,
    probe_memory,
    probe_tokens,
    require_probeable,
)
from elman.recipes.inspecting.language_subject import LanguageSubject

BACKS = (0, 1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 75, 100, 150, 200)
PROBED = (0, 1, 2, 3, 4, 5, 7, 10, 15, 20)
GRADIENT_PLACES = 20
MOST_PROBED = 20_000
"""Tokens of the text, from its beginning, that probes are fitted on and asked about."""


class Horizon(NamedTuple):
    """How many tokens are used: the last noticed one was asked about, and the next one that was.

    `at_most` is None where the furthest one that was asked about is still noticed.
    """

    at_least: int
    at_most: int | None

    @property
    def told(self) -> str:
        """The number in words."""
        if self.at_most is None:
            return f"at least {self.at_least}"
        if self.at_least == self.at_most:
            return str(self.at_least)
        return f"between {self.at_least} and {self.at_most}"


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
    def horizon(self) -> Horizon:
        """How many tokens have an effect of a hundredth of the largest."""
        return self._noticed(self.perturbed.nats)

    @property
    def gradient_horizon(self) -> Horizon:
        """How many tokens have a hundredth of the largest gradient."""
        return self._noticed(self.gradients)

    @property
    def order_beyond(self) -> int | None:
        """The largest k such that the order of what is further back surely matters; None: no k.

        It does where the interval of the loss lies above that of the loss with all in order.
        """
        curve = self.shuffled
        highest = curve.nats[-1] + curve.half_widths[-1]
        above = [
            length
            for length, nats, width in zip(
                curve.lengths, curve.nats, curve.half_widths, strict=True
            )
            if nats - width > highest
        ]
        return max(above, default=None)

    @property
    def told(self) -> str:
        """The conclusion in one sentence."""
        used, curve = self.horizon, self.shuffled
        one = used.at_most == 1
        width = max(curve.half_widths[-1], min(curve.half_widths))
        order = (
            f"that the order of tokens matters is not seen at {curve.num_positions:,} places "
            f"(± {width:.2g} nats)"
            if self.order_beyond is None
            else f"the order of what is more than {self.order_beyond} back matters, beyond the ± "
            f"of {curve.num_positions:,} places"
        )
        return (
            f"the model uses {used.told} token{'' if one else 's'}: a change further back moves "
            f"the next prediction by less than a hundredth of the largest effect; {order}; "
            f"gradients reach {self.gradient_horizon.told} tokens"
        )

    def to_json(self) -> dict[str, object]:
        """Return what JSON can hold; horizons count tokens, the one just read among them."""
        curve = self.perturbed
        return {
            "perturbation": {
                "tokens_back": list(curve.backs),
                "nats": list(curve.nats),
                "standard_errors": list(curve.errors),
                "num_positions": curve.num_positions,
                "horizon": self.horizon._asdict(),
            },
            "shuffled": {**self.shuffled.to_json(), "order_matters_beyond": self.order_beyond},
            "gradient": {
                "tokens_back": list(self.backs),
                "norms": list(self.gradients),
                "horizon": self.gradient_horizon._asdict(),
            },
            "conclusion": self.told,
        }

    def _noticed(self, effects: Sequence[float]) -> Horizon:
        limit, furthest = NOTICEABLE * max(effects), -1
        for place, effect in enumerate(effects):
            if effect >= limit > 0.0:
                furthest = place
        at_least = self.backs[furthest] + 1 if furthest >= 0 else 0
        is_last = furthest == len(self.backs) - 1
        return Horizon(at_least, None if is_last else self.backs[furthest + 1])


def require_horizon(subject: LanguageSubject) -> None:
    """Raise `DataError` for a text too short for anything to be asked, or of several lines."""
    subject.require_one_line("a horizon")
    require_perturbable(subject.ids_N, _backs(subject))


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
    require_horizon(subject)
    ids_N, model, plan = subject.ids_N, subject.model, subject.trained.plan
    backs = _backs(subject)
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


def _backs(subject: LanguageSubject) -> list[int]:
    return [back for back in BACKS if back <= max(2, len(subject.ids_N) // 4)]


def _gradients(subject: LanguageSubject, backs: Sequence[int], seed: int) -> tuple[float, ...]:
    """Return mean norms of the gradient of −ln p by the input k back, over places by chance."""
    ids = torch.from_numpy(subject.ids_N)
    length = max(backs) + 1
    drawn = torch.Generator().manual_seed(seed)
    ends = torch.randint(length, len(ids), (GRADIENT_PLACES,), generator=drawn).tolist()
    rows_BT = torch.stack([ids[end - length : end] for end in ends])
    found = gradient_reach(subject.model, rows_BT, ids[torch.tensor(ends)])
    return tuple(found.inputs_BK.mean(dim=0)[list(backs)].tolist())


def require_memory(subject: LanguageSubject) -> None:
    """Raise `DataError` for a text too short for a probe to be fitted and asked."""
    if subject.num_lines > 1:
        _probed_of_lines(subject)
        return
    try:
        require_probeable(min(len(subject.ids_N), MOST_PROBED), PROBED)
    except DataError as error:
        if not subject.is_line:
            raise
        raise DataError(
            "one line is too short to fit a probe of memory and to ask it",
            got=f"{len(subject.ids_N):,} tokens",
            hint="give --file with many lines: each is read from its own beginning",
        ) from error


def memory_view(subject: LanguageSubject) -> list[Probe]:
    """Return how well the tokens before can be read off the state, by linear probes.

    The state is that which the readout sees. Of several lines each is read from its own beginning,
    and every k is asked at the same steps: those with the furthest k within their line. Raises
    `DataError` for a text too short.
    """
    require_memory(subject)
    size = subject.model.vocabulary_size
    if subject.num_lines > 1:
        return _memory_of_lines(subject, _probed_of_lines(subject), size)
    ids_1T = torch.from_numpy(subject.ids_N[:MOST_PROBED])[None]
    with torch.no_grad():
        states_TH = subject.model(ids_1T, plan=subject.trained.plan).states_BTH[0]
    return probe_memory(states_TH, ids_1T[0], PROBED, size)


def _memory_of_lines(subject: LanguageSubject, backs: Sequence[int], size: int) -> list[Probe]:
    furthest = max(backs)
    states, before = dict[int, torch.Tensor](), dict[int, torch.Tensor]()
    for places, ids_BT in subject.batches(MOST_PROBED):
        ids = torch.from_numpy(ids_BT)
        length = ids.shape[1]
        if length < furthest + 2:
            continue
        with torch.no_grad():
            states_BTH = subject.model(ids, plan=subject.trained.plan).states_BTH
        for row, place in enumerate(places):
            # The mark that opens a line is not asked about: it stands there always.
            states[place] = states_BTH[row, furthest + 1 :]
            tokens = [ids[row, furthest + 1 - back : length - back] for back in backs]
            before[place] = torch.stack(tokens)
    states_NH = torch.cat([states[place] for place in sorted(states)])
    before_KN = torch.cat([before[place] for place in sorted(states)], dim=1)
    return probe_tokens(states_NH, before_KN, backs, size)


def _probed_of_lines(subject: LanguageSubject) -> list[int]:
    """Return the k that are asked about: as far as a quarter of all steps have such a token."""
    lengths = [len(ids_T) - 1 for ids_T in subject.lines(MOST_PROBED)]
    found = list[int]()
    for back in PROBED:
        steps = sum(max(0, length - back) for length in lengths)
        if steps >= max(MOST_NEEDED, sum(lengths) // 4):
            found.append(back)
    if not found:
        raise DataError(
            "the lines are too few to fit a probe and to ask it",
            got=f"{sum(lengths):,} tokens",
            allowed=f"{MOST_NEEDED:,} and more",
        )
    return found
