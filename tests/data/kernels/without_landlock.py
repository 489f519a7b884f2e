"""Runs a program where the kernel says that it has no Landlock: a filter answers its three calls with ENOSYS. Their numbers
are the same on all processors."""

import ctypes
import os
import sys

LANDLOCK = (444, 445, 446)
ENOSYS = 38
LOAD, IS, RETURN = 0x20, 0x15, 0x06
ERROR, ALLOW = 0x00050000, 0x7FFF0000
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2


class Step(ctypes.Structure):
    _fields_ = [
        ("code", ctypes.c_ushort),
        ("yes", ctypes.c_ubyte),
        ("no", ctypes.c_ubyte),
        ("value", ctypes.c_uint32),
    ]


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.POINTER(Step))]


# The number of the call stands first in what a filter is given.
steps = [Step(LOAD, 0, 0, 0)]
for at, number in enumerate(LANDLOCK):
    left = len(LANDLOCK) - 1 - at
    steps.append(Step(IS, left, 1 if left == 0 else 0, number))
steps += [Step(RETURN, 0, 0, ERROR | ENOSYS), Step(RETURN, 0, 0, ALLOW)]
program = Program(len(steps), (Step * len(steps))(*steps))
libc = ctypes.CDLL(None, use_errno=True)
for call in (
    (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
    (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0),
):
    if libc.prctl(*call) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
os.execv(sys.argv[1], sys.argv[1:])
