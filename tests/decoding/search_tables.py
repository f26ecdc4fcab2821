"""Models that are tables: what may follow each prefix, as log-probabilities."""

import torch

from elman.decoding.beam import beam_search
from elman.decoding.search import SearchLimits, StepFunctions

A, B, END = 0, 1, 2
# What may follow what came before, as probabilities of A, B and the end mark.
TABLE = {
    "": (0.6, 0.4, 0.0),
    "A": (0.3, 0.0, 0.7),
    "AA": (0.0, 0.0, 1.0),
    "B": (0.0, 0.95, 0.05),
    "BB": (0.0, 0.95, 0.05),
    "BBB": (0.0, 0.05, 0.95),
    "BBBB": (0.0, 0.0, 1.0),
}
START = 99


class Prefixes:
    """A model whose state is what was read: `table` maps it to log-probabilities."""

    def __init__(self, table):
        self.table, self.rows_stepped, self.calls = table, 0, 0

    def step(self, state, last_ids_N):
        self.calls += 1
        self.rows_stepped += len(state)
        after = [
            prefix if token == START else (*prefix, token)
            for prefix, token in zip(state, last_ids_N.tolist(), strict=True)
        ]
        return torch.stack([self.table(prefix) for prefix in after]), after

    def reorder(self, state, rows_N):
        return [state[row] for row in rows_N.tolist()]

    def functions(self):
        return StepFunctions(self.step, self.reorder)


def case_table(prefix):
    probs = TABLE["".join("AB"[token] for token in prefix)]
    return torch.tensor(probs, dtype=torch.float64).log()


def random_table(seed, vocabulary_size, *, dtype=torch.float64):
    """Log-probabilities drawn anew for each prefix; the first token of a prefix is its source."""

    def table(prefix):
        generator = torch.Generator().manual_seed(hash((seed, *prefix)) % 2**31)
        logits_V = 2.0 * torch.randn(vocabulary_size, generator=generator, dtype=torch.float64)
        return logits_V.log_softmax(dim=0).to(dtype)

    return table


def search(table, settings, *, max_length=6, num_sources=1, **limits):
    model = Prefixes(table)
    limit = SearchLimits(
        limits.pop("end_id", END), (max_length,) * num_sources, **{"at_limit": "end", **limits}
    )
    states = [(source + 100,) if num_sources > 1 else () for source in range(num_sources)]
    start_ids_B = torch.full((num_sources,), START)
    found = beam_search(model.functions(), states, start_ids_B, limit, settings)
    return found if num_sources > 1 else found[0]
