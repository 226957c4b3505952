"""``codedfl`` as a program that says at its end what it has loaded: ``python -m experiments.loaded_modules FILE ARGS``.

FILE gets the paths of all modules of both distributions, whichever thread has loaded them, one on each line.
"""

import atexit
import sys
from pathlib import Path


def main() -> None:
    """Everything is imported here: a device would load nothing of ours before."""
    told = Path(sys.argv.pop(1))

    def tell() -> None:
        ours = (one for name, one in sys.modules.items() if name.split(".")[0] in ("codedfl", "codedfl_lab"))
        told.write_text("\n".join(sorted(str(one.__file__) for one in ours)), encoding="utf-8")

    atexit.register(tell)
    from codedfl.cli import main as codedfl

    codedfl()


if __name__ == "__main__":
    main()
