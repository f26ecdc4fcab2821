"""The red and blue task read by the classes that train users' models, in float64.

The classifier of an Elman cell with relu, whose states, gates and logits these are, and the window
language model get the numbers of the fixture. What they find is held against the fractions.
"""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import Tensor
from torch.nn.functional import linear

from elman.cells.elman import ElmanCell, ElmanState
from elman.cells.supplied import supply
from elman.config.model_settings import ModelSettings
from elman.config.training_settings import TrainingSettings
from elman.data.examples import LabelBatch
from elman.evaluation.label_report import given_labels
from elman.kernels.dispatch import KernelPlan
from elman.layers.readout import Readout
from elman.models.classifier import SequenceClassifier
from elman.models.window import WindowLanguageModel
from elman.recipes.lab.clue_reader import ClueFixture, ClueReader, WindowView, exact_reader
from elman.recipes.lab.exact_rnn import ExactModel, ExactStep, Matrix, Row, token_ids, with_matrices
from elman.recipes.lab.experiment import Measured, Value
from elman.text.label_set import LabelSet
from elman.training.label_objective import LabelObjective
from elman.training.optimisers import apply_gradients, build_optimiser

ROUNDING = 1e-12
"""How far probabilities in float64 may be from the fractions'; states and logits must be equal."""


@dataclass(frozen=True)
class ProductionReader:
    """Reads with a `SequenceClassifier` of the Elman cell, and looks with a window model.

    The window has tanh where the fixture's has relu: what it sees is the same, its values are not,
    but for 0. Of its outputs, one for each token, those of the answers count.
    """

    fixture: ClueFixture
    model: SequenceClassifier

    def read(self, words: Sequence[str], old: Row | None = None) -> Sequence[ExactStep]:
        """Return a step for each word; the logits are those of every beginning of the text."""
        ids_BT, (cell,) = self._ids(words), self.model.encoder.stack.cells
        assert isinstance(cell, ElmanCell)
        assert self.model.encoder.embedding is not None
        first = [Fraction(0)] * cell.hidden_size if old is None else old
        state = (ElmanState(_tensor((first,))),)
        with torch.no_grad():
            x_BTE = self.model.encoder.embedding(ids_BT)
            states_BTH, _ = self.model.encoder.stack(x_BTE, state, None, plan=_plan())
            old_TH = torch.cat((state[0].h_BH, states_BTH[0, :-1]))
            affine_TH = cell.gates(x_BTE[0], ElmanState(old_TH))["preactivation"]
            if old is None:
                lengths_B = torch.arange(1, len(words) + 1)
                logits_TC = self.model(ids_BT.expand(len(words), -1), lengths_B, plan=_plan())
            else:
                logits_TC = linear(states_BTH[0], self.model.weight, self.model.bias)
        rows = (x_BTE[0], old_TH, affine_TH, states_BTH[0], logits_TC)
        return [
            ExactStep(word, *parts)
            for word, *parts in zip(words, *(_matrix(row) for row in rows), strict=True)
        ]

    def look(self, words: Sequence[str], length: int) -> WindowView:
        """Return the hidden units and the answers' logits of a window model."""
        model = self._window(length)
        with torch.no_grad():
            seen = model(self._ids(words), plan=_plan())
            logits_BTV = seen.readout.logits(seen.states_BTH)
        answers = token_ids(self.fixture.model, self.fixture.model.outputs)
        return WindowView(
            _matrix(seen.states_BTH[0, -1:])[0], _matrix(logits_BTV[0, -1:, list(answers)])[0]
        )

    def window_rows(self, length: int) -> Matrix:
        """Return the weights of the window model, the oldest word's first."""
        return _matrix(self._window(length).weight.flip(0).transpose(1, 2).flatten(0, 1))

    def activate(self, affine: Row) -> Row:
        """Return what the cell makes of a preactivation."""
        (cell,) = self.model.encoder.stack.cells
        assert isinstance(cell, ElmanCell)
        (new_BH,) = cell.combine({"preactivation": _tensor((affine,))}, cell.zero_state(1))
        return _matrix(new_BH)[0]

    def probabilities(self, logits: Row) -> list[float]:
        """Return torch's softmax of the logits."""
        found: list[float] = _tensor((logits,)).softmax(dim=1)[0].tolist()
        return found

    def choice(self, logits: Row) -> str:
        """Return the label that predictions would name."""
        outputs = self.fixture.model.outputs
        labels = LabelSet(outputs, (1,) * len(outputs))
        (given,) = given_labels(_tensor((logits,)).log_softmax(dim=1).numpy(), labels)
        return given[0]

    def parameters(self) -> dict[str, Matrix]:
        """Return the numbers as they are now, in the rows of the fixture."""
        named = dict(self.model.named_parameters())
        return {name: _matrix(_in_rows(name, named[theirs])) for name, theirs in _NAMES}

    def changed(self, matrices: Mapping[str, Matrix]) -> "ProductionReader":
        """Return a reader of a new model with other numbers under some names."""
        exact = with_matrices(self.fixture.model, {**self.parameters(), **matrices})
        return ProductionReader(self.fixture, _classifier(exact))

    def trained(self, words: Sequence[str], target: str, rate: Fraction) -> "ProductionReader":
        """Return a reader of a copy after one step of plain gradient descent."""
        model, outputs = copy.deepcopy(self.model), self.fixture.model.outputs
        settings = TrainingSettings(optimizer="sgd", learning_rate=float(rate))
        optimiser = build_optimiser(model, settings)
        labels_BC = torch.tensor([[float(one == target) for one in outputs]])
        batch = LabelBatch(self._ids(words), torch.tensor([len(words)]), labels_BC)
        found = LabelObjective(model, answers="one").loss(
            batch, None, plan=_plan(), generator=torch.Generator()
        )
        found.loss.minimised.nats.backward()  # type: ignore[no-untyped-call]
        apply_gradients(optimiser, 1.0)
        return ProductionReader(self.fixture, model)

    def _ids(self, words: Sequence[str]) -> Tensor:
        return torch.tensor([token_ids(self.fixture.model, words)])

    def _window(self, length: int) -> WindowLanguageModel:
        exact, parameters = self.fixture.model, self.parameters()
        block, hidden = self.fixture.block, len(exact.hidden_bias)
        settings = ModelSettings(
            kind="window",
            context_length=length,
            embedding_size=len(block),
            hidden_size=hidden,
        )
        model = WindowLanguageModel(settings, len(exact.tokens), torch.Generator()).double()
        answers = list(token_ids(exact, exact.outputs))
        readout = model.readout
        assert isinstance(readout, Readout)
        with torch.no_grad():
            model.embedding.weight.copy_(_tensor(parameters["embeddings"]))
            model.weight.copy_(_tensor(block).T)
            model.bias.copy_(_tensor((self.fixture.window_bias,))[0])
            readout.weight.zero_()
            readout.bias.fill_(-torch.inf)
            readout.weight[answers] = _tensor(parameters["output_weights"]).T
            readout.bias[answers] = _tensor(parameters["output_bias"])[0]
        return model


def production_reader() -> ProductionReader:
    """Return a reader by the trained classes of the fixture that comes with the package."""
    fixture = exact_reader().fixture
    return ProductionReader(fixture, _classifier(fixture.model))


def compared(findings: Callable[[ClueReader], Iterable[Measured]]) -> Iterator[Measured]:
    """Yield what the trained classes find, and where the fractions differ a text that says so."""
    pairs = zip(findings(exact_reader()), findings(production_reader()), strict=True)
    for exact, produced in pairs:
        value = produced.value
        if not _agree(exact.value, value):
            value = f"in fractions {exact.value}, by the trained classes {value}"
        how = f"{produced.how}; by the trained classes in float64 as in fractions"
        yield Measured(produced.claim, value, how)


def _agree(exact: Value, produced: Value) -> bool:
    if isinstance(exact, list | tuple) and isinstance(produced, list | tuple):
        return len(exact) == len(produced) and all(map(_agree, exact, produced))
    if isinstance(exact, float) and isinstance(produced, float):
        return abs(exact - produced) <= ROUNDING
    return type(exact) is type(produced) and exact == produced


_NAMES = (
    ("embeddings", "encoder.embedding.weight"),
    ("input_weights", "encoder.stack.cells.0.weight_ih"),
    ("recurrent_weights", "encoder.stack.cells.0.weight_hh"),
    ("hidden_bias", "encoder.stack.cells.0.bias_ih"),
    ("output_weights", "weight"),
    ("output_bias", "bias"),
)
"""The names of the fixture's numbers, and of the classifier's parameters."""


def _classifier(exact: ExactModel) -> SequenceClassifier:
    """Return the classifier with these numbers, in float64."""
    settings = ModelSettings(
        kind="elman",
        activation=exact.activation,
        bias="one",
        embedding_size=len(exact.input_weights),
        hidden_size=len(exact.hidden_bias),
    )
    model = SequenceClassifier(settings, len(exact.tokens), len(exact.outputs), torch.Generator())
    model.double()
    matrices = {
        "weight_ih": _tensor(exact.input_weights),
        "weight_hh": _tensor(exact.recurrent_weights),
        "bias_ih": _tensor((exact.hidden_bias,))[0],
    }
    supply(model.encoder.stack.cell(0), matrices, acts_on="rows")
    assert model.encoder.embedding is not None
    with torch.no_grad():
        model.encoder.embedding.weight.copy_(_tensor(exact.embeddings))
        model.weight.copy_(_tensor(exact.output_weights).T)
        model.bias.copy_(_tensor((exact.output_bias,))[0])
    return model


def _in_rows(name: str, parameter: Tensor) -> Tensor:
    """Return a parameter as the fixture has it: torch's matrices have a row for each output."""
    if name == "embeddings":
        return parameter
    return parameter.unsqueeze(0) if parameter.ndim == 1 else parameter.T


def _plan() -> KernelPlan:
    return KernelPlan("reference")


def _tensor(matrix: Sequence[Sequence[Fraction]]) -> Tensor:
    return torch.tensor([[float(one) for one in row] for row in matrix], dtype=torch.float64)


def _matrix(rows: Tensor) -> Matrix:
    """Return the very numbers of a tensor: a float is a fraction whose divisor is a power of 2."""
    return tuple(tuple(Fraction(one) for one in row) for row in rows.tolist())
