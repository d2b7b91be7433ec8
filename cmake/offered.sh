#!/bin/sh
# offered.sh OBJECT OUT: the functions that an object offers to others, its strong global definitions, a line each. OUT
# stays as it is, time included, where it says so already.
set -eu
export LC_ALL=C  # sort, and comm in compile_or_stub.sh, agree
object=$1 out=$2
mkdir -p "$(dirname "$out")"
nm --defined-only --extern-only "$object" > "$out.nm"
awk '$2 ~ /^[TDB]$/ {print $3}' "$out.nm" | sort > "$out.new"
rm -f "$out.nm"
if cmp -s "$out.new" "$out"; then rm -f "$out.new"; else mv "$out.new" "$out"; fi
