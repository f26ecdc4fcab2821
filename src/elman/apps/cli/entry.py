"""Where the `elman` process begins: even an interruption while modules load has its exit status."""

import sys
from typing import NoReturn

from elman.apps.cli.interrupts import EXIT_INTERRUPTED


def main() -> NoReturn:
    """Load the command and run it."""
    try:
        from elman.apps.cli.main import run

        run()
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
