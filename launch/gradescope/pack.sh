#!/bin/sh
# launch/gradescope/pack.sh WHAT FILE.zip: an autograder for Gradescope, of the committed tree. WHAT: what it grades, a
# week (21) or an exercise (21.2). Upload the file under "Configure Autograder", base image Ubuntu 24.04.
set -eu
[ $# -eq 2 ] || { echo 'usage: launch/gradescope/pack.sh WHAT FILE.zip, such as 21:core autograder.zip' >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
sh "$here/../graded.sh" "$1"
settings=$(mktemp -d)
trap 'rm -rf "$settings"' EXIT
echo "$1" > "$settings/graded.txt"
git -C "$here" rev-parse --short=12 HEAD > "$settings/commit.txt"
# From the top of the tree: in a folder below, git would pack that alone. The zip has these files at its root, as
# Gradescope wants them.
git -C "$here/../.." archive --format=zip --add-file="$here/setup.sh" --add-file="$here/run_autograder" \
  --add-file="$settings/graded.txt" --add-file="$settings/commit.txt" HEAD > "$2"
echo "$2: $(du -h "$2" | cut -f1)"
