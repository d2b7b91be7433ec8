#!/bin/sh
# What students are handed out, from nothing: made from this clone, unpacked elsewhere, configured, checked with an
# untouched skeleton and with right answers, borrowed, trained with; and what is not in it says so. `quick`: only what
# needs no build in it.
#   handout.sh [quick]
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$PWD
week=week21_data_parallel

fail() {
  echo "handout.sh: $1" >&2
  [ ! -e "$work/log" ] || tail -n 40 "$work/log" >&2
  exit 1
}
wants() { grep -Eq -- "$1" "$work/log" || fail "$2"; }

# unpack NAME ARGUMENTS…: a hand-out into $work/NAME/lockstep
unpack() {
  name=$1
  shift
  ./lab handout "$work/$name.zip" "$@" > "$work/log" 2>&1 || fail 'no hand-out was made'
  mkdir "$work/$name"
  (cd "$work/$name" && cmake -E tar xf "../$name.zip")
}

echo '-- what is in it'
unpack two --weeks 21-22 --hints 1
out=$work/two/lockstep
for gone in .git .ci tools/mutants/$week tools/alternatives tools/tests launch/gradescope docs/instructors.md examples labs/week23_tensor_parallel/README.md \
  labs/week23_tensor_parallel/tensor_mlp_test.cpp common/backends/tests; do
  [ ! -e "$out/$gone" ] || fail "$gone is in it"
done
for file in "$root"/solutions/*/*.cpp; do
  name=${file#"$root/solutions/"}
  ! cmp -s "$file" "$out/solutions/$name" || fail "solutions/$name is the reference"
  grep -q 'lab .* begin' "$out/solutions/$name" || fail "solutions/$name cannot be a skeleton"
done
grep -rlF 'Slice outgoing = chunk(data, r - step - 1, p), incoming' "$out" && fail 'the ring is in it'
grep -rlF 'for (int distance = 1; distance < p; distance *= 2) me.exchange' "$out" && fail 'a hint of level 3 is in it'
unpack none --weeks 21 --hints 0
grep -rqF 'Draw the arrows first' "$work/none/lockstep" && fail 'there is a hint in one without'
grep -qF 'Draw the arrows first' "$out/labs/course.json" || fail 'the first hints are not in it'
! ./lab handout "$work/bad.zip" --weeks 20 > "$work/log" 2>&1 || fail 'week 20'
wants 'the course has no week 20' 'why there is none of week 20'
[ ! -e "$work/bad.zip" ] || fail 'a hand-out of no week'
[ "${1:-}" != quick ] || { echo PASS; exit 0; }

echo '-- checked'
cd "$out"
answer=labs/$week/ring_all_reduce.cpp
! ./lab check 21.2 > "$work/log" 2>&1 || fail 'the skeleton passes'
wants '^lockstep: a hand-out; what you borrow was compiled by' 'whose objects they are'
wants '^21\.2 .* NOT IMPLEMENTED$' 'the skeleton should be NOT IMPLEMENTED'
cp "$root/solutions/$week/ring_all_reduce.cpp" $answer
./lab check 21.2 > "$work/log" 2>&1 || fail 'the right answer should pass'
wants '^21\.2 .* PASS' 'the right answer should be PASS'
sed 's/return;/return/' "$root/solutions/$week/ring_all_reduce.cpp" > $answer
! ./lab check 21.2 > "$work/log" 2>&1 || fail 'what does not compile passes'
wants '^21\.2 .* DOES NOT COMPILE' 'a stub should stand in'
cp "$root/solutions/$week/cost_model.cpp" labs/$week/
./lab check 21.5 > "$work/log" 2>&1 || fail '21.5 should pass'
wants 'borrowed from the reference: .*21\.2' '21.2 should be borrowed'

echo '-- graded as by GitHub Classroom: what the workflow runs'
mkdir -p .github/classroom
cp "$root/launch/classroom/grade.sh" .github/classroom/
cp "$root/solutions/$week/naive_all_reduce.cpp" labs/$week/
rm -f "$work/github"
sed -n 's/^ *run: //p' "$root/launch/classroom/workflow.yml" | sed 's/grade\.sh 21$/grade.sh 21.1,21.2/' > "$work/runs"
grep -q 'grade\.sh 21\.1,21\.2' "$work/runs" || fail 'the workflow grades nothing'
GITHUB_OUTPUT=$work/github sh -e "$work/runs" > "$work/log" 2>&1 || fail 'what the workflow runs'
sed -n 's/^result=//p' "$work/github" | base64 -d > "$work/log"
wants '"status": "fail", "max_score": 30' 'what can be had'
wants '"name": "21.1 [^"]*", "status": "pass", "score": 5' 'the points of 21.1'
wants '"name": "21.2a [^"]*", "status": "fail", "score": 0' 'no points for what does not compile'

echo '-- trained, and what is not there'
./lab train --steps 2 > "$work/log" 2>&1 || fail 'train'
wants '^code: reference' 'whose code was trained with'
./lab train --mine --steps 2 > "$work/log" 2>&1 || fail 'train --mine'
wants '^code: yours: none; borrowed: .*21\.2' 'whose code it was'
for command in 'reveal 21.2' 'mutants 21.2' 'scale --strong' "handout $work/again.zip --weeks 21"; do
  # shellcheck disable=SC2086  # words
  ! ./lab $command > "$work/log" 2>&1 || fail "$command should be refused"
  wants 'hand-out' "$command should say why"
done
./lab hint 21.2 --level 3 > "$work/log"
wants '  1\. ' 'the first hint'
grep -q '  2\. ' "$work/log" && fail 'there is a second hint'

echo '-- elsewhere'
cd "$work/none/lockstep"
sed -i '1s/.*/Plan9 mips/' prebuilt/platform.txt
cmake --preset default > "$work/log" 2>&1 || fail 'it should configure where its objects do not fit'
wants "this hand-out's answers for borrowing are for Plan9 mips" 'what they fit'
wants 'Nothing can be borrowed' 'what follows'
echo PASS
