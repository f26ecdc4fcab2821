"""loss → better weights: the loop, truncation, optimisers, schedules, averaging, events, budget.

Nothing here knows how a model is scored or written to disk: `fit` is handed two functions for that.
"""
