"""Where the `elman` process begins: even an interruption while modules load has its exit status."""

import os
import sys
from typing import NoReturn

from elman.apps.cli.interrupts import EXIT_INTERRUPTED

SPINS = "1000"
"""How often a thread looks for work before it sleeps: some microseconds.

The runtime's own 300,000 cost nothing on an idle machine and a tenth of the speed on a busy one,
where a thread that looks keeps the one it waits for from a core.
"""


def main() -> NoReturn:
    """Load the command and run it."""
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)  # read when torch is loaded
    try:
        from elman.apps.cli.main import run

        run()
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
