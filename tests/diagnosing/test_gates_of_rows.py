"""Gates of classifiers, taggers and readers of sources: each fault where it was planted, alone."""

import shutil
from pathlib import Path

import pytest

from elman.recipes.classify import ClassifyTask
from elman.recipes.diagnosing.diagnosis import diagnosis_of
from elman.recipes.diagnosing.fault import GATE_FAULTS
from elman.recipes.diagnosing.planting import plant_in_weights
from elman.recipes.learning import start_run, train_run
from elman.recipes.tag import TagTask
from elman.recipes.task import Task
from elman.recipes.training_request import TrainRequest
from elman.recipes.translate import TranslateTask

WORDS = ("the", "old", "river", "runs", "past", "a", "quiet", "house", "and", "cold", "hills")
SMALL = (
    *("model.hidden_size=24", "training.threads=1"),
    *("training.updates=60", "training.batch_size=16"),
)
TASKS: dict[str, tuple[Task, str, tuple[str, ...]]] = {
    "classify": (ClassifyTask(), "tsv", ("model.bidirectional=true", "model.num_layers=2")),
    "series": (ClassifyTask(), "tsv", ("model.kind=gru", "model.input=series")),
    "tag": (TagTask(), "conll", ("model.kind=gru", "model.scheme=auto")),
    "translate": (TranslateTask(), "tsv", ("text.level=char",)),
}


def sentence(number: int) -> list[str]:
    """Words in an order of its own: no two of the first thousand are alike."""
    return [WORDS[(number * step + number // 11) % len(WORDS)] for step in range(3, 9)] + [
        f"n{number}"
    ]


def series(number: int) -> str:
    """A row of eight numbers."""
    numbers = [(number * step) % 17 / 4 + number / 300 for step in range(1, 9)]
    return "\t".join((*map(str, numbers), "odd" if number % 2 else "even")) + "\n"


def rows_of(task: str) -> str:
    """Three hundred rows, each unlike all others."""
    sentences = list(map(sentence, range(300)))
    if task == "classify":
        rows = [
            f"{' '.join(each)}\t{'odd' if n % 2 else 'even'}" for n, each in enumerate(sentences)
        ]
        return "\n".join(["text\tlabel", *rows]) + "\n"
    if task == "series":
        return "".join(map(series, range(300)))
    if task == "tag":
        return "\n".join(
            "".join(f"{word}\t{'A' if len(word) > 3 else 'B'}\n" for word in each)
            for each in sentences
        )
    return "".join(f"{' '.join(each)}\t{' '.join(reversed(each))}\n" for each in sentences)


def train(task: Task, out: Path, overrides: tuple[str, ...]) -> None:
    """Make a small run."""
    train_run(start_run(task, TrainRequest(out, overrides=(*SMALL, *overrides))))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A healthy run of each task. Read them, do not change them."""
    folder = tmp_path_factory.mktemp("row-runs")
    for name, (task, ending, overrides) in TASKS.items():
        data = folder / f"{name}.{ending}"
        data.write_text(rows_of(name), encoding="utf-8")
        settings = (f'data.train=["{data}"]', "data.test_fraction=0", "data.valid_fraction=0.35")
        train(task, folder / name, (*settings, *overrides))
    return folder


@pytest.mark.parametrize("task", TASKS)
def test_gates_of_a_healthy_run_are_asked_about_and_nothing_is_found(runs: Path, task: str) -> None:
    found = diagnosis_of(runs / task)
    assert set(GATE_FAULTS) <= set(found.asked)
    assert not set(GATE_FAULTS) & set(found.names)


@pytest.mark.parametrize("fault", GATE_FAULTS)
@pytest.mark.parametrize("task", TASKS)
def test_a_fault_planted_in_its_gates_is_found(
    runs: Path, tmp_path: Path, task: str, fault: str
) -> None:
    shutil.copytree(runs / task, tmp_path / "run")
    plant_in_weights(tmp_path / "run", fault)
    assert fault in diagnosis_of(tmp_path / "run").names


def test_weights_whose_products_are_no_numbers_are_broken(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "classify", tmp_path / "run")
    plant_in_weights(tmp_path / "run", "broken-weights")
    found = diagnosis_of(tmp_path / "run")
    assert "broken-weights" in found.names
    assert not set(GATE_FAULTS) & set(found.asked)


def test_a_row_with_another_answer_is_no_repetition(tmp_path: Path) -> None:
    for name, answers in (("several", 3), ("one", 1)):
        data = tmp_path / f"{name}.tsv"
        rows = [(sentence(n // 3 * 3), n % answers) for n in range(300)]
        data.write_text("".join(f"{' '.join(each)}\tanswer {n}\n" for each, n in rows))
        settings = (f'data.train=["{data}"]', "data.test_fraction=0", "data.valid_fraction=0.35")
        train(TranslateTask(), tmp_path / name, settings)
    found = [diagnosis_of(tmp_path / name).names for name in ("several", "one")]
    assert ["repeated-training-text" in names for names in found] == [False, True]


@pytest.mark.parametrize("task", ["classify", "tag"])
def test_answers_by_how_often_each_is_are_nothing_learnt(tmp_path: Path, task: str) -> None:
    made, ending, _ = TASKS[task]
    data = tmp_path / f"rows.{ending}"
    data.write_text(rows_of(task), encoding="utf-8")
    settings = (f'data.train=["{data}"]', "data.test_fraction=0", "data.valid_fraction=0.35")
    train(made, tmp_path / "run", (*settings, "training.learning_rate=1e-7"))
    found = diagnosis_of(tmp_path / "run")
    assert "nothing-learnt" in found.names
    fault = next(fault for fault in found.faults if fault.name == "nothing-learnt")
    assert "more training.updates (now 60)" in fault.change
    assert f"nats a {'row' if task == 'classify' else 'token'}" in fault.evidence


def test_rows_that_differ_in_unknown_words_alone_are_others(tmp_path: Path) -> None:
    data = tmp_path / "rows.tsv"
    rows = [f"it costs n{n} euros\t{'odd' if n % 2 else 'even'}" for n in range(400)]
    data.write_text("\n".join(["text\tlabel", *rows]) + "\n")
    settings = (f'data.train=["{data}"]', "text.min_count=2", "data.valid_fraction=0.3")
    train(ClassifyTask(), tmp_path / "run", settings)
    found = diagnosis_of(tmp_path / "run").names
    assert not {"held-out-in-training", "repeated-training-text"} & set(found)
