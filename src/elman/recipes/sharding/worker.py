"""A process that makes shards: python -m elman.recipes.sharding.worker FOLDER.

It reads the names of shards from standard input, one a line, and answers each with an empty line,
or with what could not be done. It ends with its input, so that it never outlives who started it.
"""

import json
import signal
import sys
from pathlib import Path

from elman.config.text_settings import TextSettings
from elman.errors import ElmanError
from elman.recipes.sharding.shard import make_shard
from elman.text.tokenizer_file import tokenizer_from_json

SETTINGS, TOKENIZER = "settings.json", "tokenizer.json"


def work() -> None:
    """Work on what is asked until nothing more is."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started it decides when to stop
    folder = Path(sys.argv[1])
    settings = TextSettings(**json.loads((folder / SETTINGS).read_text(encoding="utf-8")))
    known = folder / TOKENIZER
    tokenizer = None
    if known.exists():
        tokenizer = tokenizer_from_json(known.read_text(encoding="utf-8"))
    for line in sys.stdin:
        try:
            make_shard(folder, line.strip(), settings, tokenizer)
            print(flush=True)
        except ElmanError as error:
            print(error, flush=True)


if __name__ == "__main__":
    work()
