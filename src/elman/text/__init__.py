"""text ↔ ids: read files strictly, normalise, cut into tokens, number them, and back again."""
