"""ids → batches: stored ids, lanes of a stream, padded lines, splits, built-in corpora."""
