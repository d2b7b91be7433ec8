#!/usr/bin/env python3
"""budget.py [--record] COMMAND…: runs it, and ends with 1 where it took more CPU time than .ci/budget.json allows.

Seconds of CPU differ from computer to computer, and with what else one does. So the budget counts in compilations of a
fixed file, which are timed before and after. Above it, the files of build/default whose share of the compilation has
grown most since the budget was recorded are named. --record writes .ci/budget.json anew: a quarter above what was
taken.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile

FILE = ".ci/budget.json"
LOG = "build/default/.ninja_log"
UNIT = (
    '#include <gtest/gtest.h>\n#include <nlohmann/json.hpp>\nint main() { return nlohmann::json::parse("[1]").size() !='
    " 1; }\n"
)
SPARE = 1.25


def cpu_seconds(command, **options):
    """Of the command and all that it waited for; and its exit code."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    code = subprocess.run(command, check=False, **options).returncode
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, code


def unit_seconds():
    """CPU seconds of one compilation of the fixed file, the least of three."""
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "unit.cpp")
        with open(source, "w", encoding="utf-8") as file:
            file.write(UNIT)
        command = [
            os.environ.get("CXX", "c++"),
            "-std=c++20",
            "-O0",
            "-c",
            source,
            "-o",
            os.path.join(folder, "unit.o"),
        ]
        return min(cpu_seconds(command)[0] for _ in range(3))


def shares(log):
    """Of each output in a log of Ninja, its part of the seconds of all."""
    seconds = {}
    for line in log.splitlines():
        if not line.startswith("#"):
            begin, end, _, output, _ = line.split("\t")
            seconds[output] = (int(end) - int(begin)) / 1000
    whole = sum(seconds.values()) or 1
    return {output: each / whole for output, each in seconds.items()}


def grown(now, then):
    """Outputs whose share is larger than it was, the most grown first."""
    return sorted(
        (output for output in now if now[output] > then.get(output, 0)),
        key=lambda output: then.get(output, 0) - now[output],
    )


def main():
    arguments = sys.argv[1:]
    record = arguments[0] == "--record"
    before = unit_seconds()
    seconds, code = cpu_seconds(arguments[1:] if record else arguments)
    unit = (before + unit_seconds()) / 2
    taken = seconds / unit
    with open(LOG, encoding="utf-8") as file:
        now = shares(file.read())
    print(
        f"{seconds:.0f} s of CPU, {taken:.0f} times the compilation of a fixed file, which takes {unit:.2f} s",
        flush=True,
    )
    if record:
        with open(FILE, "w", encoding="utf-8") as file:
            largest = {output: round(share, 4) for output, share in sorted(now.items()) if share > 0.002}
            json.dump({"compilations": round(taken * SPARE), "shares": largest}, file, indent=1)
            file.write("\n")
        return code
    with open(FILE, encoding="utf-8") as file:
        budget = json.load(file)
    if taken <= budget["compilations"]:
        return code
    print(
        f"the budget is {budget['compilations']} (.ci/budget.json). What has grown most, in parts of the whole build:"
    )
    for output in grown(now, budget["shares"])[:8]:
        print(f"  {budget['shares'].get(output, 0):7.2%} -> {now[output]:7.2%}  {output}")
    return code or 1


if __name__ == "__main__":
    sys.exit(main())
