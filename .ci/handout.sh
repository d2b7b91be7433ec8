#!/bin/sh
# Makes handouts, and follows what becomes of what students hand in. A handout of each week, and of all, is made from
# this clone, unpacked elsewhere, built and checked: an exercise's skeleton is NOT IMPLEMENTED, its right answer PASSes,
# with what it needs borrowed. Week 21's, from nothing and with more: other answers, GitHub Classroom, training, what is
# not in it. Then three students hand in, and their instructor grades them and makes the class's page.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$PWD
week=week21_data_parallel
out=$work/lockstep # where a student unpacks it

fail() {
  echo "handout.sh: $1" >&2
  [ ! -e "$work/log" ] || tail -n 40 "$work/log" >&2
  exit 1
}
wants() { grep -Eq -- "$1" "$work/log" || fail "$2"; }

# make NAME ARGUMENTS…: $work/NAME.zip
make() {
  name=$1
  shift
  ./lab handout "$work/new/folder/$name.zip" "$@" > "$work/log" 2>&1 || fail "no handout was made: $*"
  mv "$work/new/folder/$name.zip" "$work/"
  rm -r "$work/new"
}
# refused WORDS WHY ARGUMENTS…: ./lab handout makes none, and says WORDS.
refused() {
  words=$1 why=$2
  shift 2
  ! ./lab handout "$work/bad.zip" "$@" > "$work/log" 2>&1 || fail "made, although $why"
  wants "$words" "should say that $why"
  [ ! -e "$work/bad.zip" ] || fail "an archive is left, although $why"
}
# unpack NAME: in place of what is in $out, whose build stays, so that a week compiles what no week before it did.
unpack() {
  mkdir -p "$out"
  find "$out" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
  (cd "$work" && cmake -E tar xf "$1.zip")
  touch "$out/labs/course.json" # else a build of another week that is younger than the archive is not configured again
  (cd "$out" && find . -name '*.md' -exec python3 "$root/.ci/pages.py" {} +) > "$work/log" 2>&1 || fail "links of $1"
}
# solved FOLDER/NAME ID: the skeleton, then the right answer, of an exercise.
solved() {
  ! ./lab check "$2" > "$work/log" 2>&1 || fail "the skeleton of $2 passes"
  wants "^$2 .* NOT IMPLEMENTED\$" "the skeleton of $2 should be NOT IMPLEMENTED"
  cp "$root/solutions/$1.cpp" "labs/$1.cpp"
  ./lab check "$2" > "$work/log" 2>&1 || fail "the right answer to $2 should pass"
  wants "^$2 .* PASS" "the right answer to $2 should be PASS"
}

echo '-- made'
for weeks in 22 25; do make "$weeks" --weeks "$weeks"; done
make 21-25 --weeks 21–25 # with a dash, as texts have it
make 21 --weeks 21 --hints 2
make 23 --weeks 23 --hints 1
make 24 --weeks 24 --hints 0
refused 'the course has no week 20' 'there is no week 20' --weeks 20
# A leak: two lines of 23.5b, in a comment of a page, first not committed and then committed.
sed -n 's/^  \(linear_backward_input(me, dwhole\|me\.wait(gathered)\)/\/\/ \1/p' solutions/week23_tensor_parallel/sequence_parallel.cpp > "$work/lines"
cat "$work/lines" >> docs/use/models.md
refused 'docs/use/models.md differs from its commit' 'a page is not committed' --weeks 21
git -c user.name=x -c user.email=x@x commit -q -m 'A leak' docs/use/models.md
refused 'docs/use/models.md:[0-9]* has lines of the answer to 23\.5b' 'a page has lines of an answer' --weeks 21
git reset -q --soft HEAD~1
git checkout -q HEAD docs/use/models.md

echo '-- what is in it'
unpack 21-25
grep -q '^# Lockstep: weeks 21, 22, 23, 24, 25$' "$out/README.md" || fail 'README.md is not its own'
grep -qF 'labs/week25_3d/*.cpp' "$out/AGENTS.md" || fail 'AGENTS.md does not say whose answers assistants leave alone'
unpack 23
for gone in .git .ci tools/mutants/$week tools/alternatives tools/tests launch/autolab launch/gradescope docs/teach/instructors.md examples labs/week24_pipeline/README.md \
  labs/week24_pipeline/zb_v_test.cpp common/backends/tests HANDOUT.md prebuilt/24.7.o prebuilt/25.3.o solutions/week25_3d/planner.cpp; do
  [ ! -e "$out/$gone" ] || fail "$gone is in it"
done
[ "$(grep '^## Week' "$out/labs/README.md" | cut -c4-10)" = 'Week 23' ] || fail 'labs/README.md lists other weeks'
tests=$(cd "$out" && find tools -name '*_test.*')
[ -z "$tests" ] || fail "tests of the tools are in it: $tests"
(cd "$out" && find solutions -name '*.cpp') > "$work/solutions"
while read -r file; do
  ! cmp -s "$file" "$out/$file" || fail "$file is the reference"
  case $file in */hard/*) ;; *) grep -q 'lab .* begin' "$out/$file" || fail "$file cannot be a skeleton" ;; esac
done < "$work/solutions"
grep -rlF 'Slice outgoing = chunk(data, r - step - 1, p), incoming' "$out" && fail 'the ring is in it'
third='Copy tp.group into a Rank of your own'
grep -qF "$third" labs/course.json || fail 'labs/course.json has no such hint any more: name another here'
grep -rlF "$third" "$out" && fail 'a hint of level 3 is in it'
grep -qF 'Both are the same sum; what differs' "$out/labs/course.json" || fail 'the first hints are not in it'
! grep -rlF 'Draw the arrows first' "$out" || fail 'a hint of another week is in it'
# Pages for students name no command that a handout refuses, but for README.md, which says so.
# shellcheck disable=SC2016  # backquotes that are looked for
(cd "$out" && grep -nE '(^|`)\./lab (test|mutants|reveal|handout|gpu-pack|class)( |`|$)' labs/*/README.md docs/use/commands.md) > "$work/log" &&
  fail 'a page names a command that is not in it'
unpack 24
grep -rqF 'Draw the arrows first' "$out" && fail 'there is a hint in one without'

echo '-- week 21'
unpack 21
cd "$out"
answer=labs/$week/ring_all_reduce.cpp
! ./lab check 21.2 > "$work/log" 2>&1 || fail 'the skeleton passes'
wants '^lockstep: a handout; what you borrow was compiled by' 'whose objects they are'
solved $week/ring_all_reduce 21.2
! grep 'warning:' "$work/log" || fail 'a warning of what was handed out'
# A header of the student's own, and a contract that was changed.
echo 'inline int helper() { return 1; }' > labs/$week/my_helpers.hpp
sed -i "1i #include \"labs/$week/my_helpers.hpp\"" $answer
echo >> labs/$week/ring_all_reduce.hpp
./lab check 21.2 > "$work/log" 2>&1 || fail 'an answer with a header of its own should pass'
wants 'warning: includes my_helpers\.hpp, which is not handed in$' 'what grading does not see'
wants "warning: ring_all_reduce\.hpp differs from the handout's; grading uses the original\$" 'what grading replaces'
rm labs/$week/my_helpers.hpp
cp "$root/labs/$week/ring_all_reduce.hpp" labs/$week/
sed 's/return;/return/' "$root/solutions/$week/ring_all_reduce.cpp" > $answer
! ./lab check 21.2 > "$work/log" 2>&1 || fail 'what does not compile passes'
wants '^21\.2 .* DOES NOT COMPILE' 'a stub should stand in'
solved $week/cost_model 21.5
wants 'borrowed from the reference: .*21\.2' '21.2 should be borrowed'
./lab check 23.1 > "$work/log" 2>&1 || :
wants '^23\.1 .* SKIPPED \(not in this handout\)$' 'week 23 is not in it'
./lab > "$work/log"
! grep -q '^week 2[2-5]' "$work/log" || fail 'weeks that are not in it are counted'
./lab list > "$work/log"
wants '^Weeks 22, 23, 24, 25: not in this handout$' 'which weeks are not in it'
./lab hint 21.2a --level 3 > "$work/log"
wants '^  \(no hint of level 3 in this handout: the highest is 2\)$' 'there is no third hint'

echo '-- graded as by GitHub Classroom: what the workflow runs'
mkdir -p .github/classroom
cp "$root/launch/classroom/grade.sh" .github/classroom/
cp "$root/solutions/$week/naive_all_reduce.cpp" labs/$week/
sed -n 's/^ *run: //p' "$root/launch/classroom/workflow.yml" | sed 's/grade\.sh 21$/grade.sh 21.1,21.2/' > "$work/runs"
grep -q 'grade\.sh 21\.1,21\.2' "$work/runs" || fail 'the workflow grades nothing'
GITHUB_OUTPUT=$work/github sh -e "$work/runs" > "$work/log" 2>&1 || fail 'what the workflow runs'
! grep -q 'not for students' "$work/log" || fail 'the workflow prints the seed'
sed -n 's/^result=//p' "$work/github" | base64 -d > "$work/log"
wants '"status": "fail", "max_score": 30' 'what can be had'
wants '"name": "21.1 [^"]*", "status": "pass", "score": 5' 'the points of 21.1'
wants '"name": "21.2a [^"]*", "status": "fail", "score": 0' 'no points for what does not compile'

echo '-- trained, and what is not there'
./lab train --steps 2 > "$work/log" 2>&1 || fail 'train'
wants '^code: reference' 'whose code was trained with'
./lab train --mine --steps 2 > "$work/log" 2>&1 || fail 'train --mine'
wants '^code: yours: 21\.5; borrowed: .*21\.2' 'whose code it was'
./lab bench compression --ranks 2 --bytes 64KiB > "$work/log" 2>&1 || fail 'a benchmark of week 21, which links 22.11'
for command in 'reveal 21.2' 'mutants 21.2' 'scale --strong' 'plan' 'card 1' 'pipeline' 'test' "handout $work/again.zip --weeks 21"; do
  # shellcheck disable=SC2086  # words
  ! ./lab $command > "$work/log" 2>&1 || fail "$command should be refused"
  wants 'handout' "$command should say why"
done

echo '-- handed in: as README.md says, a folder, and what does not compile'
in=$work/handed-in
mkdir "$in" "$in/bob" "$in/cleo"
cp "$answer" "$in/cleo/"
cp "$root/solutions/$week/ring_all_reduce.cpp" $answer
sh -e -c "$(sed -n '/^cmake -E tar/p' README.md)"
mv answers.zip "$in/anna.zip"
cp "$root/solutions/$week/naive_all_reduce.cpp" "$in/bob/"
cd "$root"
./lab grade "$in"/* --only 21.1,21.2 --out "$work/grades" > "$work/log" 2>&1 || fail 'the class is graded'
grep -q 'were ignored' "$work/log" && fail "the command of README.md packs what is ignored"
for points in '"anna",30,30' '"bob",5,30' '"cleo",0,30'; do
  grep -q "^$points," "$work/grades/summary.csv" || { cat "$work/grades/summary.csv"; fail "the summary should have $points"; }
done
printf 'submission,time\nanna,2026-11-20T12:00Z\nbob,2026-11-22T12:00Z\n' > "$work/times.csv"
./lab class "$work/grades" --deadline 2026-11-20T23:59Z --times "$work/times.csv" --feedback "$work/feedback" > "$work/log" 2>&1 ||
  fail 'the page of the class'
for name in anna bob cleo; do
  grep -q "$name" "$work/grades/class.html" || fail "$name is not on the class's page"
  ls "$work/feedback/$name"* > "$work/log" 2>&1 || fail "$name has no page"
done
grep -q 'does not compile' "$work"/feedback/cleo* || fail "cleo's page should say what is wrong"

echo '-- the other weeks, on what week 21 has compiled'
while read -r number file id borrowed; do
  unpack "$number"
  (cd "$out" && solved "$file" "$id" && wants "$borrowed" "$id should borrow") || exit 1
done <<END
22 week22_zero/hsdp 22.8 borrowed from the reference: .*22\.4
23 week23_tensor_parallel/sequence_parallel 23.5 borrowed from the reference: .*23\.4
24 week24_pipeline/zb_v 24.8 borrowed from the reference: .*24\.5
25 week25_3d/mesh 25.1 borrowed from the reference: .*21\.2.* [(]not in this handout[)]
END

echo '-- elsewhere'
cd "$out"
sed -i '1s/.*/Plan9 mips/' prebuilt/platform.txt
cmake --preset default > "$work/log" 2>&1 || fail 'it should configure where its objects do not fit'
wants "this handout's answers for borrowing are for Plan9 mips" 'what they fit'
wants 'Nothing can be borrowed' 'what follows'
echo PASS
