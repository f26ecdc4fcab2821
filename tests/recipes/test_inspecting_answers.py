"""What is shown of classifiers and taggers against their own answers and against sums by hand."""

import itertools
import math
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import torch

from elman.config.model_settings import ModelSettings
from elman.config.settings import Settings
from elman.config.text_settings import TextSettings
from elman.errors import RunError, SettingError
from elman.kernels.dispatch import KernelPlan
from elman.models.classifier import SequenceClassifier
from elman.recipes.classifying import TrainedClassifier
from elman.recipes.inspecting.answer_gradients import answer_gradients
from elman.recipes.inspecting.classifier_subject import ClassifierSubject, row_to_answer
from elman.recipes.inspecting.gate_view import gates_over_text, gates_over_vocabulary
from elman.recipes.inspecting.pooling_view import pooling_view
from elman.recipes.inspecting.tagger_subject import TaggerSubject, sentence_to_tag
from elman.recipes.inspecting.tracing import chosen_units, traced, write_csv
from elman.recipes.row_encoding import TextEncoder
from elman.recipes.tag_vocabulary import learn_vocabulary
from elman.recipes.tagging import TrainedTagger, new_tagger
from elman.text.building import build_tokenizer
from elman.text.label_set import LabelSet

RUN = Path("run")
TEXT = "a bad cab"
SENTENCE = "Ann saw Bob there"
SIZES = {"hidden_size": 4, "embedding_size": 3, "num_layers": 2, "kind": "lstm"}
TEXTS = TextSettings(level="char", unit="line")


def slope_at(x_1TE: torch.Tensor, nats: Callable[[torch.Tensor], float], step: int) -> float:
    """The norm of the gradient of `nats` by what is read at one step, by differences."""
    slopes = []
    for unit in range(x_1TE.shape[2]):
        ends = []
        for by in (1e-6, -1e-6):
            moved = x_1TE.clone()
            moved[0, step, unit] += by
            ends.append(nats(moved))
        slopes.append((ends[0] - ends[1]) / 2e-6)
    return math.hypot(*slopes)


def by_chance(model: torch.nn.Module) -> torch.nn.Module:
    """The model in float64, every parameter by chance and none 0."""
    drawn = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for parameter in model.double().parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=drawn).double() * 0.8)
    return model


def classifier_of(answers: str = "one", **more: object) -> ClassifierSubject:
    settings = Settings(
        text=TEXTS, model=ModelSettings(task="classify", **(SIZES | {"bidirectional": True} | more))
    )
    encoder = TextEncoder(build_tokenizer(["abcd abc\n"], TEXTS), 0)
    labels = LabelSet(("x", "y", "z"), (1, 1, 1), answers)
    generator = torch.Generator().manual_seed(1)
    model = SequenceClassifier(settings.model, encoder.input_size, 3, generator)
    opened = TrainedClassifier(settings, encoder, labels, (by_chance(model),), KernelPlan())
    return row_to_answer(RUN, opened, TEXT)


def tagger_of(head: str, *, spans: bool = False, **more: object) -> TaggerSubject:
    sizes = SIZES | {"character_size": 3, "character_units": 2, "bidirectional": True} | more
    settings = Settings(model=ModelSettings(task="tag", head=head, **sizes))
    rows = [(("Ann", "saw", "Bob"), ("B-P", "O", "B-P") if spans else ("N", "V", "N"))] * 2
    scheme = ("BIO", "BIO") if spans else ("none", "none")
    words = TextSettings(level="word", unit="line", unknown="replace")
    vocabulary, _ = learn_vocabulary(words, rows, written=scheme[0], learnt=scheme[1])
    model = by_chance(new_tagger(settings, vocabulary, seed=1))
    return sentence_to_tag(RUN, TrainedTagger(settings, vocabulary, model, KernelPlan()), SENTENCE)


@pytest.mark.parametrize("pooling", ["final", "mean", "max", "attention"])
@pytest.mark.parametrize("both", [False, True])
def test_each_answer_is_that_of_the_beginning_read_alone(both: bool, pooling: str) -> None:
    subject = classifier_of(bidirectional=both, pooling=pooling)
    said = subject.said(2)
    assert len(said) == len(TEXT)
    for length, one in enumerate(said, start=1):
        ids_BT = torch.from_numpy(subject.row[:length].astype(np.int64))[None]
        with torch.no_grad():
            logits_C = subject.module(ids_BT, torch.tensor([length]), plan=KernelPlan())[0]
        want = logits_C.softmax(dim=0)
        assert one.probs_C.tolist() == pytest.approx(want.tolist(), rel=1e-9)
        assert one.given == (("x", "y", "z")[int(want.argmax())],)
        shares = [share for _, share in one.likeliest]
        assert shares == pytest.approx(sorted(want.tolist(), reverse=True)[:2], rel=1e-9)
    assert subject.answer_json()["probabilities"]["y"] == said[-1].probs_C[1]


def test_the_states_shown_are_those_of_the_model_in_both_directions() -> None:
    subject = classifier_of()
    with torch.no_grad():
        layers, _ = subject.stack.all_layers(subject.x_1TE, None, None, plan=KernelPlan())
    units = chosen_units(subject, 1, [3])
    assert [subject.direction(place) for place, _ in units] == ["forward", "backward"]
    rows = list(traced(subject, units, 1))
    for step, row in enumerate(rows):
        forward, backward = row.units
        assert forward.after["h"] == pytest.approx(layers[1][0, step, 2].item(), abs=1e-12)
        assert backward.after["h"] == pytest.approx(layers[1][0, step, 4 + 2].item(), abs=1e-12)
        for unit in row.units:  # c = f c′ + i g, h = o tanh c, from the numbers shown
            gates, c = unit.gates, unit.after["c"]
            made = gates["forget"] * unit.before["c"] + gates["input"] * gates["candidate"]
            assert c == pytest.approx(made, abs=1e-12)
            assert unit.after["h"] == pytest.approx(gates["output"] * math.tanh(c), abs=1e-12)
    for earlier, later in itertools.pairwise(rows):
        assert later.units[0].before == earlier.units[0].after
        assert earlier.units[1].before == later.units[1].after
    assert all(value == 0.0 for value in rows[-1].units[1].before.values())


def test_units_that_change_most_are_found_in_each_direction() -> None:
    subject = classifier_of(hidden_size=12)
    chosen = chosen_units(subject, 0, ())
    assert [place for place, _ in chosen] == [0] * 8 + [1] * 8
    moved = np.zeros((2, 12))
    for cells in subject.cells():
        for place in (0, 1):
            moved[place] += (cells[place].after[1] - cells[place].before[1]).abs()[0].numpy()
    for place in (0, 1):
        want = sorted(np.argsort(-moved[place])[:8].tolist())
        assert [unit for where, unit in chosen if where == place] == want


def test_a_table_has_a_line_for_each_step_direction_and_unit() -> None:
    subject = classifier_of()
    file = StringIO()
    write_csv(list(traced(subject, chosen_units(subject, 0, [1, 2]), 1)), file)
    lines = file.getvalue().splitlines()
    assert lines[0] == (
        "position,token,token_id,answer if ended here,p x,p y,p z,direction,unit,h before,c before,"
        "input,forget,candidate,output,h after,c after"
    )
    assert len(lines) == 1 + 4 * len(TEXT)
    assert [line.split(",")[7:9] for line in lines[1:5]] == [
        *(["forward", "1"], ["forward", "2"]),
        *(["backward", "1"], ["backward", "2"]),
    ]


@pytest.mark.parametrize("pooling", ["final", "mean", "attention"])
@pytest.mark.parametrize("answers", ["one", "several"])
def test_an_answer_depends_on_inputs_as_differences_of_its_log_probability_say(
    answers: str, pooling: str
) -> None:
    subject = classifier_of(answers, pooling=pooling)
    view = answer_gradients(subject, 0)
    given = subject.said(1)[-1].given
    lengths = torch.tensor([len(TEXT)])

    def nats(x_1TE: torch.Tensor) -> float:
        with torch.no_grad():
            states_1TH, _ = subject.stack(x_1TE, None, None, plan=KernelPlan())
            pooled = subject.module.pooling(states_1TH, lengths)[0]
            logits = subject.module.weight @ pooled + subject.module.bias
        if answers == "one":
            return (logits.logsumexp(dim=0) - logits["xyz".index(given[0])]).item()
        yes = [1.0 / (1.0 + math.exp(-logit)) for logit in logits.tolist()]
        return -sum(
            math.log(share if label in given else 1.0 - share)
            for label, share in zip("xyz", yes, strict=True)
        )

    assert view.value == pytest.approx(nats(subject.x_1TE), rel=1e-9)
    for step in range(len(TEXT)):
        slope = slope_at(subject.x_1TE, nats, step)
        assert view.inputs_T[step] == pytest.approx(slope, rel=1e-4, abs=1e-8)
    assert list(view.states) == ["forward", "backward"]
    with pytest.raises(SettingError, match="--at is for a tagger"):
        answer_gradients(subject, 0, at=1)


def test_the_other_scalars_are_the_logit_of_the_answer_and_the_norm_of_what_is_pooled() -> None:
    subject = classifier_of(pooling="mean")
    with torch.no_grad():
        states_1TH, _ = subject.stack(subject.x_1TE, None, None, plan=KernelPlan())
        logits = subject.module(subject.inputs, subject.lengths_1, plan=KernelPlan())[0]
    norm = states_1TH[0].mean(dim=0).norm().item()
    assert answer_gradients(subject, 1, "state").value == pytest.approx(norm, rel=1e-9)
    assert answer_gradients(subject, 1, "logit").value == pytest.approx(logits.max().item())


def test_pooling_shows_the_softmax_of_its_query_and_nothing_on_padding() -> None:
    subject = classifier_of(pooling="attention")
    view = pooling_view(subject)
    with torch.no_grad():
        states_TH = subject.stack(subject.x_1TE, None, None, plan=KernelPlan())[0][0].numpy()
    pooling = subject.module.pooling
    weight, bias, query = (
        tensor.detach().numpy() for tensor in (pooling.weight, pooling.bias, pooling.query)
    )
    scores = np.exp([query @ np.tanh(weight @ state + bias) for state in states_TH])
    assert view.weights_T == pytest.approx((scores / scores.sum()).tolist(), rel=1e-9)
    assert view.on_padding == 0.0
    entropy = -sum(share * math.log(share) for share in view.weights_T)
    assert view.entropy_nats == pytest.approx(entropy, rel=1e-9)
    with pytest.raises(RunError, match=r'no attention to look at; got model.pooling = "final"'):
        pooling_view(classifier_of(pooling="final"))


def paths_of(subject: TaggerSubject, emissions_TC: torch.Tensor) -> dict[tuple[int, ...], float]:
    """The probability of every sequence of tags, by summing over all of them."""
    crf, num_tags = subject.module.crf, emissions_TC.shape[1]
    scores = {}
    for tags in itertools.product(range(num_tags), repeat=len(emissions_TC)):
        score = sum(emissions_TC[step, tag].item() for step, tag in enumerate(tags))
        if crf is not None:
            score += crf.start[tags[0]].item() + crf.end[tags[-1]].item()
            score += sum(crf.between[pair].item() for pair in itertools.pairwise(tags))
        scores[tags] = score
    whole = math.log(math.fsum(map(math.exp, scores.values())))
    return {tags: math.exp(score - whole) for tags, score in scores.items()}


@pytest.mark.parametrize("spans", [False, True])
@pytest.mark.parametrize("head", ["softmax", "crf"])
def test_tags_have_the_probabilities_of_all_sequences_together(head: str, spans: bool) -> None:
    subject = tagger_of(head, spans=spans)
    emissions_BTC, _ = subject.tagger.emissions([SENTENCE.split()])
    paths = paths_of(subject, emissions_BTC[0])
    names = subject.tagger.vocabulary.tags.tags
    said = subject.said(len(names))
    (answer,) = subject.tagger.answers([SENTENCE.split()])
    assert tuple(one.written for one in said) == answer.tags
    assert [one.tag.probability for one in said] == pytest.approx(answer.probs, rel=1e-12)
    for step, one in enumerate(said):
        shares = [0.0] * len(names)
        for tags, share in paths.items():
            shares[tags[step]] += share
        told = {share.tag: share.probability for share in one.top}
        assert [told[name] for name in names] == pytest.approx(shares, rel=1e-9)
        others = [share for name, share in zip(names, shares, strict=True) if name != one.tag.tag]
        assert one.runner_up is not None
        assert one.runner_up.probability == pytest.approx(max(others), rel=1e-9)


@pytest.mark.parametrize("at", [None, 0, 2])
@pytest.mark.parametrize("head", ["softmax", "crf"])
def test_tags_depend_on_tokens_as_differences_of_their_probability_say(
    head: str, at: int | None
) -> None:
    subject = tagger_of(head)
    view = answer_gradients(subject, 1, at=at)
    best = tuple(subject.best_1T[0].tolist())

    def nats(x_1TE: torch.Tensor) -> float:
        with torch.no_grad():
            states_TH = subject.stack(x_1TE, None, None, plan=KernelPlan())[0][0]
            emissions_TC = states_TH @ subject.module.weight.T + subject.module.bias
        paths = paths_of(subject, emissions_TC)
        if at is None:
            return -math.log(paths[best])
        return -math.log(math.fsum(p for tags, p in paths.items() if tags[at] == best[at]))

    assert view.value == pytest.approx(nats(subject.x_1TE), rel=1e-9)
    for step in range(4):
        slope = slope_at(subject.x_1TE, nats, step)
        assert view.inputs_T[step] == pytest.approx(slope, rel=1e-4, abs=1e-8)
    assert view.answer == (
        "all tags"
        if at is None
        else f"{subject.said(1)[at].tag.tag} at token {at + 1} ({SENTENCE.split()[at]})"
    )
    with pytest.raises(SettingError, match="--at must be a token of the sentence; got 5"):
        answer_gradients(subject, 1, at=4)


def test_gates_are_told_of_every_direction_over_text_and_vocabulary() -> None:
    for subject, size in ((classifier_of(), 3 + 5), (tagger_of("crf"), 3)):
        over_text, over_tokens = gates_over_text(subject), gates_over_vocabulary(subject)
        names = [f"{layer} {way}" for layer in (1, 2) for way in ("forward", "backward")]
        assert [layer.name for layer in over_text] == names
        assert over_tokens[0].num_steps == size
        forget = [cells[2].gates["forget"].mean().item() for cells in subject.cells()]
        (told,) = [gate for gate in over_text[2].gates if gate.name == "forget"]
        assert told.mean == pytest.approx(sum(forget) / len(forget), rel=1e-9)


def test_looking_changes_no_parameter_and_keeps_no_gradient() -> None:
    for subject in (classifier_of(pooling="attention"), tagger_of("crf")):
        before = {name: value.clone() for name, value in subject.module.state_dict().items()}
        list(traced(subject, chosen_units(subject, 0, ()), 2))
        answer_gradients(subject, 0)
        gates_over_vocabulary(subject)
        now = subject.module.state_dict()
        assert all(torch.equal(value, now[name]) for name, value in before.items())
        assert all(parameter.grad is None for parameter in subject.module.parameters())
