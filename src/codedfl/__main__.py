"""``python -m codedfl`` is the same as ``codedfl``."""

from codedfl.cli import main

if __name__ == "__main__":
    main()
