"""Small runs of every task, and what is asked of them."""

import json
from dataclasses import dataclass
from pathlib import Path

from elman.checkpoints.run_folder import RunFolder
from elman.recipes.classify import ClassifyTask
from elman.recipes.classifying import open_classifier
from elman.recipes.counting import count_run, scored_count_run
from elman.recipes.generating import Writer, WriteRequest
from elman.recipes.language_model import LanguageTask
from elman.recipes.learning import finished_report, resume_run, start_run, train_run
from elman.recipes.predicting import predict_file
from elman.recipes.prediction_request import PredictRequest
from elman.recipes.scoring import score_sentences
from elman.recipes.tag import TagTask
from elman.recipes.tagging import open_tagger
from elman.recipes.trained import open_trained, stopped_run, task_of
from elman.recipes.training_request import TrainRequest
from elman.recipes.translate import TranslateTask
from elman.recipes.translating import open_translator

TINY = (
    *("model.hidden_size=6", "training.batch_size=4", "training.updates=4", "training.threads=1"),
)
TEXT = "the cat sat on the mat\na dog ran to the log\n" * 12
TASKS = {
    "char": LanguageTask,
    "bpe": LanguageTask,
    "ngram": LanguageTask,
    "classify": ClassifyTask,
    "series": ClassifyTask,
    "tag": TagTask,
    "translate": TranslateTask,
}
"""The kinds of runs, and the task of each."""


@dataclass(frozen=True)
class SmallRun:
    """A run and what is asked of it."""

    name: str
    folder: Path
    asked: Path


def made_data(name: str, folder: Path) -> tuple[Path, Path]:
    """Return a small file to learn from and one to answer."""
    asked = folder / f"{name}_asked.txt"
    asked.write_text("the cat sat\n\na dog\n")
    if name in ("char", "bpe", "ngram"):
        data = folder / f"{name}.txt"
        data.write_text(TEXT)
    elif name == "classify":
        data = folder / "classify.tsv"
        data.write_text("text\tlabel\n" + "a good cat\tyes\na bad dog\tno\n" * 20)
    elif name == "series":
        data, asked = folder / "series.csv", folder / "series_asked.csv"
        data.write_text("1,2,3,up\n3,2,1,down\n" * 20)
        asked.write_text("1,2,4\n3,1,0\n")
    elif name == "tag":
        data = folder / "tag.conll"
        data.write_text("the D\ncat N\nsat V\n\na D\ndog N\n\n" * 20)
    else:
        data = folder / "translate.tsv"
        data.write_text("source\ttarget\n" + "a b c\tc b a\nb a\ta b\n" * 20)
    return data, asked


def overrides_of(name: str, data: Path) -> tuple[str, ...]:
    more = {
        "char": ("training.window=8",),
        "bpe": ("text.level=bpe", "text.vocabulary_size=270", "training.window=8"),
        "ngram": ("model.kind=ngram", "model.order=3"),
        "series": ("model.input=series",),
        "tag": ("model.character_size=4", "model.character_units=4"),
    }.get(name, ())
    tiny = TINY if name != "ngram" else ()
    if name not in ("ngram", "series"):
        tiny = (*tiny, "model.embedding_size=4")
    return (*tiny, *more, f"data.train={json.dumps([str(data)])}")


def make_run(name: str, folder: Path, *, stop_early: bool = False) -> SmallRun:
    """Train a small run, to its end or to a place from where it can be resumed."""
    folder.mkdir(parents=True, exist_ok=True)
    data, asked = made_data(name, folder)
    out = folder / f"{name}_run"
    request = TrainRequest(out, overrides=overrides_of(name, data))
    if name == "ngram":
        scored_count_run(count_run(request), on_scored=lambda count: None)
    else:
        begun = start_run(TASKS[name](), request)
        train_run(begun, should_stop=lambda: stop_early and begun.trainer.update >= 2)
    return SmallRun(name, out, asked)


def use(run: SmallRun, *, resume: bool = False) -> None:
    """Open the run in every way that the commands do, and have it answer something short."""
    task = TASKS[run.name]
    if resume:
        _go_on(run)
        return
    task_of(run.folder)
    stopped_run(run.folder)
    RunFolder.open(run.folder).read_metrics()
    if task is LanguageTask:
        trained = open_trained(run.folder)
        score_sentences(trained, ["the cat sat"])
        writer = Writer(trained, WriteRequest("the", max_tokens=3))
        writer.begin()
        writer.write(lambda text: False)
        if run.name != "ngram":
            finished_report(task(), run.folder)
        return
    opened = {ClassifyTask: open_classifier, TagTask: open_tagger, TranslateTask: open_translator}
    opened[task](run.folder)
    out = run.folder.parent / "answers"
    predict_file(run.folder, PredictRequest(str(run.asked), out))
    finished_report(task(), run.folder)


def _go_on(run: SmallRun) -> None:
    """Resume a stopped run, for two updates more at most."""
    task = TASKS[run.name]()
    finished_report(task, run.folder)
    resumed = resume_run(task, run.folder)
    first = resumed.trainer.update
    try:
        train_run(resumed, should_stop=lambda: resumed.trainer.update >= first + 2)
    finally:
        resumed.lock.release()
