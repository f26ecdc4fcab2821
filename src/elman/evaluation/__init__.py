"""model + data → numbers: exact losses as sums and counts, in named units."""
