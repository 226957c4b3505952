"""One file per figure or claim; each runs as ``python -m experiments.<name>``."""
