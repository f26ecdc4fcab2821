"""Speed beside PyTorch on this machine: rows as data, one file that times, one a family of rows.

`rows` says what is measured and how long, `timing` measures, `kernel_use` reads which kernel ran,
`machine` tells the machine and its limits; `recurrences`, `ragged`, `word` and `generation` make
rows; `running` goes through them and `report` holds what came of it.
"""
