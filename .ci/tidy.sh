#!/bin/sh
# tidy.sh [--each | --changed] BUILD [FILE…]: clang-tidy with the checks of .clang-tidy over the files that BUILD compiles; every
# finding is an error. Only findings are printed. Files that BUILD compiles several at once are read so here as well, which
# halves the time; with --each, or named, each alone: then it must include what it uses. --changed: only what changed since
# the last landing (.ci/changed.py).
set -eu
each='' changed=all
case $1 in
  --each) each=yes; shift ;;
  --changed) changed=$(python3 .ci/changed.py files); shift ;;
esac
build=$1
shift
root=$(pwd)
findings=$(mktemp)
plain=$(mktemp -d)
trap 'rm -rf "$findings" "$plain"' EXIT
# Without the headers that GCC compiled in advance: clang cannot read them, and a file must include what it uses.
sed 's/-Winvalid-pch -include [^ ]*//' "$build/compile_commands.json" > "$plain/compile_commands.json"
frontend=${LOCKSTEP_CUDNN_FRONTEND:-$(python3 cmake/cudnn_frontend.py)}
if [ $# -eq 0 ]; then
  # cuDNN's frontend is headers that few have; without them nothing that includes them can be read.
  unreadable='^$'
  [ -n "$frontend" ] || unreadable='/attention_cudnn\.cpp$'
  git ls-files 'common/*.cpp' 'solutions/*.cpp' 'tools/*.cpp' 'labs/trainer/*.cpp' 'labs/*_test.cpp' 'bench/*.cpp' |
    grep -v "$unreadable" | sed "s|^|$root/|" | sort > "$plain/files"
  : > "$plain/together"
  : > "$plain/units"
  [ -n "$each" ] || grep -o '"file": ".*/Unity/[^"]*"' "$build/compile_commands.json" | sed 's/"file": "\(.*\)"/\1/' | sort -u > "$plain/all_units"
  [ -n "$each" ] || while read -r unit; do # whose files are all asked for
    sed -n 's/^#include "\(.*\)"$/\1/p' "$unit" | sort > "$plain/of_unit"
    [ -z "$(comm -23 "$plain/of_unit" "$plain/files")" ] || continue
    [ -n "$(comm -23 "$plain/of_unit" "$plain/together")" ] || continue
    echo "$unit" >> "$plain/units"
    sort -u -o "$plain/together" "$plain/together" "$plain/of_unit"
  done < "$plain/all_units"
  comm -23 "$plain/files" "$plain/together" > "$plain/alone"
  if [ "$changed" != all ]; then
    printf '%s\n' "$changed" | sed "s|^|$root/|" | sort > "$plain/changed"
    for unit in $(cat "$plain/units"); do
      sed -n 's/^#include "\(.*\)"$/\1/p' "$unit" | sort | comm -12 - "$plain/changed" | grep -q . && echo "$unit"
    done > "$plain/changed_units" || :
    comm -12 "$plain/alone" "$plain/changed" > "$plain/changed_alone"
    mv "$plain/changed_units" "$plain/units"
    mv "$plain/changed_alone" "$plain/alone"
  fi
  # shellcheck disable=SC2046  # one word a file
  set -- $(cat "$plain/units" "$plain/alone")
  echo "clang-tidy reads $# files, or several compiled together"
  [ $# -gt 0 ] || exit 0
fi
# Files that are compiled several at once, or only for GPUs, have no command of their own here and borrow one, which may
# lack these definitions.
define="--extra-arg=-DLOCKSTEP_SOURCE_DIR=\"$root\""
programs="--extra-arg=-DLOCKSTEP_PROGRAMS=\"$root/$build/programs\""
# shellcheck disable=SC2089  # the quotes are part of the definitions
bench="--extra-arg=-DLOCKSTEP_LAUNCH_TWO=\"\" --extra-arg=-DLOCKSTEP_GLOO=\"\""
# MPI's headers, where the build found them.
mpi=$(grep -o -e '-isystem [^ ]*mpi[^ ]*' "$build/compile_commands.json" | sort -u | sed 's/-isystem /--extra-arg=-isystem/')
cudnn=${frontend:+--extra-arg=-isystem$frontend}
headers="--extra-arg=-DLOCKSTEP_LIBRARY_HEADERS=\"/usr/include\""
listener="--extra-arg=-DLOCKSTEP_NVTX_LISTENER=\"$root/$build/programs\""
# shellcheck disable=SC2086,SC2090  # words
printf '%s\n' "$@" | xargs -P "$(nproc)" -n 2 clang-tidy -p "$plain" --quiet "$define" "$programs" "$headers" "$listener" $bench $mpi $cudnn --extra-arg=-Wno-macro-redefined \
  --extra-arg=-isystem"$root/.ci/clang_tidy" --extra-arg=-Wno-unknown-warning-option > "$findings" 2> /dev/null || {
  cat "$findings"
  exit 1
}
