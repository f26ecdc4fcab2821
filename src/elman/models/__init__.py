"""(ids, state) → (states, readout, state): the language models."""
