#!/usr/bin/env python3
"""Who may include whom, and how large the core is.

A file includes files of its own layer and of those below it, never of one above; and no folders include each other
in a circle. Tests in common may also include common/testing, those of the labs the trainer; nothing else of the labs
includes common/testing, since answers may include what is not called NAME_testing.hpp. The core, which students read,
has at most MOST_CORE_LINES. docs/maintain/architecture.md has the layers' map, and the lines of each part of the core.
Says what is otherwise, and ends with 1.

    python3 .ci/layers.py [ROOT]
    python3 .ci/layers.py --lines     the table of docs/maintain/architecture.md, as it should be
"""

import os
import re
import subprocess
import sys

# From top to bottom. A folder belongs to the layer with its longest prefix; files right in common/ are the ground
# floor.
LAYERS = [
    "bench",
    "tools",
    "labs/trainer",
    "labs",
    "common/testing",
    "common/gpt",
    "common/backends",
    "common/devices",
    "common/analysis",
    "common/runtime",
    "common/support",
    "common",
]
SAME_LAYER = {"solutions": "labs"}  # the answers, next to the exercises
# Layers above them that tests may include, in common and in labs: week 25's answers are tested in the trainer.
TESTS_MAY = {False: ["common/testing"], True: ["labs/trainer"]}
MOST_SUBFOLDERS = 12
# Files that students read, without their tests, and the name of each part in docs/maintain/architecture.md.
CORE = [
    ("`common/*.hpp`, what labs include", r"common/[^/]+\.hpp$"),
    ("`common/runtime`", r"common/runtime/"),
    ("the simulator, `common/backends/sim`", r"common/backends/sim/"),
    ("MPI, `common/backends/mpi`", r"common/backends/mpi/"),
    ("arithmetic on the CPU, `common/devices/cpu`", r"common/devices/cpu/"),
    ("the model and its schedules, `common/gpt/model` and `pipeline`", r"common/gpt/(model|pipeline)/"),
    ("contracts and given code, `labs/week*/*.hpp`", r"labs/week\w+/[^/]+\.hpp$"),
    ("reference answers, `solutions`", r"solutions/"),
    ("`labs/trainer`", r"labs/trainer/"),
]
MOST_CORE_LINES = 30000
ARCHITECTURE = "docs/maintain/architecture.md"
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
SOURCE = re.compile(r"\.(cpp|hpp|cu|cuh)$")


def layer_of(path):
    top = path.split("/")[0]
    path = SAME_LAYER.get(top, top) + path[len(top) :]
    fits = [name for name in LAYERS if path.startswith(name + "/")]
    return LAYERS.index(max(fits, key=len)) if fits else None


def is_test(path):
    return "/tests/" in path or re.search(r"_(test|testing)\.(cpp|hpp)$", path)


def files_of(root):
    """What git knows there."""
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z"], capture_output=True, text=True, check=True)
    return set(listed.stdout.split("\0"))


def includes(root, known):
    """Pairs (file, file it includes), of known files."""
    for path in sorted(known):
        if not SOURCE.search(path) or not os.path.isfile(os.path.join(root, path)):
            continue
        with open(os.path.join(root, path), encoding="utf-8") as file:
            for name in INCLUDE.findall(file.read()):
                beside = os.path.normpath(os.path.join(os.path.dirname(path), name))
                target = name if name in known else beside
                if target in known:
                    yield path, target


def with_includers(changed, edges):
    """`changed`, and every file that includes one of them, however indirectly."""
    includers = {}
    for path, target in edges:
        includers.setdefault(target, []).append(path)
    found, trail = set(changed), list(changed)
    while trail:
        for path in includers.get(trail.pop(), ()):
            if path not in found:
                found.add(path)
                trail.append(path)
    return found


def goes_up(path, target):
    here, there = layer_of(path), layer_of(target)
    if here is None or there is None:
        return False
    if is_test(path) and LAYERS[there] in TESTS_MAY[path.split("/")[0] == "labs"]:
        return False
    return there < here


def is_nameless_helper(path, target):
    """Whether a helper of the labs' tests has the name of a contract."""
    return target.startswith("common/testing/") and path.startswith(("labs/", "solutions/")) and not is_test(path)


def circle(graph):
    """Folders that include each other in a circle, the first one twice; or nothing."""
    done, trail = set(), []

    def visit(folder):
        if folder in trail:
            return trail[trail.index(folder) :] + [folder]
        if folder in done:
            return None
        trail.append(folder)
        for other in sorted(graph.get(folder, ())):
            found = visit(other)
            if found:
                return found
        trail.pop()
        done.add(folder)
        return None

    for folder in sorted(graph):
        found = visit(folder)
        if found:
            return found
    return None


def crowded(known):
    """Folders with too many sub-folders."""
    children = {}
    for path in known:
        parts = path.split("/")[:-1]
        for i in range(1, len(parts)):
            children.setdefault("/".join(parts[:i]), set()).add(parts[i])
    return {folder: len(found) for folder, found in children.items() if len(found) > MOST_SUBFOLDERS}


def core_lines(root, known):
    """Lines of each part of CORE."""
    lines = dict.fromkeys((name for name, _ in CORE), 0)
    for path in known:
        for name, pattern in CORE:
            if SOURCE.search(path) and re.match(pattern, path) and not is_test(path):
                with open(os.path.join(root, path), encoding="utf-8") as file:
                    lines[name] += sum(1 for _ in file)
    return lines


def core_table(lines):
    """As docs/maintain/architecture.md has it, to the hundred, so that it changes only where something has happened."""
    rows = [f"| {name} | {round(count, -2):,} |" for name, count in lines.items()]
    return "\n".join(["| core | lines |", "|---|---|", *rows, f"| together | {round(sum(lines.values()), -2):,} |"])


def wrong_core(root, known):
    path = os.path.join(root, ARCHITECTURE)
    if ARCHITECTURE not in known:
        return
    lines = core_lines(root, known)
    if sum(lines.values()) > MOST_CORE_LINES:
        yield (
            f"the core has {sum(lines.values())} lines, more than {MOST_CORE_LINES}: remove"
            f" {sum(lines.values()) - MOST_CORE_LINES} from what {ARCHITECTURE} counts as the core"
        )
    with open(path, encoding="utf-8") as file:
        if core_table(lines) not in file.read():
            yield f"{ARCHITECTURE} lacks the core's table as it should be: .ci/layers.py --lines\n" + core_table(lines)


def main():
    if sys.argv[1:] == ["--lines"]:
        print(core_table(core_lines(".", files_of("."))))
        return 0
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    known = files_of(root)
    wrong, graph, count = 0, {}, 0
    for path, target in includes(root, known):
        count += 1
        if goes_up(path, target):
            print(f"{path} includes {target}, of a layer above it")
            wrong += 1
        if is_nameless_helper(path, target):
            print(f"{path} includes {target}, as only tests do: call it NAME_testing.hpp")
            wrong += 1
        if not is_test(path) and os.path.dirname(path) != os.path.dirname(target):
            graph.setdefault(os.path.dirname(path), set()).add(os.path.dirname(target))
    found = circle(graph)
    if found:
        print("a circle of folders: " + " -> ".join(found))
        wrong += 1
    for folder, many in sorted(crowded(known).items()):
        print(f"{folder} has {many} sub-folders, more than {MOST_SUBFOLDERS}")
        wrong += 1
    for said in wrong_core(root, known):
        print(said)
        wrong += 1
    if count == 0:
        print("no includes found: is this the root of the project?")
        wrong += 1
    print(f"{count} includes, {wrong} fault{'s' * (wrong != 1)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
