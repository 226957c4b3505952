"""A process that is killed at the n-th system call by which it changes a file or tells something, by ptrace.

The kernel stops the process where a call begins, so every state that a kill can leave behind is reached: nothing of the
call has happened, and everything before it has.
"""

from __future__ import annotations

import ctypes
import os
import platform
import select
import signal
import struct
from collections.abc import Callable
from typing import BinaryIO

_TRACEME, _PEEKUSER, _SYSCALL, _SETOPTIONS = 0, 3, 24, 0x4200
_SYSGOOD, _EXITKILL = 1, 0x100000
_ORIG_RAX = 15 * 8
# write, open, pwrite64, fsync, fdatasync, truncate, ftruncate, rename, unlink, openat, unlinkat, renameat, renameat2
CHANGING = {1, 2, 18, 74, 75, 76, 77, 82, 87, 257, 263, 264, 316}
MACHINE = "x86_64"  # whose numbers these are

Body = Callable[[BinaryIO, BinaryIO], None]


def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    return libc


def _ptrace(request: int, pid: int, address: int = 0, data: int = 0) -> int:
    ctypes.set_errno(0)
    found = int(_libc().ptrace(request, pid, address, data))
    if found == -1 and ctypes.get_errno():
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found


def can_trace() -> bool:
    """Whether this machine lets a process trace its child, and numbers calls as above."""
    if platform.machine() != MACHINE:
        return False
    pid = os.fork()
    if not pid:
        refused = _libc().ptrace(_TRACEME, 0, None, None) == -1
        os._exit(int(refused))
    return os.waitpid(pid, 0)[1] == 0


class Killed(Exception):
    """The process was killed, or has ended."""


class Calls:
    """Counts calls over all processes of one run; the one with this number is the last of its process."""

    def __init__(self, kill_at: int = -1) -> None:
        self.kill_at, self.count = kill_at, 0

    def is_last(self) -> bool:
        self.count += 1
        return self.count == self.kill_at


def pack_message(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def read_message(stream: BinaryIO) -> bytes:
    """Empty at the end."""
    head = stream.read(4)
    return stream.read(struct.unpack(">I", head)[0]) if len(head) == 4 else b""


class Traced:
    """``body`` in a child process, with a pipe to read messages from and one to write them to."""

    def __init__(self, body: Body, calls: Calls) -> None:
        self._calls = calls
        from_parent, self._out = os.pipe()
        self._in, to_parent = os.pipe()
        self._pid = os.fork()
        if not self._pid:
            self._child(body, from_parent, to_parent)
        os.close(from_parent)
        os.close(to_parent)
        os.waitpid(self._pid, 0)
        _ptrace(_SETOPTIONS, self._pid, 0, _SYSGOOD | _EXITKILL)
        self._got, self._begins, self._ended = b"", True, False
        self._pipes: tuple[int, ...] = (self._in, self._out)

    def _child(self, body: Body, from_parent: int, to_parent: int) -> None:
        try:
            os.close(self._out)
            os.close(self._in)
            _ptrace(_TRACEME, 0)
            os.kill(os.getpid(), signal.SIGSTOP)
            with os.fdopen(from_parent, "rb", buffering=0) as read, os.fdopen(to_parent, "wb", buffering=0) as write:
                body(read, write)
        finally:
            os._exit(0)

    def tell(self, message: bytes) -> None:
        os.write(self._out, pack_message(message))

    def told(self) -> bytes:
        """Its next message. ``Killed`` where there is none any more."""
        while True:
            while select.select([self._in], [], [], 0)[0] and (data := os.read(self._in, 1 << 16)):
                self._got += data
            if len(self._got) >= 4 and len(self._got) - 4 >= (size := struct.unpack(">I", self._got[:4])[0]):
                found, self._got = self._got[4 : 4 + size], self._got[4 + size :]
                return found
            if self._ended:
                raise Killed
            self._one_stop()

    def _one_stop(self) -> None:
        _ptrace(_SYSCALL, self._pid)
        status = os.waitpid(self._pid, 0)[1]
        if os.WIFEXITED(status) or os.WIFSIGNALED(status):
            self._ended = True
            return
        if os.WSTOPSIG(status) != signal.SIGTRAP | 0x80:  # a signal: nothing that is meant here
            return
        begins, self._begins = self._begins, not self._begins
        if begins and _ptrace(_PEEKUSER, self._pid, _ORIG_RAX) in CHANGING and self._calls.is_last():
            self.kill()

    def kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        self._ended = True

    def close(self) -> None:
        """Ends it, and with it the pipes; again does nothing."""
        if not self._ended:
            self.kill()
        for pipe in self._pipes:
            os.close(pipe)
        self._pipes = ()
