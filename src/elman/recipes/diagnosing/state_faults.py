"""What a state must not do: know of padding, of other rows, of lines that are not its own."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from elman.layers.stack import StackState
from elman.models.language import ModelOutput
from elman.models.recurrent import RecurrentLanguageModel
from elman.recipes.diagnosing.evidence import Evidence
from elman.recipes.diagnosing.fault import Fault
from elman.recipes.diagnosing.learning_faults import nothing_learnt
from elman.recipes.diagnosing.passages import SHORT_REACH, Passages, line_ends
from elman.recipes.diagnosing.text_faults import repeated_training_text

TOLERANCE = 1e-3
"""Nats by which a probability may differ between two ways to compute it."""
PROBABLE = 7.0
"""Nats below the most probable token within which one is looked at."""
FEW_ROWS = 8
STRAY = 8.0
"""Factor by which a saved state may be larger than any that the model reaches on its text."""
WORTH = 0.02
"""Nats a token that what stands before a line is worth, where lines belong together."""
LINE_HEAD, CONTEXT = 10, 40
"""Tokens of a line that are scored, and tokens before it that are read."""
LEAST_LINES, MOST_LINES, LONG_LINE = 40, 200, 120


def padding_leaks(evidence: Evidence) -> Fault | None:
    """Find predictions that differ between a row by itself and the same row with padding."""
    if evidence.passages is None:
        return None
    worst = padding_effect(evidence.passages)
    if worst <= TOLERANCE:
        return None
    return Fault(
        "padding-leaks",
        f"a row padded beside longer ones is predicted up to {worst:.3f} nats differently than "
        "by itself",
        "training.batch_size = 1 avoids it; the masks of the model are wrong",
        {"nats": worst},
    )


def padding_effect(passages: Passages) -> float:
    """Return the largest difference in nats of what follows rows, padded beside others and alone.

    Each is read to its own end, and then one token more after the state it was left in.
    """
    rows_BT, length = passages.read[:FEW_ROWS], passages.read.shape[1]
    lengths_B = torch.linspace(2, length, len(rows_BT)).long()
    padded_BT = rows_BT.clone()
    for row, own in enumerate(lengths_B.tolist()):
        padded_BT[row, own:] = rows_BT[0, 0]
    after = _read(passages, padded_BT, lengths_B).state
    together = _log_probs(passages, rows_BT[:, :1], after)
    differences = []
    for row, own in enumerate(lengths_B.tolist()):
        alone = _read(passages, rows_BT[row : row + 1, :own]).state
        by_itself = _log_probs(passages, rows_BT[row : row + 1, :1], alone)
        differences.append(_difference(together[row], by_itself[0]))
    return max(differences)


def neighbours_leak(evidence: Evidence) -> Fault | None:
    """Find predictions of a row that depend on which rows are read beside it."""
    if evidence.passages is None:
        return None
    passages = evidence.passages
    rows_BT = passages.read[:FEW_ROWS]
    together = _log_probs(passages, rows_BT)
    worst = max(
        _difference(together[row], _log_probs(passages, rows_BT[row : row + 1])[0])
        for row in range(len(rows_BT))
    )
    if worst <= TOLERANCE:
        return None
    return Fault(
        "neighbours-leak",
        f"a row read beside others is predicted up to {worst:.3f} nats differently than by itself",
        "training.batch_size = 1 avoids it; the model mixes rows",
        {"nats": worst},
    )


def _read(passages: Passages, ids_BT: Tensor, lengths_B: Tensor | None = None) -> ModelOutput:
    with torch.inference_mode():
        output: ModelOutput = passages.model(ids_BT, None, lengths_B, plan=passages.plan)
    return output


def _log_probs(passages: Passages, ids_BT: Tensor, state: StackState | None = None) -> Tensor:
    with torch.inference_mode():
        output: ModelOutput = passages.model(ids_BT, state, plan=passages.plan)
        return output.readout.logits(output.states_BTH).double().log_softmax(dim=2)


def _difference(first_TV: Tensor, second_TV: Tensor) -> float:
    """Return the largest difference of ln p among what is probable, relative where it is large."""
    larger_TV = torch.maximum(first_TV, second_TV)
    probable = larger_TV > larger_TV.max() - PROBABLE
    size_TV = torch.minimum(first_TV, second_TV).abs().clamp(min=1.0)
    return float(((first_TV - second_TV).abs() / size_TV)[probable].max())


def broken_state(evidence: Evidence) -> Fault | None:
    """Find a saved state that is no number, far too large, or the same in every lane."""
    if evidence.state_error:
        return _no_state_of_this_run(f"it cannot be used: {evidence.state_error}", {})
    model = None if evidence.trained is None else evidence.trained.model
    if not isinstance(model, RecurrentLanguageModel):
        return None
    if _lanes_alike(evidence):
        told = "every lane was left in the same state, though each reads text of its own"
        return _no_state_of_this_run(told, {})
    usual = _usual_state(evidence)
    for place, (name, part) in enumerate(sorted(evidence.carried.items(), key=_number_of)):
        largest = float(part.abs().max())
        most = usual[place] if place < len(usual) else np.inf
        if not bool(torch.isfinite(part).all()) or largest > STRAY * most:
            told = f"{name} has numbers up to {largest:.3g} where the model reaches {most:.3g}"
            return _no_state_of_this_run(told, {"largest": largest, "usual": most})
    return None


def _number_of(item: tuple[str, Tensor]) -> int:
    return int(item[0].rpartition(".")[2])


def _no_state_of_this_run(told: str, figures: Mapping[str, float]) -> Fault:
    return Fault(
        "broken-state",
        told,
        "do not go on from it: train anew, or take weights and begin with an empty state",
        figures,
    )


def _lanes_alike(evidence: Evidence) -> bool:
    """Return whether all lanes have one state, other than zeros, though their text differs."""
    parts = evidence.carried.values()
    moved = any(bool(part_BH.any()) for part_BH in parts)
    alike = all(len(part) > 1 and bool((part == part[:1]).all()) for part in parts)
    if evidence.text is None or not (moved and alike):
        return False
    return repeated_training_text(evidence) is None  # the whole text is read: asked last


def _usual_state(evidence: Evidence) -> list[float]:
    """Return the largest number of each part of the states that held-out text leads to."""
    if evidence.passages is None:
        return []
    passages = evidence.passages
    with torch.inference_mode():
        output = passages.model(passages.read, plan=passages.plan)
    return [float(part.abs().max()) for each in output.state for part in each]


def state_across_lines(evidence: Evidence) -> Fault | None:
    """Find a stream of short lines to whose beginnings nothing before them is of any use."""
    trained, text = evidence.trained, evidence.text
    if evidence.settings.text.unit != "stream" or trained is None or text is None:
        return None
    if evidence.passages is None or evidence.passages.reach.horizon <= SHORT_REACH:
        return None  # a model that looks back at nothing tells nothing of what it is worth
    if nothing_learnt(evidence) is not None:
        return None
    ids_N = text.looked_at.ids_N
    ends_V = line_ends(trained.tokenizer)
    starts_N = np.flatnonzero(ends_V[ids_N]) + 1
    lengths_N = np.diff(starts_N)
    usable_N = starts_N[:-1][(starts_N[:-1] >= CONTEXT) & (lengths_N > LINE_HEAD)]
    if len(usable_N) < LEAST_LINES or np.median(lengths_N) > LONG_LINE:
        return None
    gain, error = context_worth(evidence, ids_N, usable_N)
    if gain + 2 * error >= WORTH:
        return None
    return Fault(
        "state-across-lines",
        f"to know what stands before a line saves {gain:.3f} ± {2 * error:.3f} nats a token of its "
        f"first {LINE_HEAD}: lines stand alone",
        "text.unit = line, which begins each of them without a state",
        {"gain": gain, "error": error},
    )


def context_worth(
    evidence: Evidence, ids_N: np.ndarray, starts_N: np.ndarray
) -> tuple[float, float]:
    """Return the nats a token that the true text before a line saves, and the standard error.

    Beside it the same line stands after what stood before another one.
    """
    assert evidence.trained is not None
    draw = np.random.default_rng(1)
    chosen_N = draw.permutation(starts_N)[:MOST_LINES]
    others_N = np.roll(chosen_N, 1)
    heads = [ids_N[start : start + LINE_HEAD] for start in chosen_N]
    nats = []
    for before_N in (chosen_N, others_N):
        rows = [
            np.concatenate((ids_N[before - CONTEXT : before], head))
            for before, head in zip(before_N, heads, strict=True)
        ]
        nats.append(_head_nats(evidence, torch.from_numpy(np.stack(rows))))
    saved_B = nats[1] - nats[0]
    return float(saved_B.mean()), float(saved_B.std() / len(saved_B) ** 0.5)


def _head_nats(evidence: Evidence, rows_BL: Tensor) -> Tensor:
    assert evidence.trained is not None
    with torch.inference_mode():
        found = []
        for rows in torch.split(rows_BL, 32):
            output = evidence.trained.model(rows[:, :-1], plan=evidence.trained.plan)
            last = output.states_BTH[:, -LINE_HEAD:]
            log_probs = output.readout.logits(last).double().log_softmax(dim=2)
            targets = rows[:, -LINE_HEAD:].unsqueeze(2)
            found.append(-log_probs.gather(2, targets)[:, :, 0].mean(dim=1))
        return torch.cat(found)
