#!/bin/sh
# compile_or_stub.sh ID SKELETON SOLUTION REQUIRED -- COMPILER ARGUMENTS… SOURCE
#
# Stands in front of the compiler for a student's file. If the file compiles and defines what REQUIRED lists, which is
# what the reference's object offers (offered.sh), its warnings stay in OBJECT.warnings, for ./lab check. Else the object
# becomes that of a stub, made from the reference, whose every answer throws DOES NOT COMPILE with the first error in the
# student's file: the exercise loses its own verdict and no other.
set -eu
export LC_ALL=C  # sort and comm agree; the compiler speaks English, for explain
id=$1 skeleton=$2 solution=$3 required=$4
shift 5

object='' previous='' source=''
for argument; do
  [ "$previous" = -o ] && object=$argument
  previous=$argument source=$argument
done
log=$object.log
rm -f "$log" "$object.warnings"

if "$@" 2> "$log"; then
  sh "$(dirname "$0")/offered.sh" "$object" "$object.offered"
  missing=$(comm -23 "$required" "$object.offered" | c++filt)
  rm -f "$object.offered"
  cat "$log" >&2  # warnings
  if [ -z "$missing" ]; then
    mv "$log" "$object.warnings"
    exit 0
  fi
  printf '%s\n' "$missing" | sed "s|^|$source:0: error: missing definition of |" > "$log"
fi

"$skeleton" --stub "$id" "$source" "$log" "$solution" "$object.stub.cpp"
# The same command, with the stub in the place of the source, which CMake puts last.
count=$# position=0
for argument; do
  position=$((position + 1))
  shift
  [ $position = $count ] && argument=$object.stub.cpp
  set -- "$@" "$argument"
done
exec "$@"
