"""person → recipes: the ways in which a person reaches Elman."""
