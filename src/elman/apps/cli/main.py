"""The `elman` command: its verbs, its help, and what becomes of an error.

A user's mistake is one line on standard error and exit status 2; an interruption is exit status
130; a fault of the program keeps its traceback. Nothing here imports torch: a verb imports what it
needs when it runs, so that `elman --help` is quick.
"""

import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from cyclopts import App, CycloptsError
from rich.console import Console

from elman import __version__
from elman.apps.cli.bench import bench
from elman.apps.cli.compare import compare
from elman.apps.cli.convert import convert
from elman.apps.cli.data import data
from elman.apps.cli.demo import demo
from elman.apps.cli.diagnose import diagnose
from elman.apps.cli.generate import generate
from elman.apps.cli.inspect import inspect
from elman.apps.cli.interrupts import EXIT_INTERRUPTED
from elman.apps.cli.lab import lab
from elman.apps.cli.parser_mistakes import told_mistake
from elman.apps.cli.predict import predict
from elman.apps.cli.score import score
from elman.apps.cli.train import train
from elman.errors import ElmanError, one_line
from elman.recipes.launching import require_one_process
from elman.text.raw_files import STANDARD_INPUT_FILE, is_standard_input

EXIT_MISTAKE = 2
SHARED = frozenset(("train", "score", "predict"))
"""What several processes, started by torchrun, can do together."""


def build_app() -> App:
    """Return the command with all its verbs."""
    app = App(
        name="elman",
        version=__version__,
        version_flags=["--version"],
        help="Train, score and run recurrent models on your own text, on your own machine. "
        "Begin with: elman demo",
        suppress_keyboard_interrupt=False,
        console=Console(highlight=False),
        error_console=Console(stderr=True, highlight=False),
    )
    for verb in (
        *(demo, score, compare, predict, generate, inspect, diagnose, lab, convert, bench),
    ):
        app.command(verb)
    app.command(train)
    app.command(data)
    return app


def run(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command on `arguments` (those of the process by default) and exit with its status."""
    try:
        given = sys.argv[1:] if arguments is None else arguments
        if given and given[0] not in SHARED:
            require_one_process(f"runs elman {given[0]}")
        status = build_app()(
            # A lone - is standard input; the parser would take it for an option without a name.
            [
                STANDARD_INPUT_FILE if is_standard_input(argument) else argument
                for argument in given
            ],
            exit_on_error=False,
            print_error=False,
            result_action="return_value",
        )
    except CycloptsError as error:
        complain(told_mistake(error))
        status = EXIT_MISTAKE
    except ElmanError as error:
        complain(str(error))
        status = EXIT_MISTAKE
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # another one would only spoil the end
        complain("interrupted")
        status = EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of standard output has gone (`elman generate … | head`): say no more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    except OSError as error:
        complain(one_line(f"{error.filename or 'the system'}: {error.strerror or error}"))
        status = EXIT_MISTAKE
    sys.exit(status if isinstance(status, int) else 0)


def complain(message: str) -> None:
    """Print one line on standard error, under the program's name."""
    print(f"elman: {message}", file=sys.stderr)
