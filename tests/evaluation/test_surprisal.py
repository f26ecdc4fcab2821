import ast
import csv
import io
import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elman.config.model_settings import ModelSettings
from elman.errors import ShapeError
from elman.evaluation.scorers import ModelScorer
from elman.evaluation.surprisal import (
    SURPRISAL_COLUMNS,
    SurprisalTable,
    TokenRows,
    escape_field,
    in_parts,
    score_line_rows,
    score_stream_rows,
)
from elman.kernels.dispatch import KernelPlan
from elman.models.recurrent import RecurrentLanguageModel
from elman.seeding import generator

SYMBOLS = ("[ S ]", "a", "b", "\t", "\n", "\\")


def small_model() -> RecurrentLanguageModel:
    shape = ModelSettings(kind="gru", embedding_size=3, hidden_size=4)
    return RecurrentLanguageModel(shape, len(SYMBOLS), generator(2, "initialisation"))


def rows_of(text: str, start: int = 0) -> TokenRows:
    starts = np.arange(start, start + len(text))
    return TokenRows(np.array([SYMBOLS.index(c) for c in text]), starts, starts + 1, list(text))


def table_of(text: str) -> list[dict[str, str]]:
    reader = csv.DictReader(io.StringIO(text), delimiter="\t", quoting=csv.QUOTE_NONE)
    return list(reader)


def log2_probabilities(model: RecurrentLanguageModel, read: list[int]) -> list[float]:
    """-log2 p of read[1:], from the logits of the whole sequence at once."""
    with torch.no_grad():
        output = model(torch.tensor([read[:-1]]), plan=KernelPlan("reference"))
        log_probs = output.readout.logits(output.states_BTH).double().log_softmax(-1)[0]
    return [-log_probs[t, token].item() / math.log(2) for t, token in enumerate(read[1:])]


@pytest.mark.parametrize("cut", [1, 2, 3, 100])
@pytest.mark.parametrize("boundary_id", [None, 0])
def test_every_token_of_a_stream_has_a_row_in_bits(cut: int, boundary_id: int | None) -> None:
    text, model, out = "ab\tba\n\\aab", small_model(), io.StringIO()
    chunks = [rows_of(text[n : n + cut], n) for n in range(0, len(text), cut)]
    score = score_stream_rows(
        ModelScorer(model, KernelPlan()),
        chunks,
        SurprisalTable(out, 2),
        window=4,
        boundary_id=boundary_id,
        unk_id=2,
    )
    table = table_of(out.getvalue())
    assert "".join(ast.literal_eval(f"'{row['token']}'") for row in table) == text
    assert [(int(row["start"]), int(row["end"])) for row in table] == [
        (n, n + 1) for n in range(len(text))
    ]
    assert [row["unknown"] for row in table] == ["1" if c == "b" else "0" for c in text]
    read = rows_of(text).ids.tolist()
    if boundary_id is None:
        assert table[0]["surprisal_bits"] == ""
        told = table[1:]
    else:
        read, told = [boundary_id, *read], table
    bits = [float(row["surprisal_bits"]) for row in told]
    np.testing.assert_allclose(bits, log2_probabilities(model, read), rtol=2e-6)
    assert sum(bits) * math.log(2) == pytest.approx(score.loss_nats, rel=1e-12)
    assert score.num_tokens == len(told)


def test_rows_of_lines_end_with_the_stop_mark() -> None:
    model, out = small_model(), io.StringIO()
    lines = [rows_of("ab"), rows_of("", 3), rows_of("b", 4)]
    score = score_line_rows(
        ModelScorer(model, KernelPlan()),
        lines,
        SurprisalTable(out, None),
        boundary_id=0,
        boundary_text="[ S ]",
        batch_size=2,
    )
    table = table_of(out.getvalue())
    assert [(row["start"], row["end"], row["token"]) for row in table] == [
        ("0", "1", "a"),
        ("1", "2", "b"),
        ("2", "2", "[ S ]"),
        ("2", "2", "[ S ]"),
        ("4", "5", "b"),
        ("5", "5", "[ S ]"),
    ]
    expected = [
        bits
        for read in ([0, 1, 2, 0], [0, 0], [0, 2, 0])
        for bits in log2_probabilities(model, read)
    ]
    bits = [float(row["surprisal_bits"]) for row in table]
    np.testing.assert_allclose(bits, expected, rtol=2e-6)
    assert score.num_tokens == 6


def test_rows_come_out_while_the_text_is_read() -> None:
    out = io.StringIO()
    behind: list[int] = []

    def chunks() -> Iterator[TokenRows]:
        for number in range(50):
            behind.append(number * 8 - (out.getvalue().count("\n") - 1))
            yield rows_of("abababab", number * 8)

    score_stream_rows(
        ModelScorer(small_model(), KernelPlan()), chunks(), SurprisalTable(out, None), window=16
    )
    assert out.getvalue().count("\n") == 1 + 400
    assert max(behind[1:]) <= 16 + 8


def test_the_header_names_the_columns_even_of_an_empty_stream() -> None:
    out = io.StringIO()
    score = score_stream_rows(
        ModelScorer(small_model(), KernelPlan()),
        [],
        SurprisalTable(out, None),
    )
    assert out.getvalue() == "\t".join(SURPRISAL_COLUMNS) + "\n"
    assert score.num_tokens == 0


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(ShapeError, match="one length"):
        TokenRows(np.array([1]), np.array([0]), np.array([1]), [])


@settings(derandomize=True)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_an_escaped_field_stays_in_its_row_and_can_be_read_back(text: str) -> None:
    escaped = escape_field(text)
    assert len(f"x{escaped}x".splitlines()) == 1
    assert "\t" not in escaped
    quoted = escaped.replace("'", "\\'")
    assert ast.literal_eval(f"'{quoted}'") == text


@pytest.mark.parametrize("most", [1, 2, 5, 9])
def test_rows_in_parts_join_to_the_rows(most: int) -> None:
    rows = TokenRows(np.arange(5), np.arange(5) * 2, np.arange(5) * 2 + 1, list("abcde"))
    parts = list(in_parts(rows, most))
    assert all(len(part.ids) <= most for part in parts)
    assert [i for part in parts for i in part.ids.tolist()] == rows.ids.tolist()
    assert "".join(text for part in parts for text in part.texts) == "abcde"
