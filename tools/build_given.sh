#!/bin/sh
# build_given.sh CMAKE BUILD TARGET…: builds what is given, for CTest, alone in the build tree, and says whose error it is
# where something does not compile.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cmake=$1 build=$2
shift 2
. "$root/tools/alone.sh"
. "$root/tools/whose_error.sh"
mkdir -p "$build/mine"
log=$build/mine/given.log failed=$build/mine/given.failed
rm -f "$failed"
{ alone "$cmake" --build "$build" --target "$@" 2>&1 || : > "$failed"; } | tee "$log"
[ ! -e "$failed" ] || { rm -f "$failed"; say_whose_error "$log"; exit 1; }
