"""ids → counts → tables of probabilities: count models of any order, and what they are made of."""
