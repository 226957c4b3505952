"""With which codes commands end, besides 0."""

BAD_INPUT = 2
NO_DATA = 3
INTERRUPTED = 130  # after Ctrl-C
