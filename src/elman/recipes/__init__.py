"""config → finished run: the only place where text, model, training, evaluation and disk meet."""
