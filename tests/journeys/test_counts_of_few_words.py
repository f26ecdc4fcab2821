"""Count models of a handful of words: what cannot be estimated, and what has no probability."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pytest

from elman.models.ngram_model import NgramLanguageModel
from elman.recipes.trained import open_trained

Elman = Callable[..., "CompletedProcess[str]"]
COUNTS = (
    *("--level", "word", "--unit", "line", "--set=model.kind=ngram", "--set=model.order=2"),
    *("--set=data.valid_fraction=0", "--set=data.test_fraction=0"),
)


def counted(elman: Elman, folder: Path, text: str, smoothing: str) -> tuple[Path, str]:
    """The run, and what was told of it, as one line."""
    data, run = folder / "text.txt", folder / f"run-{smoothing}"
    data.write_text(text, encoding="utf-8")
    told = elman(
        *("train", "lm", "--data", data, "--out", run, *COUNTS),
        f"--set=model.smoothing={smoothing}",
    )
    assert told.returncode == 0, told.stderr
    return run, " ".join(told.stderr.split())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x y\n" * 5, "no gram is seen once or 2 or 3 or 4 times"),
        ("p\np\np\nr\nr\nr\ns\ns\ns\nq\nq\nt\n", "no gram is seen 4 times"),
    ],
)
def test_discounts_that_a_small_text_does_not_tell_are_replaced_with_a_note(  # case G03
    elman: Elman, tmp_path: Path, text: str, told: str
) -> None:
    run, notes = counted(elman, tmp_path, text, "kneser_ney")
    assert f"discounts of length 2 cannot be estimated: {told}" in notes
    model = open_trained(run).model
    assert isinstance(model, NgramLanguageModel)
    for history in range(model.vocabulary_size):
        context_K = model.tables.contexts(np.array([[history]]), np.zeros((1, 1), np.int64))[0, -1]
        assert np.exp(model.tables.log_distribution(context_K)).sum() == pytest.approx(1, rel=1e-12)


def test_a_word_that_was_never_seen_is_told_with_its_place(  # case G02
    elman: Elman, tmp_path: Path
) -> None:
    scored = tmp_path / "scored.txt"
    scored.write_text("a zzz\n", encoding="utf-8")
    smoothed, _ = counted(elman, tmp_path, "a b a\n", "add_k")
    figures = json.loads(elman("score", smoothed, scored, "--json").stdout)
    # After <s> a of one; after a the unknown word of 1 in 6; after that any of four.
    assert figures["loss_nats"] == pytest.approx(-math.log(2 / 5 / 6 / 4), rel=1e-9)
    likeliest, _ = counted(elman, tmp_path, "a b a\n", "none")
    figures = json.loads(elman("score", likeliest, scored, "--json").stdout)
    assert (figures["perplexity"], figures["perplexity_is_infinite"]) == (None, True)
    assert figures["first_infinite_token"] == 1
    shown = elman("score", likeliest, scored)
    assert shown.returncode == 0, shown.stderr
    rows = [line for line in shown.stdout.splitlines() if "perplexity" in line]
    assert any("inf" in row or "∞" in row for row in rows), shown.stdout
    (place,) = [line for line in shown.stdout.splitlines() if "first impossible" in line]
    assert place.split()[-1] == "1"
