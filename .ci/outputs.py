"""What the handouts say a command prints is what it prints, and every mistake they describe causes the message beside
it.

  python3 .ci/outputs.py                 checks README.md, labs/*/*.md and the C++ page
  python3 .ci/outputs.py --write FILE…   replaces the blocks that differ, which leaves them to be shortened by hand

The answers in labs/ are replaced meanwhile, and put back: as many exercises at once as there are cores, and never one
together with another that it needs. A block of output follows a comment that says whose answer to the command's
exercise is run:

  <!-- output, todo: ./lab check 21.2 -->                        the skeleton; `reference`, or a mistake's name,
  likewise
  ```text
  … stands for any characters, and a line of its own for any lines. Seconds are compared as numbers only. Where the
  command does not name the exercise, a comment at its end does: # 23.7
  ```

A row of "When it goes wrong" ends with <!-- mistake 21.2: off by one chunk -->, a name of tools/mutants. Its second
cell is
what the learner sees: the pieces between … are looked for, in order, in what ./lab check prints of that answer.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

from layers import with_includers

BLOCK = re.compile(
    r"^<!-- output, (?P<answer>[^:\n]+): (?P<command>\./lab [^\n]*?) -->\n```text\n(?P<text>.*?)^```$", re.M | re.S
)
ROW = re.compile(r"^\|(?P<cells>[^\n]*)\|\s*<!-- mistake (?P<id>\d+\.\d+): (?P<name>[^\n]*?) -->$", re.M)
MENTION = re.compile(r"<!-- (?:output|mistake)\b")
OTHER_PAGES = [pathlib.Path("README.md"), pathlib.Path("docs/learn/cpp-for-pytorch.md")]  # besides the handouts


def pairs_of(path):
    """What a page says is printed: a pair of command and answer for each of its blocks and rows."""
    text = path.read_text()
    for match in BLOCK.finditer(text):
        yield match["command"], match["answer"]
    for row in ROW.finditer(text):
        yield f"./lab check {row['id']}", row["name"]


def exercise_of(command):
    """`./lab check 21.2a --ranks 4` is of exercise 21.2, whose part a it runs; a comment at the end comes first."""
    return (re.search(r"# (2\d\.\d+)$", command) or re.search(r"\b(2\d\.\d+)", command))[1]


def all_pages():
    return [*sorted(pathlib.Path("labs").glob("week*/*.md")), *OTHER_PAGES]


class Exercises:
    """The answers of labs/, some of which are in another state while their output is taken."""

    def __init__(self):
        course = json.loads(pathlib.Path("labs/course.json").read_text())
        self.paths = {e["id"]: f"{week['folder']}/{e['name']}" for week in course["weeks"] for e in week["exercises"]}
        needs = [(need, e["id"]) for week in course["weeks"] for e in week["exercises"] for need in e.get("needs", [])]
        # Each exercise with all those whose programs link it.
        self.needs = {exercise: with_includers({exercise}, needs) for exercise in self.paths}
        self.seen = {}

    def take(self, pairs):
        """Takes the outputs of these, several exercises at once where none needs another that is in work."""
        waiting = {}
        for command, answer in dict.fromkeys(pairs):
            waiting.setdefault(exercise_of(command), []).append((command, answer))
        running = {}
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            while waiting or running:
                busy = set(running.values())
                for exercise in sorted(waiting, key=lambda e: -len(waiting[e])):
                    if len(busy) == os.cpu_count():
                        break
                    if any(exercise in self.needs[other] or other in self.needs[exercise] for other in busy):
                        continue
                    mine = waiting.pop(exercise)
                    running[pool.submit(lambda mine: [self.output(*pair) for pair in mine], mine)] = exercise
                    busy.add(exercise)
                done, _ = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
                for one in done:
                    del running[one]
                    one.result()

    def text(self, exercise, answer):
        if answer == "todo":
            file = f"labs/{self.paths[exercise]}.cpp"
            shown = subprocess.run(["git", "show", f"HEAD:{file}"], capture_output=True, text=True, check=False)
            return shown.stdout or sys.exit(f"{file} is not in HEAD: commit the skeleton first")
        text = pathlib.Path(f"solutions/{self.paths[exercise]}.cpp").read_text()
        if answer == "reference":
            return text
        for mistake in json.loads(pathlib.Path(f"tools/mutants/{self.paths[exercise]}.json").read_text()):
            if mistake["name"] == answer:
                return text.replace(mistake["replace"], mistake["with"])
        sys.exit(f"tools/mutants/{self.paths[exercise]}.json has no '{answer}'")

    def output(self, command, answer):
        """What `command` prints where the exercise that it names is answered by `answer`."""
        key = (command, answer)
        if key not in self.seen:
            exercise = exercise_of(command)
            lab = pathlib.Path(f"labs/{self.paths[exercise]}.cpp")
            kept = lab.read_text()
            lab.write_text(self.text(exercise, answer))
            try:
                self.seen[key] = self.run(command)
            finally:
                lab.write_text(kept)
        return self.seen[key]

    @staticmethod
    def run(command):
        done = subprocess.run(
            ["sh", "-c", command], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=600
        )
        lines = [line.rstrip() for line in (done.stdout + done.stderr).splitlines()]
        known = re.compile(
            r"^\s*(nothing has changed since|\d+ questions? to predict|next: |building |waiting: |configuring "
            r"|checking your |lockstep: )"
            r"|.* is still running after \d+ s(?:$|:)"
        )
        return "\n".join(line for line in lines if not known.match(line)).strip("\n") + "\n"


def plain(text):
    """Without markup and with single spaces, so that a cell and an output can be compared."""
    return re.sub(r"\s+", " ", re.sub(r"[`*]|\\(?=\|)", "", text)).strip()


def agrees(shown, printed):
    """Does `printed` match what the page shows, whose … stand for anything?"""
    lines = [".*\n" if line.strip() == "…" else line for line in shown.splitlines()]
    pattern = ""
    for line in lines:
        if line == ".*\n":
            pattern += r"(?:[^\n]*\n)*"
            continue
        line = re.escape(line.rstrip()).replace("…", r"[^\n]*")
        pattern += re.sub(r"\d+\\\.\d+(?=\\ (?:m|µ)?s\b)", r"[\\d.]+", line) + r"\n"
    return re.fullmatch(pattern, printed) is not None


def said(cell, printed):
    """Do the pieces of the cell between … stand in `printed`, one after the other?"""
    text, at = plain(printed), 0
    for piece in plain(cell).split("…"):
        at = text.find(piece.strip(), at)
        if at < 0:
            return False
        at += len(piece.strip())
    return True


def check(path, exercises, write):
    text = path.read_text()
    faults = []

    def block(match):
        printed = exercises.output(match["command"], match["answer"])
        if agrees(match["text"], printed):
            return match[0]
        faults.append(f"{path}: {match['command']} with {match['answer']} prints\n{printed}")
        begin, end = match.span("text")
        return text[match.start() : begin] + printed + text[end : match.end()] if write else match[0]

    new = BLOCK.sub(block, text)
    rows = list(ROW.finditer(text))
    for row in rows:
        cell = re.split(r"(?<!\\)\|", row["cells"])[1]
        printed = exercises.output(f"./lab check {row['id']}", row["name"])
        if not said(cell, printed):
            faults.append(f"{path}: the mistake '{row['name']}' of {row['id']} prints\n{printed}")
    found = len(BLOCK.findall(text)) + len(rows)
    if found != len(MENTION.findall(text)):
        faults.append(
            f"{path}: {len(MENTION.findall(text))} comments on outputs and mistakes, of which {found} have their block"
            " or row"
        )
    if write and new != text:
        path.write_text(new)
    return found, faults


def main():
    line = argparse.ArgumentParser()
    line.add_argument("files", nargs="*", type=pathlib.Path)
    line.add_argument("--write", action="store_true")
    options = line.parse_args()
    exercises, count, faults = Exercises(), 0, []
    pages = options.files or all_pages()
    exercises.take(pair for path in pages for pair in pairs_of(path))
    for path in pages:
        found, wrong = check(path, exercises, options.write)
        count, faults = count + found, faults + wrong
    print("\n".join(faults), end="\n" if faults else "")
    print(f"{count} outputs and mistakes of handouts, {len(faults)} not as shown")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
