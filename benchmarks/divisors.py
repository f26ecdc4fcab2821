"""One loss, three divisors: why a mean of means, or a wrong count of batches, is another number.

python benchmarks/divisors.py RUN LINES_FILE [BATCH_SIZE]
"""

import sys
from pathlib import Path

import torch

from elman.data.lines import LineBatches
from elman.data.token_array import join_lines
from elman.losses import token_loss
from elman.recipes.trained import open_trained


def main(run: Path, file: Path, batch_size: int) -> None:
    trained = open_trained(run)
    vocabulary = trained.tokenizer.vocabulary
    assert vocabulary.boundary_id is not None
    assert vocabulary.pad_id is not None
    rows = [row for row in file.read_text(encoding="utf-8").split("\n") if row.strip()]
    lines = join_lines((trained.tokenizer.encode(row) for row in rows), len(vocabulary))
    source = LineBatches(
        lines,
        batch_size=batch_size,
        boundary_id=vocabulary.boundary_id,
        pad_id=vocabulary.pad_id,
        seed=0,
        order="stored",
    )
    losses = []
    with torch.inference_mode():
        for index in range(source.batches_per_epoch(0)):
            ids_BT, targets_BT, lengths_B, _ = source.batch(0, index)
            output = trained.model(ids_BT, None, lengths_B, plan=trained.plan)
            losses.append(token_loss(output.states_BTH, output.readout, targets_BT, lengths_B))
    nats = sum(float(loss.nats) for loss in losses)
    tokens = sum(loss.count for loss in losses)
    means = sum(float(loss.mean()) for loss in losses)
    print(f"parameters                            {trained.model.parameter_count():,}")
    print(f"token-weighted, {tokens:,} tokens        {nats / tokens:.4f}")
    print(f"mean of {len(losses)} batch means              {means / len(losses):.4f}")
    print(
        f"the same sum over len // {batch_size} = {len(rows) // batch_size}       "
        f"{means / (len(rows) // batch_size):.4f}"
    )


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) == 4 else 16)
