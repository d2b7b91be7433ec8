#!/bin/sh
# compile_or_stub.sh ID SKELETON SOLUTION REQUIRED -- COMPILER ARGUMENTS… SOURCE
#
# Stands in front of the compiler for a student's file. If the file compiles and defines what REQUIRED lists, which is
# what the reference's object offers (offered.sh), its warnings stay in OBJECT.warnings, for ./lab check. Else the object
# becomes that of a stub, made from the reference, whose every answer throws DOES NOT COMPILE with the first error in the
# student's file: the exercise loses its own verdict and no other.
#
# The object is as old as the beginning of the compilation, so that a file saved meanwhile is compiled by the next build.
# A stub depends on what the student's file includes, so that an error in a header ends once the header is fixed.
set -eu
export LC_ALL=C  # sort and comm agree; the compiler speaks English, for explain
id=$1 skeleton=$2 solution=$3 required=$4
shift 5

object='' depends='' previous='' source=''
for argument; do
  [ "$previous" = -o ] && object=$argument
  [ "$previous" = -MF ] && depends=$argument
  previous=$argument source=$argument
done
log=$object.log begun=$object.begun
rm -f "$log" "$object.warnings"
: > "$begun"
trap 'rm -f "$begun" "$object.includes"' EXIT

if [ ! -e "$source" ]; then
  echo "$source:0: error: the file is missing" > "$log"
elif "$@" 2> "$log"; then
  sh "$(dirname "$0")/offered.sh" "$object" "$object.offered"
  missing=$(comm -23 "$required" "$object.offered" | c++filt)
  rm -f "$object.offered"
  cat "$log" >&2  # warnings
  if [ -z "$missing" ]; then
    mv "$log" "$object.warnings"
    touch -r "$begun" "$object"
    exit 0
  fi
  printf '%s\n' "$missing" | sed "s|^|$source:0: error: missing definition of |" > "$log"
fi

"$skeleton" --stub "$id" "$source" "$log" "$solution" "$object.stub.cpp"
# Lists the files that the student's file includes, and with -MG also missing ones.
includes() (
  count=$#
  while [ "$count" -gt 0 ]; do
    case $1 in
      -MD | -c) ;;
      -MT | -MF | -o) shift; count=$((count - 1)) ;;
      *) set -- "$@" "$1" ;;
    esac
    shift
    count=$((count - 1))
  done
  "$@" -M -MG -MT "$object" 2> /dev/null | sed '1s/^[^:]*://'
)
includes "$@" > "$object.includes"

# The same command, with the stub in the place of the source, which CMake puts last.
count=$# position=0
for argument; do
  position=$((position + 1))
  shift
  [ $position = $count ] && argument=$object.stub.cpp
  set -- "$@" "$argument"
done
touch -r "$begun" "$object.stub.cpp"
"$@"
sed '$s/$/ \\/' "$depends" | cat - "$object.includes" > "$object.depends" && mv "$object.depends" "$depends"
touch -r "$begun" "$object"
