"""run + text → what happened inside: the views of `elman inspect`, each with its numbers."""
