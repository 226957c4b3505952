"""The command line: one file per command, put together in ``app``."""

import sys


def main() -> None:
    """The entry point of ``codedfl`` and of ``python -m codedfl``."""
    try:
        # Here and not above: loading numba and scikit-learn takes seconds, in which Ctrl-C must not print a traceback.
        from codedfl.cli.app import app
    except KeyboardInterrupt:
        sys.exit(130)
    app()
