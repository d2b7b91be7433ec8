#!/bin/sh
# The results that a reference's runs and functions hand over pass in a process that calls nothing in their place, where
# each answer is a skeleton. With SUITES, of these: too little, too much, or what belongs to other inputs does not pass.
#   handed_over_test.sh REFERENCE SKELETONS [SUITES…]
set -u
reference=$1 skeletons=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

failed() {
  echo "FAILED $*"
  tail -n 20 "$work/out"
  failures=$((failures + 1))
}

# judge WANTED FILE WORDS [OPTION…]: judges what is in FILE; WANTED is 0 where all of it is to pass, else 1
judge() {
  wanted=$1 file=$2 words=$3
  shift 3
  "$reference" --outcomes-of "$work/$file" "$@" > "$work/out" 2>&1
  code=$?
  [ $((code > 0)) = "$wanted" ] && grep -q "$words" "$work/out" && return
  failed "$file $*: exit code $code"
}

"$reference" --seed 5 --outcomes-to "$work/all" > "$work/out" 2>&1 || { cat "$work/out" && exit 1; }
judge 0 all PASS --seed 5

# A test that calls the answer which it judges is not judged apart from it. What it compares with may be another
# exercise's. Processes of the operating system cannot be handed over; a grade allows none.
"$skeletons" --seed 5 --outcomes-of "$work/all" --gtest_filter=-Lab21_14.* > "$work/out" 2>&1
called=$(awk '/^[0-9]+\.[0-9]+[a-z]? / && !/ (PASS|SKIPPED|BLOCKED BY) / { printf " %s", $1 }' "$work/out")
[ -z "$called" ] || failed "tests of$called call the answer"
grep -q PASS "$work/out" || failed "no skeleton passes"

for suites; do
  few="--gtest_filter=$suites"
  "$reference" --seed 5 "$few" --outcomes-to "$work/few" > "$work/out" 2>&1 || { cat "$work/out" && exit 1; }
  judge 0 few PASS --seed 5 "$few"
  judge 1 few 'the outcome of ' --seed 6 "$few"
  : > "$work/nothing"
  judge 1 nothing 'no outcome was handed over' --seed 5 "$few"
  head -c $(($(wc -c < "$work/few") - 9)) "$work/few" > "$work/less"
  judge 1 less 'ends too early' --seed 5 "$few"
  cat "$work/few" "$work/few" > "$work/more"
  judge 1 more 'more outcomes were handed over' --seed 5 "$few"
  rm "$work/few"
done

[ $failures -eq 0 ] && echo PASS
exit $((failures > 0))
