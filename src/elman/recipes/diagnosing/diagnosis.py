"""Every question that is asked of a run, in order, and what was found."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from elman.models.recurrent import RecurrentLanguageModel
from elman.recipes.diagnosing import (
    learning_faults,
    reach_faults,
    row_faults,
    state_faults,
    text_faults,
    weight_faults,
)
from elman.recipes.diagnosing.evidence import Evidence, evidence_of
from elman.recipes.diagnosing.fault import FAULTS, FOLLOWING, Fault

Question = Callable[[Evidence], Fault | None]

_OF_METRICS: Mapping[str, Question] = MappingProxyType(
    {
        "unfinished": learning_faults.unfinished,
        "rate-too-high": learning_faults.rate_too_high,
    }
)
_OF_TEXT: Mapping[str, Question] = MappingProxyType(
    {
        "blank-vectors": weight_faults.blank_vectors,
        "repeated-training-text": text_faults.repeated_training_text,
        "padding-in-text": text_faults.padding_in_text,
    }
)
_OF_HELD_OUT_TEXT: Mapping[str, Question] = MappingProxyType(
    {
        "held-out-in-training": text_faults.held_out_in_training,
        "unknown-tokens": text_faults.unknown_tokens,
        "another-text-held-out": text_faults.another_text_held_out,
        "too-little-held-out": text_faults.too_little_held_out,
    }
)
_OF_ROWS: Mapping[str, Question] = MappingProxyType(
    {
        "held-out-in-training": row_faults.rows_in_training,
        "repeated-training-text": row_faults.repeated_rows,
        "too-little-held-out": row_faults.few_rows,
    }
)
_OF_MODELS: Mapping[str, Question] = MappingProxyType(
    {
        "biased-output": weight_faults.biased_output,
        "input-ignored": reach_faults.input_ignored,
        "padding-leaks": state_faults.padding_leaks,
        "neighbours-leak": state_faults.neighbours_leak,
        "state-across-lines": state_faults.state_across_lines,
    }
)
_OF_RECURRENCES: Mapping[str, Question] = MappingProxyType(
    {
        "vanishing-reach": reach_faults.vanishing_reach,
        "exploding-reach": reach_faults.exploding_reach,
        "window-too-short": reach_faults.window_too_short,
    }
)
_OF_GATES: Mapping[str, Question] = MappingProxyType(
    {
        "saturated-gates": reach_faults.saturated_gates,
        "closed-forget-gates": reach_faults.closed_forget_gates,
        "dead-units": reach_faults.dead_units,
    }
)


@dataclass(frozen=True)
class Diagnosis:
    """The faults of a run among the kinds `asked` about, and a line for each thing left out.

    following: those that another one explains, each with its name. is_lacking: whether something
    was left out because it is missing, so that the run is neither whole nor shown to be sound.
    """

    path: Path
    asked: tuple[str, ...]
    faults: tuple[Fault, ...]
    following: tuple[tuple[Fault, str], ...]
    left_out: tuple[str, ...]
    is_lacking: bool

    @property
    def names(self) -> tuple[str, ...]:
        """The kinds that were found."""
        return tuple(fault.name for fault in self.faults)

    def to_json(self) -> dict[str, object]:
        """Return what JSON can hold."""
        explained = [fault.name for fault, _ in self.following]
        return {
            "run": str(self.path),
            "faults": [fault.to_json() for fault in self.faults],
            "following": [fault.to_json() | {"of": cause} for fault, cause in self.following],
            "not_found": [name for name in self.asked if name not in {*self.names, *explained}],
            "left_out": list(self.left_out),
            "is_lacking": self.is_lacking,
        }


def diagnosis_of(path: Path) -> Diagnosis:
    """Return what is wrong with the run at `path`; nothing of it is changed.

    Raises `RunError` where there is none.
    """
    evidence = evidence_of(path)
    questions = questions_for(evidence)
    asked = tuple(name for name in FAULTS if name in questions)
    found = [fault for name in asked if (fault := questions[name](evidence)) is not None]
    causes = {
        name: cause.name for cause in reversed(found) for name in FOLLOWING.get(cause.name, ())
    }
    return Diagnosis(
        path,
        asked,
        tuple(fault for fault in found if fault.name not in causes),
        tuple((fault, causes[fault.name]) for fault in found if fault.name in causes),
        evidence.left_out,
        evidence.is_lacking,
    )


def questions_for(evidence: Evidence) -> dict[str, Question]:
    """Return what can be asked of such a run with what there is of it, by the name of the fault."""
    questions: dict[str, Question] = {"broken-weights": weight_faults.broken_weights}
    text, passages, settings = evidence.text, evidence.passages, evidence.settings
    if evidence.carried or evidence.state_error:
        questions["broken-state"] = state_faults.broken_state
    if evidence.updates:
        questions |= _OF_METRICS
    if evidence.validations:
        questions["overfitting"] = learning_faults.overfitting
    if evidence.rows.parts:
        questions |= _OF_ROWS
        if evidence.validations and evidence.rows.frequency_nats is not None:
            questions["nothing-learnt"] = learning_faults.nothing_learnt
    if text is not None:
        questions |= _OF_TEXT
        if text.held_out:
            questions |= _OF_HELD_OUT_TEXT
            if evidence.validations:
                questions["nothing-learnt"] = learning_faults.nothing_learnt
    if passages is not None and evidence.is_sound:
        questions |= _OF_MODELS
        if text is not None and text.held_out:
            questions["overconfident"] = weight_faults.overconfident
        if isinstance(passages.model, RecurrentLanguageModel):
            questions |= _OF_RECURRENCES
            if settings.text.unit == "line":
                del questions["window-too-short"]
        if settings.text.unit == "line":
            del questions["state-across-lines"]
    if evidence.gates and evidence.is_sound:
        questions |= _OF_GATES
        if settings.model.kind == "elman":
            del questions["closed-forget-gates"]
    return questions
