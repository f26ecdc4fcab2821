"""A run's metrics, weights, state and text → what is wrong with it, in words, with the evidence."""
