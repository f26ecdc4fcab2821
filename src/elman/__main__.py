"""`python -m elman` is the `elman` command."""

from elman.apps.cli.main import run

if __name__ == "__main__":
    run()
