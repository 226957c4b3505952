"""With which codes commands end. ``MEANINGS`` is what the documentation has, one line for each."""

NOT_READY = 1
BAD_INPUT = 2
NO_DATA = 3
NO_MODEL = 4
INTERRUPTED = 130

MEANINGS = {
    0: "the command did what it was asked",
    NOT_READY: "`site check`: this machine is not ready",
    BAD_INPUT: "bad input or a failed run, said in one line; `study check`: a table cannot take part",
    NO_DATA: "a data set cannot be had",
    NO_MODEL: "`study rehearse`, `server run`: no `[[model]]` of the study could be made of its sums",
    INTERRUPTED: "Ctrl-C",
}
