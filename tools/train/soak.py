#!/usr/bin/env python3
"""Kills training runs at random moments, again and again, and resumes each: the end must be that of a run which nobody
disturbed, byte for byte. Kills are spread evenly over a run's start, its steps, the writing of a checkpoint and its
commit, over SIGKILL and SIGTERM, and over layouts of ranks.

  soak.py --train PROGRAM [--train-mpi PROGRAM --launcher mpirun.sh] --text FILE [--kills N] [--seed N] [--result FILE]

Exit code 1 where something was lost or hung. What stands in --result is that of the last soak."""

import argparse
import collections
import concurrent.futures
import datetime
import filecmp
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PHASES = ["start", "step", "save", "commit"]
STEPS, EVERY = 400, 10
HANG_SECONDS = 60  # for which a job may continue after a kill, or undisturbed

# Each layout's name, its number of processes (0: the simulator), and its options.
LAYOUTS = [
    ("serial", 0, []),
    ("sim, dp 2", 0, ["--dp", "2"]),
    ("sim, tp 2", 0, ["--tp", "2"]),
    ("sim, pp 2", 0, ["--pp", "2"]),
    ("sim, ZeRO-3, dp 2", 0, ["--dp", "2", "--zero", "3"]),
    ("sim, 2 x 2 x 2, ZeRO-1", 0, ["--dp", "2", "--tp", "2", "--pp", "2", "--zero", "1"]),
    ("mpi, dp 2", 2, ["--dp", "2"]),
    ("mpi, tp 2", 2, ["--tp", "2"]),
    ("mpi, pp 2", 2, ["--pp", "2"]),
    ("mpi, ZeRO-1, dp 2", 2, ["--dp", "2", "--zero", "1"]),
    ("mpi, ZeRO-2, dp 2", 2, ["--dp", "2", "--zero", "2"]),
    ("mpi, ZeRO-3, dp 2", 2, ["--dp", "2", "--zero", "3"]),
    ("mpi, tp 2 x pp 2", 4, ["--tp", "2", "--pp", "2"]),
]


def processes_named(name):
    """Process ids of all that are called so."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and pathlib.Path("/proc", entry, "comm").read_text().strip() == name:
                found.append(int(entry))
        except OSError:
            pass
    return sorted(found)


def names_in(folder):
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def last_step(folder):
    """Of the checkpoints that are complete; 0: there is none."""
    return max((int(n[5:]) for n in names_in(folder) if re.fullmatch(r"step-\d+", n)), default=0)


def saving(folder):
    """What of a checkpoint is under way there: "save", "commit", or None."""
    for name in names_in(folder):
        if ".tmp-" in name:
            over = name.endswith(("old", "-replaced")) or os.path.exists(os.path.join(folder, name, "manifest"))
            return "commit" if over else "save"
    return None


class Job:
    """A training run, in a session of its own."""

    def __init__(self, soak, layout, folder):
        name, self.ranks, options = layout
        self.folder = folder
        program = soak.programs[name] if self.ranks else soak.sim
        self.name = os.path.basename(program)
        fixed = "--model tiny --layers 2 --d-model 32 --heads 2 --batch 4 --sequence 16 --threads 1 --sample 0"
        when = f"--steps {STEPS} --log-every 1 --validate-every {STEPS} --checkpoint-every {EVERY}"
        command = [program, "--data", soak.text, *fixed.split(), *when.split()]
        command += ["--checkpoint", folder, "--resume", folder, *options]
        if self.ranks:
            command = ["sh", soak.launcher, "-n", str(self.ranks), "--grace", "60"] + command
        self.log = folder + ".log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )
        self.began = time.monotonic()

    def said(self):
        return pathlib.Path(self.log).read_text(errors="replace")

    def runs(self):
        return self.process.poll() is None

    def rank_ids(self):
        return processes_named(self.name) if self.ranks else [self.process.pid]

    def wait(self):
        """Its exit code; None where it hung, and was ended."""
        try:
            code = self.process.wait(HANG_SECONDS)
        except subprocess.TimeoutExpired:
            for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGKILL):
                self.process.send_signal(number)
                time.sleep(2)
            self.end_ranks()
            return None
        end = time.monotonic() + 10
        while self.ranks and self.rank_ids() and time.monotonic() < end:
            time.sleep(0.02)
        return None if self.ranks and self.end_ranks() else code

    def end_ranks(self):
        """Whether any was left."""
        left = self.rank_ids() if self.ranks else []
        for process in left:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return bool(left)


class Soak:
    def __init__(self, arguments, folder):
        self.arguments, self.root, self.random = arguments, folder, random.Random(arguments.seed)
        self.launcher = arguments.launcher
        self.sim, self.programs = arguments.train, {}
        self.text = os.path.join(folder, "text")
        pathlib.Path(self.text).write_bytes(pathlib.Path(arguments.text).read_bytes()[:50000])
        self.layouts = [layout for layout in LAYOUTS if arguments.train_mpi or layout[1] == 0]
        for i, (name, ranks, _) in enumerate(self.layouts):
            if ranks:  # by a name that no other process has, of which the kernel keeps 15 letters
                self.programs[name] = os.path.join(folder, f"soak{os.getpid()}_{i}")
                shutil.copy2(arguments.train_mpi, self.programs[name])
        self.kills = {phase: {"SIGKILL": 0, "SIGTERM": 0} for phase in PHASES}
        self.by_layout = {layout[0]: 0 for layout in self.layouts}
        self.whole, self.lost, self.hangs, self.rounds = {}, [], [], 0

    def count(self, phase=None):
        return sum(sum(self.kills[p].values()) for p in ([phase] if phase else PHASES))

    def name_of(self, layout, what):
        return os.path.join(self.root, what + str(self.layouts.index(layout)))

    def undisturbed(self, layout):
        """Its last checkpoint, and when, in seconds after its start, it made its first step."""
        if layout[0] not in self.whole:
            folder = self.name_of(layout, "whole")
            job = Job(self, layout, folder)
            first = self.until(job, lambda: "\nstep     1/" in job.said(), 60)
            if job.wait() != 0:
                sys.exit(f"soak: the undisturbed run of {layout[0]} failed:\n{job.said()}")
            self.whole[layout[0]] = (os.path.join(folder, f"step-{STEPS:08}"), first)
        return self.whole[layout[0]]

    def until(self, job, is_so, seconds, pause=0.002):
        """When, after the job's start; it may end before."""
        end = time.monotonic() + seconds
        while job.runs() and not is_so() and time.monotonic() < end:
            time.sleep(pause)
        return time.monotonic() - job.began

    def wait_for_phase(self, job, phase, first_step):
        """Until a random moment of the phase; the job may end before."""
        if phase == "start":
            self.until(job, job.rank_ids, 30)
            time.sleep(self.random.random() * max(0.02, first_step - (time.monotonic() - job.began)))
            return
        self.until(job, lambda: "\nstep " in job.said(), 60)
        job.ids = job.rank_ids()
        time.sleep(self.random.random() * 0.5)
        if phase == "step":
            self.until(job, lambda: saving(job.folder) is None, 5, 0.0003)
            return
        # A time in which it is not yet under way, so that this one is met at its beginning; then somewhere within.
        self.until(job, lambda: saving(job.folder) is None, 5, 0.0003)
        self.until(job, lambda: saving(job.folder) == phase, 30, 0.0003)
        time.sleep(self.random.random() * (0.004 if phase == "save" else 0.001))

    def disturb(self, layout, folder):
        """One run that is killed, if it is not over before; whether the whole training is over."""
        _, first_step = self.undisturbed(layout)
        phase = min(PHASES, key=lambda p: (self.count(p), self.random.random()))
        number = self.random.choice([signal.SIGKILL, signal.SIGTERM])
        before = last_step(folder)
        job = Job(self, layout, folder)
        job.ids = None
        self.wait_for_phase(job, phase, first_step)
        victims = job.ids or job.rank_ids()
        seen = saving(folder)
        hit = self.kill(job, number, victims)
        code = job.wait()
        said = job.said()
        if number == signal.SIGKILL:
            seen = saving(folder)
        met = seen or ("step" if "\nstep " in said else "start")
        if hit and (code != 0 or number == signal.SIGTERM):
            self.kills[met][number.name] += 1
            self.by_layout[layout[0]] += 1
        self.judge(layout, folder, before, met, number.name, hit, code, said)
        return last_step(folder) == STEPS

    def kill(self, job, number, victims):
        target = job.process.pid if number == signal.SIGTERM or not job.ranks else None
        if target is None and victims:
            target = self.random.choice(victims)
        if target is None or not job.runs():
            return False
        try:
            os.kill(target, number)
        except ProcessLookupError:
            return False
        return True

    def judge(self, layout, folder, before, met, number, hit, code, said):
        what = f"{layout[0]}, {number} in {met}"
        after = last_step(folder)
        resumed = re.search(r"^resumed   \S*step-(\d+)$", said, re.M)
        if code is None:
            self.hangs.append(what)
            print(f"HANG: {what}\n{said[-2000:]}", flush=True)
        elif code != 0 and not hit:
            self.lost.append(f"{what}: exit code {code}, though nobody was killed")
        if resumed and int(resumed[1]) != before:
            self.lost.append(f"{what}: went on from step {int(resumed[1])}, though {before} was saved")
        if "trying the checkpoint before" in said:
            self.lost.append(f"{what}: a checkpoint is broken")
        if after < before:
            self.lost.append(f"{what}: step {before} was saved, and {after} is left")
        stopped = re.search(r"^stopped   by (?:SIGTERM|an interrupt) after step (\d+)", said, re.M)
        if stopped and (code != 143 or after != int(stopped[1])):
            self.lost.append(f"{what}: stopped after step {stopped[1]}, with {code} and step {after}")

    def compare(self, layout, folder):
        """The end of a disturbed training with that of the undisturbed one."""
        expected, _ = self.undisturbed(layout)
        names = sorted(names_in(expected))
        seen = os.path.join(folder, os.path.basename(expected))
        same, different, missing = filecmp.cmpfiles(expected, seen, names, shallow=False)
        if different or missing or sorted(names_in(seen)) != names:
            self.lost.append(f"{layout[0]}: ends with other bytes: {different + missing}")
        again = Job(self, layout, folder)
        if again.wait() != 0 or " steps already" not in again.said():
            self.lost.append(f"{layout[0]}: resuming what is done does not end with 0: {again.said()[-300:]}")
        self.rounds += 1
        shutil.rmtree(folder)

    def finish(self, layout, folder):
        """Without further kills."""
        if os.path.exists(folder):
            job = Job(self, layout, folder)
            if job.wait() != 0:
                self.lost.append(f"{layout[0]}: the rest fails: {job.said()[-300:]}")
            else:
                self.compare(layout, folder)

    def run(self):
        """Each job takes the layout whose turn it is."""
        turns = collections.deque(self.layouts)

        def work():
            while self.count() < self.arguments.kills and len(self.lost) < 5:
                layout = turns.popleft()
                folder = self.name_of(layout, "run")
                if self.disturb(layout, folder):
                    self.compare(layout, folder)
                turns.append(layout)
                print(
                    f"{self.count()} kills, {self.rounds} trainings ended; lost {len(self.lost)}, hangs "
                    f"{len(self.hangs)}",
                    flush=True,
                )

        with concurrent.futures.ThreadPoolExecutor(self.arguments.jobs) as jobs:
            for job in [jobs.submit(work) for _ in range(self.arguments.jobs)]:
                job.result()
        for layout in self.layouts:
            self.finish(layout, self.name_of(layout, "run"))

    def report(self):
        processor = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
        lines = [
            "# Soak: kills of training runs",
            "",
            (
                "Does a killed run lose anything? Each of these was killed at a random moment and resumed, until its"
                " training was done. Its last checkpoint must equal that of a run which nobody disturbed, byte for"
                " byte. You can repeat it with `.ci/run soak`, which writes this page to outputs/ci/soak.md."
            ),
            "",
            "| | |",
            "|---|---|",
            f"| date | {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC |",
            f"| commit | {self.arguments.commit} |",
            f"| processor | {processor[1] if processor else 'unknown'}, {len(os.sched_getaffinity(0))} cores |",
            f"| seed | {self.arguments.seed} |",
            f"| kills | {self.count()} |",
            f"| trainings that ended, of {STEPS} steps, saved every {EVERY} | {self.rounds} |",
            f"| lost | {len(self.lost)} |",
            f"| hangs | {len(self.hangs)} |",
            "",
            "| killed in | SIGKILL | SIGTERM |",
            "|---|---|---|",
        ]
        lines += [f"| {p} | {self.kills[p]['SIGKILL']} | {self.kills[p]['SIGTERM']} |" for p in PHASES]
        lines += [
            "",
            (
                "*start* is before the first step, and *save* while ranks write their files. *commit* is while the "
                "manifest is written, the directory renamed, and older ones removed."
            ),
            "",
            "| layout | kills |",
            "|---|---|",
        ]
        lines += [f"| {name} | {kills} |" for name, kills in self.by_layout.items()]
        for title, found in (("Lost", self.lost), ("Hangs", self.hangs)):
            if found:
                lines += ["", f"{title}:", ""] + [f"- {one}" for one in found]
        return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--train", required=True, help="the simulator's program")
    parser.add_argument("--train-mpi", help="MPI's")
    parser.add_argument("--launcher", help="launch/mpirun.sh")
    parser.add_argument("--text", required=True)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--result", help="a file of Markdown")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak") as folder:
        soak = Soak(arguments, folder)
        soak.run()
        report = soak.report()
    print(report)
    if arguments.result:
        pathlib.Path(arguments.result).write_text(report)
    return 1 if soak.lost or soak.hangs else 0


if __name__ == "__main__":
    sys.exit(main())
