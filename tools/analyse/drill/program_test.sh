#!/bin/sh
# program_test.sh DRILL WHY: a drill from its first run to its explanation, by the commands that a handout names.
set -eu
drill=$1 why=$2
# shellcheck source=tools/tests/testing.sh
. "$(dirname "$0")/../../tests/testing.sh"

# ends_with CODE COMMAND…: what it said is in said.
ends_with() {
  code=$1 status=0
  shift
  "$@" > "$folder/said" 2>&1 || status=$?
  [ "$status" -eq "$code" ] || fail "$*: the exit code is $status, not $code"
}
answer() { printf 'kind: %s\nrank: %s\noperation: %s\nevidence: %s\n' "$@" > "$folder/answer.txt"; }
check() { ends_with "$1" "$drill" check 21 --seed 0 --answer "$folder/answer.txt"; }

# Seed 0 has the first kind of the form, a straggler.
ends_with 0 "$drill" run 21 --seed 0 --out "$folder"
says 'step 5/5'
if grep -q straggler "$folder/said"; then fail 'the run should not say what is wrong with it'; fi
for file in output.txt steps.csv ranks.csv collectives.csv trace.json good/output.txt good/trace.json answer.txt; do
  [ -s "$folder/$file" ] || fail "$file is missing"
done

check 1
says '^kind *empty'
ends_with 0 "$why" why "$folder/trace.json"
slow=$(sed -n 's/.* and rank \([0-9]*\) computes for .*/\1/p' "$folder/said")
seconds=$(sed -n 's/.* computes for \([^,]*\) per step.*/\1/p' "$folder/said")
ends_with 0 "$why" diff "$folder/good/trace.json" "$folder/trace.json"
operation=$(sed -n 's/.*arithmetic: \([a-z_]*\), .*/\1/p' "$folder/said" | head -n 1)

answer straggler $(((slow + 1) % 4)) "$operation" "$seconds"
check 1
says '^kind *right'
says '^rank *wrong'
if grep -q "Solved\|rank $slow" "$folder/said"; then fail 'a wrong answer reveals nothing'; fi
answer slow-loader "$slow" data "$seconds"
check 1
says '^operation *not checked'
answer straggler "$slow" "$operation" "$seconds"
check 0
says '^Solved: straggler'
says "^Fault: $operation took .* times as long on rank $slow"
says 'nccl'

# An answer that was filled in stays, whatever runs again.
ends_with 0 "$drill" run 21 --seed 0 --out "$folder"
check 0

ends_with 2 "$drill" run 20 --seed 0 --out "$folder"
says "there is no drill '20'"
echo 'kinds: all' > "$folder/answer.txt"
check 2
