"""Becomes another program that the system ends when its parent is killed: ``python ends_with_parent.py PROGRAM ...``.

A program of its own: what runs between fork and exec in a parent with threads may find a lock that nobody will release.
On Linux only; elsewhere it only becomes the other program.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1

if sys.platform == "linux":
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
os.execvp(sys.argv[1], sys.argv[1:])
