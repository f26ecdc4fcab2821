"""Time what a count model takes: counting, estimating, scoring, memory; nltk.lm beside it.

    python benchmarks/counting.py TRAIN VALID [--order N] [--nltk-tokens N]

Words of TRAIN are counted up to the order, estimated with modified Kneser–Ney, and VALID is scored,
both as a whole and in windows as a language model reads it. nltk counts the first N tokens of the
same text to the same order (0: it is left out); times are of this run alone.
"""

import argparse
import resource
import time
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from elman.config.model_settings import ModelSettings
from elman.evaluation.language import score_stream
from elman.kernels.dispatch import KernelPlan
from elman.models.ngram.counting import count_grams, joined
from elman.models.ngram.smoothing import estimate
from elman.models.ngram_model import NgramLanguageModel


def words_of(path: Path, ids: dict[str, int]) -> np.ndarray:
    """Return the ids of the words of a file, a line end being a word; new ones are numbered on."""
    found = []
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            found += [ids.setdefault(word, len(ids)) for word in (*line.split(), "\n")]
    return np.array(found, dtype=np.int32)


def nltk_seconds(ids_N: np.ndarray, order: int) -> float:
    """Return how long nltk.lm takes to count the text."""
    from nltk.lm import NgramCounter
    from nltk.util import everygrams

    words = [str(one) for one in ids_N.tolist()]
    started = time.perf_counter()
    NgramCounter([everygrams(words, max_len=order)])
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("train", type=Path)
    parser.add_argument("valid", type=Path)
    parser.add_argument("--order", type=int, default=5)
    parser.add_argument("--nltk-tokens", type=int, default=200_000)
    args = parser.parse_args()
    ids: dict[str, int] = {}
    train_N, valid_N = words_of(args.train, ids), words_of(args.valid, ids)
    size = len(ids)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    grams = count_grams(joined([train_N], size), order=args.order, vocabulary_size=size)
    counted = time.perf_counter()
    tables = estimate(grams, size).tables
    estimated = time.perf_counter()
    log_probs_N = tables.log_probs(joined([valid_N], size))
    scored = time.perf_counter()
    model = NgramLanguageModel(ModelSettings(kind="ngram", order=args.order), tables)
    with torch.inference_mode():
        score = score_stream(model, [valid_N], plan=KernelPlan())
    windows = time.perf_counter() - scored
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{len(train_N):,} tokens, {size:,} words, order {args.order}: {tables.num_grams} grams")
    print(f"counted in {counted - started:.2f} s, estimated in {estimated - counted:.2f} s")
    print(f"scored {len(log_probs_N) / (scored - estimated):,.0f} tokens/s as a whole,")
    print(f"       {score.num_tokens / windows:,.0f} in windows; perplexity {score.perplexity:.2f}")
    print(f"peak memory {peak / 1024:,.0f} MiB, {before / 1024:,.0f} before counting")
    if args.nltk_tokens:
        part_N = np.fromiter(islice(iter(train_N), args.nltk_tokens), np.int64)
        started = time.perf_counter()
        count_grams(joined([part_N], size), order=args.order, vocabulary_size=size)
        ours = time.perf_counter() - started
        theirs = nltk_seconds(part_N, args.order)
        print(
            f"{len(part_N):,} tokens: nltk.lm counts in {theirs:.2f} s, {theirs / ours:.0f} times"
        )


if __name__ == "__main__":
    main()
