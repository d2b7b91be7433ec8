#!/usr/bin/env python3
"""What may have changed since the commit that .ci/landed has for it, where it passed: the rest need not be read again.

What is skipped has been checked once, and `.ci/run long` skips nothing.

    python3 .ci/changed.py files        .cpp files that changed, and one that includes each other file that did
    python3 .ci/changed.py exercises    ids of exercises whose planted mistakes may get another verdict
    python3 .ci/changed.py handouts     handouts, and other pages with outputs, that changed or have such an exercise
    python3 .ci/changed.py gpu          nothing, or `all` where something changed that is compiled for GPUs

A file of which only words in comments changed has not changed: for exercises and handouts if it is a header or a test,
for files any. Prints `all` where everything counts: the commit is not known here, or what all of them share has
changed. Where that is only the runtime, whose own tests run each time, every fourth exercise and page is run besides,
by the commit's hash.
"""

import json
import re
import subprocess
import sys

from layers import files_of, includes, with_includers
from outputs import OTHER_PAGES

# The part of common/ that no exercise is built with on the CPU: what GPUs and the fake GPU need, and tests.
COMMON = r"common/(?!(devices|backends)/(cuda|nccl|tests)/|testing/fakes/|(\w+/)*tests/)"
SHARED = {  # a change here concerns everything
    "files": re.compile(r"\.clang-tidy$|\.ci/(tidy\.sh|clang_tidy/)"),
    "exercises": re.compile(
        rf"({COMMON}|cmake|tools/mutants/[a-z]*\.cpp|tools/course/(judge|scores|record)\.cpp|labs/CMakeLists)"
    ),
    # Making handouts has a stage of its own.
    "handouts": re.compile(rf"({COMMON}|cmake|tools/course/(?!handout\.)|labs/CMakeLists|\.ci/outputs)"),
    "gpu": re.compile(
        r"(common|solutions|launch|cmake|labs/trainer|bench/(programs|support)|tools/(train|gpu_pack)|.*CMake"
        r"|\.ci/(gpu|kernels))"
    ),
}

# A string, which may look like a comment inside; a character; or a comment.
PIECE = re.compile(
    r'R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|//(?:\\\n|[^\n])*|/\*.*?\*/', re.DOTALL
)

RUNTIME = re.compile(r"common/(?!testing/)|cmake/LockstepBlas|\.ci/outputs\.py")
TURNS = 4


def in_turn(everything, turn):
    """A share of all that the runtime may have changed: in TURNS turns each comes once."""
    return everything[turn % TURNS :: TURNS]


def with_turn(own, everything):
    """What changed by itself, and this commit's share of everything, in the order of everything."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout
    chosen = {*own, *in_turn(everything, int(commit[:8], 16))}
    return [each for each in everything if each in chosen]


def changed_files(base):
    """Those of the commits since `base`, or None."""
    ran = subprocess.run(["git", "diff", "--name-only", base, "HEAD"], capture_output=True, text=True)
    return set(ran.stdout.split()) if ran.returncode == 0 else None


def code_of(text):
    """The lines without their comments; a line that is one is empty, since outputs name lines by their numbers. What
    clang-tidy reads stays: NOLINT, and the names of arguments between /* and =*/."""

    def without(match):
        read = "NOLINT" in match[0] or match[0].endswith("=*/")
        return "\n" * match[0].count("\n") if match[0].startswith(("//", "/*")) and not read else match[0]

    return [line.strip() for line in PIECE.sub(without, text).splitlines()]


def with_other_code(changed, base, what):
    """Without the files in which nothing but words in comments has changed since `base`. For clang-tidy, line numbers
    do not count. Otherwise only headers and tests are left out: a skeleton has the comments of an answer, and planted
    mistakes are found in its text."""
    files = what == "files"

    def text_at(commit, path):
        ran = subprocess.run(["git", "show", f"{commit}:{path}"], capture_output=True, text=True)
        return ran.stdout if ran.returncode == 0 else None

    def differs(path):
        may_skip = r"\.[ch]pp$" if files else r"^(?!solutions/|tools/).*(\.hpp|_test\.cpp)$"
        if not re.search(may_skip, path):
            return True
        before, after = text_at(base, path), text_at("HEAD", path)
        if before is None or after is None:
            return True
        lines = [[line for line in code_of(text) if line or not files] for text in (before, after)]
        return lines[0] != lines[1]

    return {path for path in changed if differs(path)}


def read_again(changed, edges):
    """.cpp files in which clang-tidy sees every file of `changed`: those of them, and one that includes each other."""
    files = {path for path in changed if path.endswith(".cpp")}
    seen = with_includers(files, [(target, path) for path, target in edges])  # the other way: what they include
    for header in sorted(changed - seen):
        readers = sorted(path for path in with_includers([header], edges) if path.endswith(".cpp"))
        namesake = header.rsplit(".", 1)[0] + ".cpp"
        files |= {namesake} if namesake in readers else set(readers[:1])
    return files


def exercises_of(found, course):
    """Ids of those with a solution, tests, planted mistakes or alternatives among the files `found`."""
    for week in course["weeks"]:
        for exercise in week["exercises"]:
            own = re.compile(
                r"(labs|solutions|tools/mutants|tools/alternatives)/"
                rf"{week['folder']}/(hard/)?{exercise['name']}(_\w*test)?\."
            )
            if any(own.match(path) for path in found):
                yield exercise["id"]


def handouts_of(found, course):
    changed = set(exercises_of(found, course))
    for week in course["weeks"]:
        for page, core in (("README.md", True), ("extras.md", False)):
            handout = f"labs/{week['folder']}/{page}"
            on_it = [exercise["id"] for exercise in week["exercises"] if exercise.get("core", True) == core]
            if handout in found or changed.intersection(on_it):
                yield handout
    for page in OTHER_PAGES:
        shown = re.findall(r"<!-- (?:output|mistake)\b.*?(\d+\.\d+)", page.read_text())
        if str(page) in found or changed.intersection(shown):
            yield str(page)


def landed():
    """The commits, by what was checked there."""
    with open(".ci/landed", encoding="utf-8") as file:
        return dict(line.split() for line in file)


def main():
    what = sys.argv[1]
    base = landed()[what]
    changed = changed_files(base)
    if what != "gpu" and changed:
        changed = with_other_code(changed, base, what)
    shared = [path for path in changed or () if SHARED[what].match(path)]
    only_runtime = what in ("exercises", "handouts") and all(RUNTIME.match(path) for path in shared)
    if changed is None or (shared and not only_runtime):
        print("all")
        return
    if what == "gpu":
        return
    known = files_of(".")
    edges = list(includes(".", known))
    if what == "files":
        print("\n".join(sorted(read_again(changed & known, edges))))
    else:
        with open("labs/course.json", encoding="utf-8") as file:
            course = json.load(file)
        listed = exercises_of if what == "exercises" else handouts_of
        if shared:
            changed = {path for path in changed if not RUNTIME.match(path)}
        chosen = list(listed(with_includers(changed, edges) & known, course))
        if shared:
            chosen = with_turn(chosen, list(listed(known, course)))
        print("\n".join(chosen))


if __name__ == "__main__":
    main()
