# Shared by the tests of ./lab grade; sourced with `lab` (the program), `source` (the repository) and `work` (a folder).
# shellcheck shell=sh disable=SC2154  # lab, source and work are the test's
week=week21_data_parallel
failures=0

fail() {
  echo "FAILED $1"
  sed 's/^/    /' "$work/out" "$work/results.json"
  failures=$((failures + 1))
}

# grade NAME ARGUMENTS…: its report in $work/out, with results.json and junit.xml
grade() {
  name=$1
  shift
  "$lab" grade "$@" --out "$work/results.json" --junit "$work/junit.xml" > "$work/out" 2>&1 || fail "$name: exit code $?"
  # The words that a student reads do not say where things lie on the grader's computer.
  for place in "$source" "$work" "${TMPDIR:-/tmp}/"; do
    grep -qF -- "$place" "$work/results.json" "$work/junit.xml" && fail "$name: the results name $place"
  done
}
# row ID POINTS/MOST VERDICT: what the report says of it
row() { grep -Eq "^$1 .* $2 +$3\$" "$work/out" || fail "$name: wanted $1 $2 $3"; }
# says WORDS…: in results.json, as a reason
says() {
  for words; do grep -q -- "$words" "$work/results.json" || fail "$name: results.json does not say '$words'"; done
}

# answer FOLDER NAME: standard input is the file
answer() {
  mkdir -p "$work/$1/$week"
  cat > "$work/$1/$week/$2.cpp"
}
reference() { cat "$source/solutions/$week/$1.cpp"; }
