"""With which codes commands end, besides 0."""

NOT_READY = 1  # codedfl join --check
BAD_INPUT = 2
NO_DATA = 3
INTERRUPTED = 130  # after Ctrl-C
