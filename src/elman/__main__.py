"""`python -m elman` is the `elman` command."""

from elman.apps.cli.entry import main

if __name__ == "__main__":
    main()
