"""What the suite's programs print, in one file, so that a change of wording is a line that is reviewed.

  python3 .ci/messages.py            writes docs/maintain/messages.txt
  python3 .ci/messages.py --check    fails where it is not what the sources say

A message is a string literal with two words or more, of C++ that users run. Adjacent literals are one. Tests are left
out, and so are literals in another language: Python is written R"py(…)py". Braces and printf's % stand where the
program puts a value.
"""

import argparse
import difflib
import pathlib
import re
import subprocess
import sys

FILE = pathlib.Path("docs/maintain/messages.txt")
FOLDERS = ["common", "tools", "labs", "bench/support", "bench/programs"]
KINDS = ["cpp", "hpp", "cu", "cuh"]
NOT_USERS = re.compile(r"_test\.cpp$|_testing\.[ch]pp$|/(tests|fakes|fuzz|mutants|alternatives|language)/")
TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|\#\s*include[^\n]*|\s+
    |(?<!\w)(?:u8|[uUL])?R"(?P<mark>[^()\s\\]*)\((?P<raw>.*?)\)(?P=mark)"
    |"(?P<text>(?:[^"\\\n]|\\.)*)"
    |(?<!\w)'(?:[^'\\\n]|\\.)+'|(?P<code>.)""",
    re.X | re.S,
)
WORD = re.compile(r"(?<!\S)[(\"']*[A-Za-z][a-z'-]+[).,;:!?\"']*(?!\S)")
# HTML, CSS and JavaScript, JSON in a format string, a list of keywords, a linker's script.
OTHER_LANGUAGE = re.compile(r"<\w+[ >/]|</\w|;\s*\}|=>|\) \{|\{\{|^ (?:[\w.]+ ){5,}$|^  SECTIONS")


def literals(text):
    """The string literals of a C++ text, as they are written; adjacent ones are one."""
    joined = None
    for token in TOKEN.finditer(text):
        piece = "" if token["mark"] == "py" else token["raw"] if token["raw"] is not None else token["text"]
        if piece is not None:
            joined = (joined or "") + piece
        elif token["code"] and joined is not None:
            yield joined
            joined = None


def messages(text):
    for literal in literals(text):
        if len(WORD.findall(literal)) >= 2 and not OTHER_LANGUAGE.search(literal):
            yield literal.replace("\\n", "\n").replace('\\"', '"').strip("\n")


def snapshot():
    patterns = [f"{folder}/*.{kind}" for folder in FOLDERS for kind in KINDS]
    for name in subprocess.check_output(["git", "ls-files", "--", *patterns], text=True).split():
        found = [] if NOT_USERS.search(name) else list(messages(pathlib.Path(name).read_text()))
        if found:
            yield f"{name}\n" + "".join(f"  {line}".rstrip() + "\n" for text in found for line in text.split("\n"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    check, said = parser.parse_args().check, "\n".join(snapshot())
    if not check:
        FILE.write_text(said)
        return
    changes = list(difflib.unified_diff(FILE.read_text().splitlines(), said.splitlines(), "written", "said", n=0))
    if changes:
        print(*changes, sep="\n")
        sys.exit(f"{FILE} is not what the sources say. Run python3 .ci/messages.py, and commit what it changes.")


if __name__ == "__main__":
    main()
