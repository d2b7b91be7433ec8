#!/bin/sh
# A student's week in this clone: exercise 21.2 is broken, then made not to compile, then solved. Each time the student's
# view says exactly that, the other verdicts stand, and the week's suite stays green.
set -eu
answer=labs/week21_data_parallel/ring_all_reduce.cpp
solution=solutions/week21_data_parallel/ring_all_reduce.cpp

fail() {
  echo "students.sh: $1" >&2
  exit 1
}

# verdicts NAME EXPECTED: the student's view of the week says EXPECTED of 21.2, and of 21.1 that nothing is done.
verdicts() {
  echo "-- 21.2 $1"
  if ctest --preset week21 > build/students.log 2>&1; then fail 'exercises that are not done must fail'; fi
  case $2 in
    PASS) seen='mine\.21\.2 .* Passed' ;;
    *) seen="^21\.2 .* $2\$" ;;
  esac
  grep -Eq "$seen" build/students.log || { cat build/students.log; fail "21.2 should be $2"; }
  grep -Eq '^21\.1 .* NOT IMPLEMENTED$' build/students.log || { cat build/students.log; fail '21.1 should stand'; }
  grep '^mine:' build/students.log
}
# green: whatever the answer is, the suite builds, and its tests pass.
green() {
  cmake --build --preset default > build/students.log || { cat build/students.log; fail 'the suite must build'; }
  ctest --preset default -j "$(nproc)" -R '^suite\.(week)?2[1-5]' > build/students.log || { cat build/students.log; fail 'the suite must stay green'; }
}

# timelines: the files that ./lab check --trace draws of one case, one a test.
timelines() { ./lab check 21.2 --trace --ranks 3 --size 7 > build/students.log 2>&1 || true; grep 'timeline: ' build/students.log | sed 's/ (.*//'; }

./lab skeletons --overwrite 21.2 > /dev/null
verdicts 'untouched' 'NOT IMPLEMENTED'

sed 's/r - step - 1, p), incoming/r - step, p), incoming/' $solution > $answer
cmp -s $solution $answer && fail 'nothing was broken'
verdicts 'broken' '(FAIL|MISMATCH|DEADLOCK)'
green
./lab check 21.2 > build/students.log 2>&1 || true
awk '/^21/ { id = $1 } /a hint:/ { hints++; if ($NF != id) wrong = 1 } END { exit wrong || hints == 0 }' build/students.log ||
  { cat build/students.log; fail 'under each explanation should be the hint for what failed'; }

sed 's/return;/return/' $solution > $answer
verdicts 'with a semicolon less' 'DOES NOT COMPILE'
green
[ -z "$(timelines)" ] || fail 'what does not compile has no timeline'
grep -q '^ *exercise 21\.2 does not compile' build/students.log || { cat build/students.log; fail 'that is what should be said first'; }

sed 's/ring_all_gather(Rank me/gather(Rank me/' $solution > $answer
verdicts 'without a function' 'DOES NOT COMPILE'

{ cat $solution; echo 'bool differ(int a, unsigned b) { return a < b; }'; } > $answer
./lab check 21.2 > build/students.log 2>&1 || { cat build/students.log; fail 'an answer with a warning should pass'; }
./lab check 21.2 | grep -q '^  the compiler warns: ring_all_reduce\.cpp:[0-9]*: comparison of .*\[-Wsign-compare\]$' || fail 'the warning should be told, as often as one asks'

cp $solution $answer
verdicts 'solved' PASS

# The question changes, as a pull may change it, while the answer stays; then it changes back.
printf 'int one_function_more() { return 1; }\n' >> $solution
./lab check 21.2 > build/students.log 2>&1 || true
grep -q 'missing definition of one_function_more' build/students.log || { cat build/students.log; fail 'the answer lacks what is asked for now'; }
git checkout -q -- $solution
./lab check 21.2 > build/students.log 2>&1 || { cat build/students.log; fail 'the answer is right again'; }

# The verdict is there at once if nothing has changed. It knows what an answer includes, wherever that is.
./lab check 21.2 | grep -q 'nothing has changed since these tests ran' || fail 'the verdict on 21.2 should be known'
./lab check 21.2 --again | grep -q 'nothing has changed' && fail '--again should run the tests'
touch $answer
./lab check 21.2 | grep -q 'nothing has changed since these tests ran' || fail 'a date is no change'
steps=$PWD/build/steps.hpp
echo '#define STEPS (p - 1)' > "$steps"
sed "s|#include \"common/arithmetic.hpp\"|&\n#include \"$steps\"|; s|step < p - 1|step < STEPS|" $solution > $answer
./lab check 21.2 > build/students.log || { cat build/students.log; fail 'an answer with a header should pass'; }
grep -Eq '^21\.2 .* tests, .*; [0-9]+ of all parts together$' build/students.log || { cat build/students.log; fail 'tests that belong to no part should be told'; }
echo '#define STEPS (p - 2)' > "$steps"
./lab check 21.2 > build/students.log && fail 'the header has changed, and 21.2 with it'
./lab check 25.1 2>&1 | grep -q 'borrowed from the reference: 21.2 (yours: FAIL)' || fail '25.1 should borrow 21.2'
echo '#define STEPS (p - 1)' > "$steps"
./lab check 25.1 2>&1 | grep -q 'borrowed' && fail '21.2 is right again'
cp $solution $answer

# Figures that the handouts compare with a prediction stand below PASS.
./lab check 24.6 --solution | grep -q '^  measured: p = 4: .* from m = 28' || fail 'PASS of 24.6 should print its bubbles'

# The hard skeleton of 22.4, and the answer written on it.
./lab reset --hard 22.4 > /dev/null
./lab check 22.4 > build/students.log 2>&1 || true
grep -Eq '^22\.4 .* NOT IMPLEMENTED$' build/students.log || { cat build/students.log; fail 'the hard skeleton should say what is missing'; }
cp solutions/week22_zero/hard/fsdp.cpp labs/week22_zero/
./lab check 22.4 > build/students.log 2>&1 || { cat build/students.log; fail 'another right answer should pass'; }
git checkout -q -- labs/week22_zero/fsdp.cpp

# Two at a time, with answers that each has to build: neither gets the other's verdicts.
for file in naive_all_reduce halving_doubling; do printf '\n' >> labs/week21_data_parallel/$file.cpp; done
./lab check 21.1 > build/students.one 2>&1 &
./lab check 21.3 > build/students.two 2>&1 || true
wait
grep -q '^21\.1 .* NOT IMPLEMENTED$' build/students.one || { cat build/students.one; fail '21.1 should have its own verdict'; }
grep -q '^21\.3 .* NOT IMPLEMENTED$' build/students.two || { cat build/students.two; fail '21.3 should have its own verdict'; }
git checkout -q -- labs/week21_data_parallel/naive_all_reduce.cpp labs/week21_data_parallel/halving_doubling.cpp

timelines | sort > build/timelines
[ "$(wc -l < build/timelines)" -gt 1 ] && [ -z "$(uniq -d build/timelines)" ] || fail 'each test should have a timeline of its own'

git checkout -q -- $answer
