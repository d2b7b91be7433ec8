#!/bin/sh
# What a reference's runs hand over passes in a process that runs nothing in their place. With SUITES, of these: too
# little, too much, or what belongs to other inputs does not.
#   handed_over_test.sh REFERENCE [SUITES]
set -u
reference=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

# judge WANTED FILE WORDS [OPTION…]: judges what is in FILE; WANTED is 0 where all of it is to pass, else 1
judge() {
  wanted=$1 file=$2 words=$3
  shift 3
  "$reference" --outcomes-of "$work/$file" "$@" > "$work/out" 2>&1
  code=$?
  [ $((code > 0)) = "$wanted" ] && grep -q "$words" "$work/out" && return
  echo "FAILED $file $*: exit code $code"
  tail -n 20 "$work/out"
  failures=$((failures + 1))
}

"$reference" --seed 5 --outcomes-to "$work/all" > "$work/out" 2>&1 || { cat "$work/out" && exit 1; }
judge 0 all PASS --seed 5

if [ $# -gt 1 ]; then
  few="--gtest_filter=$2"
  "$reference" --seed 5 "$few" --outcomes-to "$work/few" > "$work/out" 2>&1 || { cat "$work/out" && exit 1; }
  judge 0 few PASS --seed 5 "$few"
  judge 1 few 'the outcome of a run' --seed 6 "$few"
  : > "$work/nothing"
  judge 1 nothing 'no outcome was handed over' --seed 5 "$few"
  head -c $(($(wc -c < "$work/few") - 9)) "$work/few" > "$work/less"
  judge 1 less 'ends too early' --seed 5 "$few"
  cat "$work/few" "$work/few" > "$work/more"
  judge 1 more 'more outcomes were handed over' --seed 5 "$few"
fi

[ $failures -eq 0 ] && echo PASS
exit $((failures > 0))
