"""The walks of docs/maintain/architecture.md name the files to open: three are proved on something that stands.

  python3 .ci/walks.py

An operation: the files under common/ that name `scatter_add`, without tests, are those of the walk. An exercise: the
files that have the name of 25.5. An option of train: the files that name `shard_group`, `--shard-group` or
`lr_scaling`. Each pattern of a walk has such a file.
"""

import fnmatch
import pathlib
import re
import subprocess
import sys

PAGE = pathlib.Path("docs/maintain/architecture.md")
TEST = re.compile(r"/tests/|_test\.|_testing\.")


def listed(*arguments):
    return set(subprocess.run(["git", *arguments], capture_output=True, text=True, check=False).stdout.split())


def patterns_of(walk):
    """What stands in backticks in the walk, which ends where the next one begins."""
    text = re.search(rf"^\*\*{re.escape(walk)}\.\*\*(.*?)^\*\*", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    return re.findall(r"`(\w[\w./*]*/[\w./*]+)`", text[1]) if text else []


def differences(walk, files, patterns):
    """In words: files that the walk does not name, and patterns of which there is no file."""
    if not patterns:
        yield f"{PAGE} has no walk '{walk}'"
    for file in sorted(files):
        if not any(fnmatch.fnmatch(file, pattern) for pattern in patterns):
            yield f"{walk}: {file} belongs to it, and {PAGE} does not name it"
    for pattern in patterns:
        if not fnmatch.filter(files, pattern):
            yield f"{walk}: {PAGE} names {pattern}, and no such file belongs to it"


def main():
    operation = {f for f in listed("grep", "-lw", "scatter_add", "--", "common") if not TEST.search(f)}
    exercise = {f for f in listed("ls-files", "labs", "solutions", "tools") if re.search(r"/save_interval[._]", f)}
    places = ("labs/trainer", "tools/train", "tools/plan", "docs/use")
    option = {f for f in listed("grep", "-lE", "shard[-_]group|lr_scaling", "--", *places) if not TEST.search(f)}
    walks = {"Add an operation": operation, "Add an exercise": exercise, "Add an option of `./lab train`": option}
    wrong = [line for walk, files in walks.items() for line in differences(walk, files, patterns_of(walk))]
    print("\n".join(wrong), end="\n" if wrong else "")
    count = sum(len(files) for files in walks.values())
    print(f"{len(walks)} walks, {count} files, {len(wrong)} not as {PAGE} says")
    return bool(wrong) or not all(walks.values())


if __name__ == "__main__":
    sys.exit(main())
