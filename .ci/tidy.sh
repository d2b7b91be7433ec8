#!/bin/sh
# tidy.sh BUILD [FILE…]: clang-tidy with the checks of .clang-tidy over the files that BUILD compiles; every finding is an
# error. Only findings are printed.
set -eu
build=$1
shift
# shellcheck disable=SC2046  # one word a file
[ $# -gt 0 ] || set -- $(git ls-files 'common/*.cpp' 'solutions/*.cpp' 'tools/*.cpp' 'labs/trainer/*.cpp' 'labs/*_test.cpp' 'bench/*.cpp')
root=$(pwd)
findings=$(mktemp)
plain=$(mktemp -d)
trap 'rm -rf "$findings" "$plain"' EXIT
# Without the headers that GCC compiled in advance: clang cannot read them, and a file must include what it uses.
sed 's/-Winvalid-pch -include [^ ]*//' "$build/compile_commands.json" > "$plain/compile_commands.json"
# Files that are compiled several at once, or only for GPUs, have no command of their own here and borrow one, which may
# lack these definitions.
define="--extra-arg=-DLOCKSTEP_SOURCE_DIR=\"$root\""
programs="--extra-arg=-DLOCKSTEP_PROGRAMS=\"$root/$build/programs\""
# shellcheck disable=SC2089  # the quotes are part of the definitions
bench="--extra-arg=-DLOCKSTEP_LAUNCH_TWO=\"\" --extra-arg=-DLOCKSTEP_GLOO=\"\""
# MPI's headers, where the build found them.
mpi=$(grep -o -e '-isystem [^ ]*mpi[^ ]*' "$build/compile_commands.json" | sort -u | sed 's/-isystem /--extra-arg=-isystem/')
headers="--extra-arg=-DLOCKSTEP_LIBRARY_HEADERS=\"/usr/include\""
listener="--extra-arg=-DLOCKSTEP_NVTX_LISTENER=\"$root/$build/programs\""
# shellcheck disable=SC2086,SC2090  # words
printf '%s\n' "$@" | xargs -P "$(nproc)" -n 2 clang-tidy -p "$plain" --quiet "$define" "$programs" "$headers" "$listener" $bench $mpi --extra-arg=-Wno-macro-redefined \
  --extra-arg=-isystem"$root/.ci/clang_tidy" --extra-arg=-Wno-unknown-warning-option > "$findings" 2> /dev/null || {
  cat "$findings"
  exit 1
}
