"""Questions asked of evidence that was made by hand, where the answer is plain."""

import copy
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from elman.checkpoints.run_folder import RunFolder
from elman.recipes.diagnosing import learning_faults, state_faults, text_faults
from elman.recipes.diagnosing.diagnosis import diagnosis_of
from elman.recipes.diagnosing.evidence import (
    Evidence,
    PartText,
    TextEvidence,
    Update,
    Validation,
)
from elman.recipes.trained import open_trained

NO_LINES = np.zeros(0, np.int64)


def part(text: str, unknown: int = 0) -> PartText:
    """A stream of characters by their code points."""
    return PartText(np.array([ord(sign) for sign in text]), NO_LINES, len(text), unknown)


def lines(*texts: str) -> PartText:
    """Lines with their stop marks, 0."""
    ids = [np.array([*map(ord, text), 0]) for text in texts]
    lengths_N = np.array([len(line) for line in ids])
    ids_N = np.concatenate(ids)
    return PartText(ids_N, lengths_N.cumsum() - lengths_N, len(ids_N), 0)


def chance_text(size: int, seed: int) -> str:
    """Letters by chance: no passage of it comes twice."""
    return "".join(np.random.default_rng(seed).choice(list("abcdefghij"), size))


def updates(*nats: float, skipped: bool = False) -> tuple[Update, ...]:
    """Rows of metrics, one for each recent loss."""
    return tuple(
        Update(number, each, each, skipped, 0.05) for number, each in enumerate(nats, start=1)
    )


@pytest.mark.parametrize(
    ("nats", "is_found"),
    [((3.0, 2.0, 1.0), False), ((3.0, 2.0, 2.2, 1.9), False), ((3.0, 2.0, 2.5, 1.9), True)],
)
def test_a_loss_that_rises_tells_of_the_rate(
    bare: Evidence, nats: tuple[float, ...], is_found: bool
) -> None:
    fault = learning_faults.rate_too_high(replace(bare, updates=updates(*nats)))
    assert (fault is not None) == is_found
    if fault is not None:
        assert fault.figures["rise"] == pytest.approx(0.5)
        assert "0.017" in fault.change


@pytest.mark.parametrize(
    ("nats", "training", "is_found"),
    [
        ((2.0, 1.8, 1.95), (2.1, 1.9, 1.9), True),  # it rose, and not by heart
        ((2.0, 1.8, 1.95), (2.1, 1.9, 1.5), False),  # by heart
        ((2.0, 1.8, 1.85), (2.1, 1.9, 1.9), False),  # a little
        ((0.01, 0.001, 0.01), (0.02, 0.01, 0.02), False),  # of next to nothing
    ],
)
def test_a_held_out_loss_that_rises_tells_of_the_rate(
    bare: Evidence, nats: tuple[float, ...], training: tuple[float, ...], is_found: bool
) -> None:
    validations = tuple(map(Validation, (10, 20, 30), nats, training))
    given = replace(bare, updates=updates(3.0, 2.0), validations=validations)
    fault = learning_faults.rate_too_high(given)
    assert (fault is not None) == is_found
    if fault is not None:
        assert "8.3 % worse after update 30 than after 20" in fault.evidence


def test_a_rate_far_above_the_usual_is_set_back_to_it(bare: Evidence) -> None:
    rows = tuple(Update(n, 1.0, 1.0 + n, False, 1000.0) for n in range(3))
    fault = learning_faults.rate_too_high(replace(bare, updates=rows))
    assert fault is not None
    assert "training.learning_rate = 0.05 (it was 1000)" in fault.change


def test_updates_that_were_no_numbers_tell_of_the_rate(bare: Evidence) -> None:
    fault = learning_faults.rate_too_high(replace(bare, updates=updates(1.0, skipped=True)))
    assert fault is not None
    assert fault.figures["skipped"] == 1


@pytest.mark.parametrize(
    ("last", "training", "is_found"),
    [
        (2.0, 1.5, False),  # no worse than the best, and not far from training
        (2.0, 1.0, True),  # known by heart
        (2.2, 1.6, True),  # grew worse
        (2.2, 1.9, False),  # the training loss is hardly lower
        (2.2, 3.0, False),  # it rose as well: that is no overfitting
    ],
)
def test_overfitting_is_a_gap_that_grows(
    bare: Evidence, last: float, training: float, is_found: bool
) -> None:
    rows = (Validation(10, 2.5, 2.4), Validation(20, 2.0, 1.9), Validation(30, last, training))
    fault = learning_faults.overfitting(replace(bare, validations=rows))
    assert (fault is not None) == is_found


def test_nothing_is_learnt_where_frequencies_do_as_well(bare: Evidence) -> None:
    text = TextEvidence(part("ab" * 500), {"valid": part("ab" * 500)})
    expected = -np.log(501 / (1002 + 97))  # counts plus one over 99 ids, 97 of them never seen
    found = learning_faults.single_token_nats(text.train, text.looked_at)
    assert found == pytest.approx(expected)
    for nats, is_found in ((expected, True), (0.5 * expected, False)):
        one = replace(bare, text=text, validations=(Validation(1, nats, nats),))
        assert (learning_faults.nothing_learnt(one) is not None) == is_found


@pytest.mark.parametrize(("copied", "is_found"), [(0, False), (30, False), (2000, True)])
def test_passages_of_the_training_text_are_found(
    bare: Evidence, copied: int, is_found: bool
) -> None:
    train, held_out = chance_text(20_000, 1), chance_text(8_000, 2)
    held_out_parts = {"valid": part(chance_text(2000, 9)), "test": part(held_out)}
    text = TextEvidence(part(train + held_out[1000 : 1000 + copied]), held_out_parts)
    fault = text_faults.held_out_in_training(replace(bare, text=text))
    assert (fault is not None) == is_found
    if fault is not None:
        assert fault.figures["share"] == pytest.approx(0.25, abs=1e-3)


def test_lines_that_are_learnt_from_are_found(bare: Evidence) -> None:
    for shared, is_found in ((1, False), (4, True)):
        known = [f"name {number}" for number in range(20)]
        held_out = known[:shared] + [f"other {number}" for number in range(10 - shared)]
        text = TextEvidence(lines(*known), {"valid": lines(*held_out)})
        fault = text_faults.held_out_in_training(replace(bare, text=text))
        assert (fault is not None) == is_found


@pytest.mark.parametrize(("times", "share"), [(1, 0.0), (2, 0.5), (3, 2 / 3)])
def test_a_text_that_repeats_itself_is_found(bare: Evidence, times: int, share: float) -> None:
    text = TextEvidence(part(chance_text(5000, 3) * times), {})
    fault = text_faults.repeated_training_text(replace(bare, text=text))
    assert (fault is not None) == (times > 1)
    if fault is not None:
        assert fault.figures["share"] == pytest.approx(share, abs=0.01)


def test_runs_at_the_ends_of_lines_are_padding_and_others_are_not(bare: Evidence) -> None:
    vocabulary = bare.trained.tokenizer.vocabulary if bare.trained else None
    assert vocabulary is not None

    def ids(text: str) -> PartText:
        known = {symbol: number for number, symbol in enumerate(vocabulary.symbols)}
        return PartText(np.array([known[sign] for sign in text]), NO_LINES, len(text), 0)

    within = "".join(f"{'-' * 10}word\n" for _ in range(50))
    after = "".join(f"word{' ' * 10}\n" for _ in range(50))
    for text, is_found in ((within, False), (after, True)):
        asked = replace(bare, text=TextEvidence(ids(text), {}))
        fault = text_faults.padding_in_text(asked)
        assert (fault is not None) == is_found
        if fault is not None:
            assert fault.figures["share"] == pytest.approx(10 / 15)
            assert "' '" in fault.evidence


def test_a_diagnosis_changes_nothing_of_the_run(healthy_run: Path) -> None:
    def contents() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in healthy_run.iterdir() if path.is_file()}

    before = contents()
    first, second = diagnosis_of(healthy_run), diagnosis_of(healthy_run)
    assert contents() == before
    assert first == second
    assert not first.faults
    assert len(first.asked) >= 12


def test_a_state_that_is_no_number_is_found_wherever_it_stands(evidence: Evidence) -> None:
    last = max(evidence.carried)
    carried = {**evidence.carried, last: evidence.carried[last] * float("nan")}
    assert state_faults.broken_state(evidence) is None
    fault = state_faults.broken_state(replace(evidence, carried=carried))
    assert fault is not None
    assert last in fault.evidence


def test_the_state_of_another_run_is_none_of_this_one(evidence: Evidence) -> None:
    fault = state_faults.broken_state(replace(evidence, state_error="altered"))
    assert fault is not None
    assert "altered" in fault.evidence


def altered(run: Path, place: Path, change: Callable[[nn.Module], None]) -> Path:
    """A copy of the run with other weights."""
    shutil.copytree(run, place)
    trained = open_trained(place)
    with torch.no_grad():
        change(trained.model)
    RunFolder.open(place).save_weights(trained.model, update=1)
    return place


def test_weights_that_are_too_large_are_broken_and_the_rest_is_not_asked(
    healthy_run: Path, tmp_path: Path
) -> None:
    def enlarge(model: nn.Module) -> None:
        for parameter in model.parameters():
            parameter.mul_(1e37)

    found = diagnosis_of(altered(healthy_run, tmp_path / "large", enlarge))
    assert found.names[:1] == ("broken-weights",)
    assert "padding-leaks" not in found.asked


def test_a_model_without_memory_is_not_said_to_explode(healthy_run: Path, tmp_path: Path) -> None:
    def forget(model: nn.Module) -> None:
        for name, parameter in model.named_parameters():
            if "cells" in name:
                parameter.mul_(0.0)

    found = diagnosis_of(altered(healthy_run, tmp_path / "zero", forget))
    assert "exploding-reach" not in found.names
    assert "state-across-lines" not in found.names  # it tells nothing of the text
    assert "input-ignored" in found.names


def test_metrics_of_no_use_are_passed_over(healthy_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "odd"
    shutil.copytree(healthy_run, run)
    rows = (
        '{"event": "update", "update": 1, "smoothed_nats": true, "rate": 1' + "0" * 400 + "}\n",
        '{"event": "validation", "update": "three", "nats_per_token": 1.0}\n',
    )
    (run / "metrics.jsonl").write_text("".join(rows), encoding="utf-8")
    assert not diagnosis_of(run).faults


def test_padding_is_found_in_the_order_in_which_a_text_is_written(bare: Evidence) -> None:
    assert bare.trained is not None
    known = {
        symbol: number for number, symbol in enumerate(bare.trained.tokenizer.vocabulary.symbols)
    }
    written = np.array([known[sign] for sign in "".join(f"word{' ' * 10}\n" for _ in range(50))])
    backward = replace(bare.settings, text=replace(bare.settings.text, direction="backward"))
    folder = copy.copy(bare.folder)
    folder._settings = backward
    text = TextEvidence(PartText(written[::-1], NO_LINES, len(written), 0), {})
    asked = replace(bare, folder=folder, text=text)
    assert text_faults.padding_in_text(asked) is not None
