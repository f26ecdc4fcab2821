"""One process of several that train runs of every task together; started by test_sharing.py.

    RANK=… WORLD_SIZE=… MASTER_ADDR=… MASTER_PORT=… python shared_worker.py DATA OUT [PAUSED]

Each case of CASES is trained in OUT/NAME. PAUSED names a folder: where it holds no run, one is
begun there and stopped after PAUSE updates; else that run is trained to its end. The runs that one
process made, DATA/by-1, then answer and score files, into OUT/NAME.answers and OUT/scores.json.
"""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from elman.decoding.beam import BeamSettings
from elman.decoding.translation_steps import TranslationSearch
from elman.processes import Processes
from elman.recipes.classify import ClassifyTask
from elman.recipes.classifying import open_classifier, score_labelled
from elman.recipes.joining import Team, joined_run, joined_team, shared_run
from elman.recipes.language_model import LanguageTask
from elman.recipes.learning import resume_run, start_run, train_run
from elman.recipes.predicting import predict_file
from elman.recipes.prediction_request import PredictRequest
from elman.recipes.scoring import ScoreRequest, score_files
from elman.recipes.tag import TagTask
from elman.recipes.tagging import open_tagger, score_tagged
from elman.recipes.trained import open_trained
from elman.recipes.training_request import TrainRequest
from elman.recipes.translate import TranslateTask
from elman.recipes.translating import open_translator, score_pairs

PAUSE = 7
UPDATES = 20
SIZES = (
    *("model.hidden_size=12", "model.num_layers=2"),
    *("model.dropout=0.3", "model.embedding_dropout=0.2", "training.threads=1"),
    *(f"training.updates={UPDATES}", "training.evaluate_every=5"),
)
NOISE = ("model.weight_dropout=0.2", "model.token_dropout=0.2", "model.recurrent_dropout=0.1")
CASES: dict[str, tuple[Any, str, tuple[str, ...]]] = {
    # 7 lanes and 11 lines do not divide evenly; the last batch of lines has fewer than 4 rows
    "stream": (
        LanguageTask(),
        "text.txt",
        ("text.unit=stream", "training.batch_size=7", "training.window=9", *NOISE),
    ),
    "zoneout": (
        LanguageTask(),
        "text.txt",
        ("text.unit=stream", "training.batch_size=6", "training.window=9", "model.zoneout=0.2"),
    ),
    "rows": (
        LanguageTask(),
        "text.txt",
        (
            *("text.unit=stream", "training.batch_size=5", "training.window=8"),
            *("training.optimizer=sgd", "training.weight_decay=0", "training.momentum=0"),
            *("training.recompute=3", "model.embedding_dropout=0"),
        ),
    ),
    "lines": (
        LanguageTask(),
        "text.txt",
        ("text.unit=line", "training.batch_size=11", "training.optimizer=muon"),
    ),
    "classes": (
        LanguageTask(),
        "text.txt",
        (
            *("text.level=word", "text.unit=stream", "training.batch_size=4", "training.window=6"),
            *("model.softmax=adaptive", "model.cutoffs=[20, 60]"),
        ),
    ),
    "transformer": (
        LanguageTask(),
        "text.txt",
        (
            *("model.kind=transformer", "model.num_heads=2", "model.context_length=12"),
            *("text.unit=stream", "training.batch_size=4", "training.window=8"),
        ),
    ),
    "classify": (ClassifyTask(), "labels.tsv", ("training.batch_size=9",)),
    "tag": (
        TagTask(),
        "tags.conll",
        ("training.batch_size=9", "model.character_size=6", "model.character_units=6"),
    ),
    "translate": (
        TranslateTask(),
        "pairs.tsv",
        ("training.batch_size=9", "training.scheduled_sampling=0.3"),
    ),
}


def main() -> None:
    data, out = Path(sys.argv[1]), Path(sys.argv[2])
    with joined_team() as team:
        processes = team.connected()
        for name, (task, file, overrides) in CASES.items():
            request = TrainRequest(
                out / name, overrides=(f"data.train={data / file}", *SIZES, *overrides)
            )
            train_run(_run(task, request, team, processes))
        for folder in map(Path, sys.argv[3:]):
            _paused(folder, data, team, processes)
        _answer(data, out, processes)


def _answer(data: Path, out: Path, processes: Processes) -> None:
    """Answer and score files with the runs that one process has made."""
    leads, runs = processes.rank == 0, data / "by-1"
    for name, file in (
        ("classify", "text.txt"),
        ("tag", "tags.conll"),
        ("translate", "sources.txt"),
    ):
        written = out / f"{name}.answers" if leads else Path(os.devnull)
        request = PredictRequest(
            str(data / file), out=written, batch_size=7, as_json=True, processes=processes
        )
        if name == "tag":
            request = replace(request, as_json=False)
        predict_file(runs / name, request)
    lines = ScoreRequest((str(data / "text.txt"),), batch_size=7, processes=processes)
    lm, _ = score_files(open_trained(runs / "lines"), lines)
    classifier = replace(open_classifier(runs / "classify"), processes=processes)
    labels, _ = score_labelled(classifier, [str(data / "labels.tsv")], batch_size=7)
    tagger = replace(open_tagger(runs / "tag"), processes=processes)
    tags, _ = score_tagged(tagger, [str(data / "tags.conll")], batch_size=7)
    translator = replace(open_translator(runs / "translate"), processes=processes)
    search = translator.search(TranslationSearch(beam=BeamSettings(beam=3)))
    pairs, _ = score_pairs(translator, [str(data / "pairs.tsv")], [], search, batch_size=7)
    if leads:
        found = [one.to_json() for one in (lm, labels, tags, pairs)]
        (out / "scores.json").write_text(json.dumps(found), encoding="utf-8")


def _paused(folder: Path, data: Path, team: Team, processes: Processes) -> None:
    task, file, overrides = CASES["stream"]
    asked = iter(range(10**9))
    stops = not processes.any_of(folder.exists())
    request = TrainRequest(folder, overrides=(f"data.train={data / file}", *SIZES, *overrides))
    run = _run(task, request, team, processes)
    train_run(run, should_stop=lambda: stops and next(asked) >= 2 * PAUSE)


def _run(task: Any, request: TrainRequest, team: Team, processes: Processes) -> Any:
    if team.rank == 0:
        begun = request.out.exists()
        run = resume_run(task, request.out) if begun else start_run(task, request)
    processes.any_of(False)  # nobody goes on before the run has begun
    if team.rank:
        return joined_run(task, team, request.out, processes)
    return shared_run(run, processes)


if __name__ == "__main__":
    main()
