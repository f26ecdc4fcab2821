"""The loss of another sequence: which tokens are read, which are answered, which are counted."""

import math
from dataclasses import replace

import pytest
import torch

from elman.config.model_settings import ModelSettings
from elman.config.training_settings import TrainingSettings
from elman.data.examples import PairBatch
from elman.evaluation.translation_report import forced_score, num_in_place
from elman.kernels.dispatch import KernelPlan
from elman.kernels.native_module import native_level
from elman.models.encoder_decoder import EncoderDecoder, shifted
from elman.training.translation_objective import TranslationObjective

PLAN = KernelPlan("reference")
PAD, MARK = 0, 1
SETTINGS = ModelSettings(
    task="translate", kind="gru", attention="projected", embedding_size=3, hidden_size=5
)


def objective_of(
    training: TrainingSettings | None = None, *, zero: bool = False, context: str = "output"
) -> TranslationObjective:
    settings = replace(SETTINGS, context=context)  # type: ignore[arg-type]
    model = EncoderDecoder(settings, 6, 4, torch.Generator().manual_seed(1)).double()
    if zero:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.zero_()
    return TranslationObjective(model, training or TrainingSettings(), boundary_id=MARK)


def batch_of(*targets: list[int]) -> PairBatch:
    lengths = [len(target) for target in targets]
    target_BT = torch.full((len(targets), max(lengths)), PAD)
    for row, target in enumerate(targets):
        target_BT[row, : len(target)] = torch.tensor(target, dtype=torch.int64)
    source_BS = torch.tensor([[2, 3, 4, 5]]).expand(len(targets), -1)
    source_lengths_B = torch.tensor([4, *(2 for _ in targets[1:])])
    return PairBatch(source_BS, source_lengths_B, target_BT, torch.tensor(lengths))


def loss_of(objective: TranslationObjective, batch: PairBatch, seed: int = 1):
    generator = torch.Generator().manual_seed(seed)
    return objective.loss(batch, None, plan=PLAN, generator=generator).loss


def test_targets_are_read_behind_the_mark_and_answered_before_it() -> None:
    batch = batch_of([2, 3, 2], [3], [])
    inputs_BT, answers_BT = shifted(batch.target_BT, batch.target_lengths_B, MARK)
    assert inputs_BT.tolist() == [[1, 2, 3, 2], [1, 3, 0, 0], [1, 0, 0, 0]]
    assert answers_BT[0].tolist() == [2, 3, 2, 1]
    assert answers_BT[1, :2].tolist() == [3, 1]
    assert answers_BT[2, :1].tolist() == [1]


def test_padding_is_no_part_of_the_loss_and_of_no_count() -> None:  # case B14
    """All-zero weights, four symbols, one answer in a row and three in the other: ln 4 each."""
    objective, batch = objective_of(zero=True), batch_of([], [2, 3])
    loss = loss_of(objective, batch)
    assert loss.plain.count == batch.num_targets == 4
    assert loss.plain.mean().item() == pytest.approx(1.386294, abs=1e-6)
    score = forced_score([objective.model], [batch], boundary_id=MARK, plan=PLAN)
    assert (score.num_tokens, score.loss_nats) == (4, pytest.approx(4 * math.log(4), abs=1e-6))
    assert score.num_right == 0  # of equal logits the first, padding, is the likeliest


def test_a_symbol_of_id_0_would_be_learnt_if_there_were_one() -> None:
    """Only lengths say what is padding: the same id within a target is a target."""
    one, other = (loss_of(objective_of(), batch_of(target)) for target in ([2, PAD], [2]))
    assert (one.plain.count, other.plain.count) == (3, 2)
    assert one.plain.nats.item() > other.plain.nats.item()


@pytest.mark.parametrize("context", ["output", "both"])
def test_the_loss_of_a_batch_is_the_sum_of_its_rows(context: str) -> None:
    objective = objective_of(context=context)
    targets = ([2, 3, 2], [3], [])
    whole = loss_of(objective, batch_of(*targets))
    total = 0.0
    for row, target in enumerate(targets):
        single = batch_of(target)
        length = 4 if row == 0 else 2
        single = single._replace(
            source_BS=single.source_BS[:, :length], source_lengths_B=torch.tensor([length])
        )
        total += loss_of(objective, single).plain.nats.item()
    assert whole.plain.nats.item() == pytest.approx(total, abs=1e-10)
    parts = [batch_of(*targets)]
    score = forced_score([objective.model], parts, boundary_id=MARK, plan=PLAN)
    assert score.loss_nats == pytest.approx(total, abs=1e-10)


def test_smoothing_changes_what_is_minimised_and_not_what_is_told() -> None:
    batch = batch_of([2, 3, 2], [3])
    plain = loss_of(objective_of(), batch)
    smoothed = loss_of(objective_of(TrainingSettings(label_smoothing=0.2)), batch)
    assert smoothed.plain.nats.item() == pytest.approx(plain.plain.nats.item(), abs=1e-10)
    assert smoothed.minimised.nats.item() != pytest.approx(plain.plain.nats.item(), abs=1e-3)


@pytest.mark.parametrize("context", ["output", "both"])
def test_scheduled_sampling_puts_guesses_in_place_of_a_share_of_the_tokens(context: str) -> None:
    """With nearly every token guessed, the loss is that of reading the model's own guesses."""
    training = TrainingSettings(scheduled_sampling=0.999999)
    objective, batch = objective_of(training, context=context), batch_of([2, 3, 2, 3], [3, 2])
    inputs_BT, answers_BT = shifted(batch.target_BT, batch.target_lengths_B, MARK)
    model = objective.model
    first = model(batch.source_BS, batch.source_lengths_B, inputs_BT, plan=PLAN)
    guesses_BT = model.readout.logits(first.features_BTF).argmax(dim=2)
    read_BT = torch.cat((inputs_BT[:, :1], guesses_BT[:, :-1]), dim=1)
    second = model(batch.source_BS, batch.source_lengths_B, read_BT, plan=PLAN)
    log_probs_BTV = model.readout.logits(second.features_BTF).log_softmax(dim=2)
    nats_BT = -log_probs_BTV.gather(2, answers_BT.unsqueeze(2)).squeeze(2)
    valid_BT = torch.arange(5) < (batch.target_lengths_B + 1).unsqueeze(1)
    got = loss_of(objective, batch).plain
    assert got.nats.item() == pytest.approx(nats_BT[valid_BT].sum().item(), abs=1e-10)
    assert got.count == 8


def test_scheduled_sampling_draws_the_share_that_was_asked_for() -> None:
    objective = objective_of(TrainingSettings(scheduled_sampling=0.25))
    batch = batch_of(*([2, 3, 2] for _ in range(2000)))
    read = objective.model.read(batch.source_BS, batch.source_lengths_B, plan=PLAN)
    inputs_BT, _ = shifted(batch.target_BT, batch.target_lengths_B, MARK)
    output = objective.model.answer(read, inputs_BT, plan=PLAN)
    guesses_BT = output.readout.logits(output.features_BTF).argmax(dim=2)[:, :-1]
    shows_BT = guesses_BT != inputs_BT[:, 1:]
    assert int(shows_BT.sum()) > 1500  # places where a guess can be told from the right token
    mixed_BT = objective._mixed(read, inputs_BT, PLAN, torch.Generator().manual_seed(3))
    assert (mixed_BT[:, 0] == MARK).all()
    changed_BT = mixed_BT[:, 1:] != inputs_BT[:, 1:]
    assert torch.equal(mixed_BT[:, 1:][changed_BT], guesses_BT[changed_BT])
    assert changed_BT[shows_BT].double().mean().item() == pytest.approx(0.25, abs=0.04)


def test_free_running_accuracy_counts_places_and_the_stop_mark() -> None:
    assert num_in_place([5, 6], [5, 6]) == 3
    assert num_in_place([5, 7], [5, 6]) == 2
    assert num_in_place([5], [5, 6]) == 1
    assert num_in_place([], []) == 1
    assert num_in_place([6, 5, 6], [5, 6]) == 0


@pytest.mark.parametrize("context", ["output", "both"])
def test_blocks_run_again_give_the_same_loss_and_gradients(context: str) -> None:
    """`training.recompute` saves memory and changes nothing else."""
    batch, found = batch_of([2, 3, 2, 3, 2], [3, 2]), []
    for recompute in (0, 2):
        objective = objective_of(TrainingSettings(recompute=recompute), context=context)
        loss = loss_of(objective, batch)
        loss.minimised.nats.backward()
        found.append((loss.plain.nats.item(), objective.model))
    assert found[0][0] == pytest.approx(found[1][0], abs=1e-12)
    others = dict(found[1][1].named_parameters())
    for name, parameter in found[0][1].named_parameters():
        torch.testing.assert_close(parameter.grad, others[name].grad, msg=name)


def test_the_native_loss_gives_what_torch_gives() -> None:
    if native_level() is None:
        pytest.skip("the native module is not built")
    batch, found = batch_of([2, 3, 2], [3], []), {}
    for choice in ("reference", "native"):
        objective = objective_of(TrainingSettings(label_smoothing=0.1))
        objective.model.float()
        plan = KernelPlan(choice)  # type: ignore[arg-type]
        generator = torch.Generator().manual_seed(1)
        loss = objective.loss(batch, None, plan=plan, generator=generator).loss
        loss.minimised.mean().backward()
        grad = objective.model.readout.weight.grad
        assert grad is not None
        found[choice] = loss, grad
        assert plan.record()["loss"].startswith("native") == (choice == "native")
    (one, one_grad), (other, other_grad) = found.values()
    assert one.minimised.nats.item() == pytest.approx(other.minimised.nats.item(), rel=1e-5)
    assert one.plain.nats.item() == pytest.approx(other.plain.nats.item(), rel=1e-5)
    torch.testing.assert_close(one_grad, other_grad, atol=1e-5, rtol=1e-4)
