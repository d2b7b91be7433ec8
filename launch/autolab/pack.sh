#!/bin/sh
# launch/autolab/pack.sh WHAT FOLDER: an autograder for Autolab, of the committed tree. WHAT: what it grades, such as
# 21:core or 21.2. Into FOLDER come autograde-Makefile and autograde.tar, for "Edit assessment", "Autograder", and image/,
# from which `docker build -t lockstep FOLDER/image` makes the image in which Tango runs them.
set -eu
[ $# -eq 2 ] || { echo 'usage: launch/autolab/pack.sh WHAT FOLDER, such as 21:core autolab' >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
sh "$here/../graded.sh" "$1"
mkdir -p "$2/image"
out=$(cd "$2" && pwd)
settings=$(mktemp -d)
trap 'rm -rf "$settings"' EXIT
echo "$1" > "$settings/graded.txt"
git -C "$here" rev-parse --short=12 HEAD > "$settings/commit.txt"
tar -cf "$out/autograde.tar" -C "$here" grade.sh -C "$settings" graded.txt commit.txt
cp "$here/autograde-Makefile" "$out/autograde-Makefile"
cp "$here/Dockerfile" "$out/image/Dockerfile"
# The image builds and grades its reference with Gradescope's setup.
git -C "$here/../.." archive --format=tar --prefix=lockstep/ --add-file="$here/../gradescope/setup.sh" \
  --add-file="$settings/graded.txt" --add-file="$settings/commit.txt" HEAD > "$out/image/lockstep.tar"
echo "$out: autograde-Makefile, autograde.tar, image/ ($(du -sh "$out" | cut -f1))"
