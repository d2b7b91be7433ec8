#!/bin/sh
# ccache_test.sh SOURCE: that ccache has no folder to write to, as on a computer whose homes are read-only, fails no build.
set -eu
command -v ccache > /dev/null || { echo 'SKIPPED: there is no ccache'; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat > "$folder/CMakeLists.txt" << EOF
cmake_minimum_required(VERSION 3.22)
project(one_file CXX)
include($1/cmake/LockstepFlags.cmake)
add_library(one_file OBJECT one_file.cpp)
EOF
echo 'int f() { return 1; }' > "$folder/one_file.cpp"
unset CCACHE_DIR CCACHE_CONFIGPATH XDG_CACHE_HOME XDG_CONFIG_HOME
export HOME=/dev/null # not even root makes a folder in it
{ cmake -S "$folder" -B "$folder/build" -G Ninja && cmake --build "$folder/build"; } > "$folder/said" 2>&1 ||
  { echo 'ccache_test: it should build; it prints:'; cat "$folder/said"; exit 1; } >&2
[ -d "$folder/build/ccache" ] || { echo 'ccache_test: what ccache keeps should be in the build tree' >&2; exit 1; }
