#!/usr/bin/env python3
"""without_calls.py CALL[,CALL…] COMMAND…: runs it as on a kernel that lacks these: landlock, seccomp. They answer that
there are none.

For the tests of ./lab grade, which has to say what is not confined then. Linux on x86-64 or AArch64.
"""

import ctypes
import os
import platform
import struct
import sys

NUMBERS = {"landlock": {"x86_64": 444, "aarch64": 444}, "seccomp": {"x86_64": 317, "aarch64": 277}}  # asm/unistd.h
LOAD, EQUAL, ANSWER = 0x20, 0x15, 0x06  # BPF_LD|BPF_W|BPF_ABS, BPF_JMP|BPF_JEQ|BPF_K, BPF_RET|BPF_K
NO_SUCH_CALL, ALLOWED = 0x00050000 | 38, 0x7FFF0000  # SECCOMP_RET_ERRNO with ENOSYS, SECCOMP_RET_ALLOW
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, FILTER = 22, 38, 2


def main():
    calls, command = sys.argv[1].split(","), sys.argv[2:]
    program = struct.pack("HBBI", LOAD, 0, 0, 0)  # the call's number
    for call in calls:
        program += struct.pack("HBBI", EQUAL, 0, 1, NUMBERS[call][platform.machine()]) + struct.pack(
            "HBBI", ANSWER, 0, 0, NO_SUCH_CALL
        )
    program += struct.pack("HBBI", ANSWER, 0, 0, ALLOWED)
    code = ctypes.create_string_buffer(program, len(program))
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 or libc.prctl(PR_SET_SECCOMP, FILTER, header) != 0:
        sys.exit(f"without_calls.py: {os.strerror(ctypes.get_errno())}")
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
