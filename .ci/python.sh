#!/bin/sh
# python.sh [--write]: no line of Python is longer than 120 columns, no name in it is undefined, and ruff format
# changes nothing (--write: it does).
set -eu
version=0.17.6

venv=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep/ruff-$version
ruff=$venv/bin/ruff
[ -x "$ruff" ] || { python3 -m venv "$venv" && "$venv/bin/pip" install -q "ruff==$version"; } > /dev/null 2>&1 ||
  { echo "python.sh: ruff $version cannot be installed here; only the lengths of lines are checked"; ruff=true; }
check=--check
[ "${1:-}" != --write ] || check=
# shellcheck disable=SC2046,SC2086  # lists
"$ruff" format --quiet $check $(git ls-files '*.py') ||
  { echo 'python.sh: sh .ci/python.sh --write formats these:'; "$ruff" format --check $(git ls-files '*.py'); exit 1; }
# A name that nothing defines shows only where its line runs.
# shellcheck disable=SC2046
"$ruff" check --quiet --select F821 $(git ls-files '*.py')

python3 - <<'PYTHON'
import pathlib, subprocess, sys
files = subprocess.run(["git", "ls-files", "*.py"], capture_output=True, text=True, check=True).stdout.split()
long = [f"{file}:{number}: more than 120 columns" for file in files
        for number, line in enumerate(pathlib.Path(file).read_text(encoding="utf-8").split("\n"), 1) if len(line) > 120]
print("\n".join(long), end="\n" if long else "")
sys.exit(bool(long) or not files)
PYTHON
