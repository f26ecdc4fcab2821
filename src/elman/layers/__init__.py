"""x over time → states over time: run a cell, stack, drop, embed, read out."""
