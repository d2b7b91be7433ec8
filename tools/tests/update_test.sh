#!/bin/sh
# update_test.sh SOURCE: ./lab update, in a git clone (answers committed and not) and in a handout: answers that were
# begun stay, others become today's skeletons, and an update that fails changes nothing.
set -eu
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "update_test: $*"; [ ! -e "$work/said" ] || cat "$work/said"; exit 1; }
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b GIT_CONFIG_GLOBAL=/dev/null
week=labs/week21_data_parallel

# exercise ID NAME: an entry of the course.
exercise() { printf '{\n"id": "%s",\n"name": "%s"\n},\n' "$1" "$2"; }
# tree FOLDER VERSION EXERCISES…: a course of these "ID=NAME"; skeleton and contract say which version.
tree() {
  folder=$1 version=$2
  shift 2
  mkdir -p "$folder/$week" "$folder/tools/course" "$folder/common"
  cp "$source/tools/course/update.sh" "$source/tools/course/move_answers.sh" "$folder/tools/course/"
  echo "runtime $version" > "$folder/common/runtime.cpp"
  printf '/outputs/\n/build/\n' > "$folder/.gitignore"
  {
    printf '{"weeks": [{\n"folder": "week21_data_parallel",\n"exercises": [\n'
    for each; do
      exercise "${each%%=*}" "${each#*=}"
      echo "// skeleton" > "$folder/$week/${each#*=}.cpp"
      echo "// contract" > "$folder/$week/${each#*=}.hpp"
    done
    echo '{}]}]}'
  } > "$folder/labs/course.json"
}
before() {
  tree "$1" 1 21.1=kept 21.2=renamed 21.3=gone 21.4=contract 21.5=untouched 21.6=names 21.8=planner 21.10=tenth 21.12=twelfth 21.13=last 21.14=gpipe 21.15=bubble
}
after() {
  tree "$1" 2 21.1=kept 21.2=other_name 21.4=contract 21.5=untouched 21.6=names 21.7=new 21.8=planner 21.9=step_time 21.10=tenth 21.11=twelfth 21.12=last 21.14=gpipe 21.15=bubble
  echo "int contract_of_2();" > "$1/$week/contract.hpp"
  echo "// contract, in other words" > "$1/$week/kept.hpp"
  printf 'todo("25.6%s", "x");\n' a b c > "$1/$week/step_time.cpp"
  for name in untouched kept; do echo "// skeleton of 2" > "$1/$week/$name.cpp"; done
}
# 21.12 becomes 21.11, and 21.13 becomes 21.12. What is kept under a number, before and after:
progress_before() {
  printf '2026-11-21 revealed 21.12\n2026-11-22T17:05 begun 21.13\n2026-11-22 solved drill-21\n'
  printf '2026-11-21\t21.13\t21.120\t21.12 of 4 ranks\n'
  printf '{"question": "21.12/1", "guess": 21.12 }\n"id": "21.13b",\n"message": "21.12 ms", "id": "21.1"\n'
}
progress_after() {
  printf '2026-11-21 revealed 21.11\n2026-11-22T17:05 begun 21.12\n2026-11-22 solved drill-21\n'
  printf '2026-11-21\t21.12\t21.120\t21.12 of 4 ranks\n'
  printf '{"question": "21.11/1", "guess": 21.12 }\n"id": "21.12b",\n"message": "21.12 ms", "id": "21.1"\n'
}
progress_of() { # FOLDER: the files
  echo "$1/outputs/course.log" "$1/outputs/scores.log" "$1/outputs/predictions.json" "$1/build/default/mine/verdicts/21.1.json"
}
answer() {
  mkdir -p "$1/outputs" "$1/build/default/mine/verdicts"
  for file in $(progress_of "$1"); do progress_before > "$file"; done
  for number in 12 13; do echo "was 21.$number" > "$1/build/default/mine/verdicts/21.$number.json"; done
  for name in kept renamed gone contract last; do echo "int my_$name();" > "$1/$week/$name.cpp"; done
  printf '// Part a: memory\nint my_memory();\n// Part c: the step\ndouble exposed_data(int);\n' > "$1/$week/planner.cpp"
  printf '\nint my_schedule();\n\n}  // namespace lockstep::week24\n' > "$1/$week/gpipe.cpp"
  printf 'double bubble_of_ideal(int) {\n}\n\nint my_bubble();\n' > "$1/$week/bubble.cpp"
  printf '#include "common/stats/stats.hpp"\nDType t = storage_named("bf16");\n' > "$1/$week/names.cpp"
}
# carried FOLDER: what must be so afterwards, whatever the way.
carried() {
  now=$1/$week
  grep -q my_kept "$now/kept.cpp" || fail "an answer is lost"
  grep -q my_renamed "$now/other_name.cpp" || fail "an answer did not follow its exercise"
  [ ! -e "$now/renamed.cpp" ] || fail "the old file is still there"
  [ ! -e "$now/gone.cpp" ] || fail "an exercise that is gone still has a file"
  grep -q my_contract "$now/contract.cpp" || fail "an answer with a new contract is lost"
  grep -q of_2 "$now/contract.hpp" || fail "the contract is the old one"
  grep -q 'of 2' "$now/untouched.cpp" || fail "an old skeleton stayed"
  [ -e "$now/new.cpp" ] || fail "the new exercise is missing"
  grep -q 'runtime/\|support/stats' "$now/names.cpp" || fail "includes what is not there any more"
  grep -q parse_storage "$now/names.cpp" || fail "an old name stayed"
  grep -q 'runtime 2' "$1/common/runtime.cpp" || fail "the runtime is the old one"
  grep -q '^21.1: kept; its contract is described anew: outputs/updates/.*/21.1.hpp.diff$' "$work/said" || fail "says nothing of 21.1"
  grep -q "^21.2: moved to $week/other_name.cpp$" "$work/said" || fail "says nothing of 21.2"
  grep -q '^21.3: no longer in the course; your answer is outputs/updates/.*/gone.cpp$' "$work/said" || fail "says nothing of 21.3"
  grep -q '^21.4: kept; its contract changed: outputs/updates/.*/21.4.hpp.diff$' "$work/said" || fail "says nothing of 21.4"
  grep -q '^21.6: kept; names of before rewritten$' "$work/said" || fail "says nothing of 21.6"
  grep -q '^21.13: is 21.12 now, and kept$' "$work/said" || fail "says nothing of 21.13"
  grep -q "^21.8: kept; .*; parts of it are in $week/step_time.cpp now$" "$work/said" || fail "says nothing of 21.8"
  grep -q my_memory "$now/planner.cpp" || fail "the first parts of an answer are lost"
  grep -q exposed_data "$now/step_time.cpp" || fail "parts of an answer did not follow their exercise"
  ! grep -q exposed_data "$now/planner.cpp" || fail "parts of an answer are in both files"
  grep -q "^21.15: kept; .*; parts of it are in $week/gpipe.cpp now$" "$work/said" || fail "says nothing of 21.15"
  grep -q '^21.14: kept$' "$work/said" || fail "says another thing of 21.14"
  grep -q my_schedule "$now/gpipe.cpp" || fail "an answer is lost that parts of another came to"
  grep -q bubble_of_ideal "$now/gpipe.cpp" || fail "a part of an answer did not go to another's"
  ! grep -q bubble_of_ideal "$now/bubble.cpp" || fail "a part of an answer is in both files"
  grep -q my_last "$now/last.cpp" || fail "an answer did not follow its number"
  progress_after > "$work/progress"
  for file in $(progress_of "$1"); do diff "$work/progress" "$file" || fail "another $file"; done
  for number in 11 12; do
    grep -qx "was 21.$((number + 1))" "$1/build/default/mine/verdicts/21.$number.json" || fail "verdict of 21.$number"
  done
  [ ! -e "$1/build/default/mine/verdicts/21.13.json" ] || fail "a verdict stayed under its old number"
  grep -q '^3 not begun' "$work/said" || fail "counts what is not begun"
  grep -q my_gone "$1"/outputs/updates/*/answers/$week/gone.cpp || fail "an answer whose exercise is gone is lost"
  grep -q '^+int contract_of_2' "$1"/outputs/updates/*/21.4.hpp.diff || fail "no difference of the contract"
}
commit() { git -C "$1" add -A && git -C "$1" commit -q -m "$2"; }
update() { folder=$1; shift; sh "$folder/tools/course/update.sh" "$folder" "$@" > "$work/said" 2>&1; }

before "$work/origin"
git -C "$work/origin" init -q -b main
commit "$work/origin" 'version 1'
for clone in plain committed conflict changed; do git clone -q "$work/origin" "$work/$clone"; done
rm -rf "$work/origin/$week"
after "$work/origin"
commit "$work/origin" 'version 2'
git -C "$work/origin" tag v2.0
echo 'runtime 3' > "$work/origin/common/runtime.cpp"
commit "$work/origin" 'not a version yet'

answer "$work/plain"
echo mine > "$work/plain/$week/notes.txt"
update "$work/plain" || fail "in a clone"
grep -q mine "$work/plain/$week/notes.txt" || fail "a file of one's own is gone"
carried "$work/plain"
[ "$(git -C "$work/plain" rev-parse HEAD)" = "$(git -C "$work/origin" rev-parse v2.0)" ] || fail "not the newest tag"
update "$work/plain" || fail "a second time"
grep -q '^nothing newer' "$work/said" || fail "updated twice"
grep -q my_kept "$work/plain/$week/kept.cpp" || fail "the second time loses an answer"

answer "$work/committed"
commit "$work/committed" 'my answers'
update "$work/committed" v2.0 || fail "with committed answers"
carried "$work/committed"
[ -z "$(git -C "$work/committed" status --porcelain)" ] || fail "committed answers are left uncommitted"

answer "$work/conflict"
echo 'my own runtime' > "$work/conflict/common/runtime.cpp"
commit "$work/conflict" 'my answers, and more'
mine=$(git -C "$work/conflict" rev-parse HEAD)
! update "$work/conflict" || fail "merged what conflicts"
grep -q 'same lines of: common/runtime.cpp' "$work/said" || fail "does not say what conflicts"
[ "$(git -C "$work/conflict" rev-parse HEAD)" = "$mine" ] || fail "a conflict moves HEAD"
[ -z "$(git -C "$work/conflict" status --porcelain)" ] || fail "a conflict leaves its traces"

answer "$work/changed"
echo 'my own runtime' > "$work/changed/common/runtime.cpp"
! update "$work/changed" || fail "overwrites what is not committed"
grep -q 'commit or undo your changes to these files first: common/runtime.cpp' "$work/said" || fail "does not say what is changed"
grep -q 'my own' "$work/changed/common/runtime.cpp" || fail "overwrote what is not committed"
grep -q my_kept "$work/changed/$week/kept.cpp" || fail "a refusal loses an answer"
! update "$work/changed" v9 || fail "takes a version that is not there"
grep -q 'origin has no v9' "$work/said" || fail "does not say that there is no v9"

# A handout is no clone: it has its skeletons a second time.
before "$work/handed"
mkdir -p "$work/handed/prebuilt/skeletons" "$work/handed/build"
cp -R "$work/handed/$week" "$work/handed/prebuilt/skeletons/"
answer "$work/handed"
mkdir -p "$work/zip/lockstep"
after "$work/zip/lockstep"
(cd "$work/zip" && cmake -E tar cf ../new.zip --format=zip lockstep)
! update "$work/handed" || fail "updates to nothing"
grep -q 'not a git clone' "$work/said" || fail "does not say what a handout needs"
for copy in handed plain; do
  ! update "$work/$copy" nofile.zip || fail "updates to what is not there"
  grep -qx 'update: there is no nofile.zip' "$work/said" || fail "does not say that there is no such file"
done
! update "$work/handed" v2.0 || fail "a handout has no versions"
grep -qx 'update: there is no folder or archive v2.0' "$work/said" || fail "does not say that there is no such folder"
echo mine > "$work/handed/$week/notes.txt"
i=0; while [ $((i += 1)) -le 11 ]; do echo mine > "$work/handed/common/own$i.txt"; done
touch -d 2020-01-01 "$work/handed/tools/course/update.sh" "$work/handed/common/runtime.cpp" "$work/old"
update "$work/handed" "$work/new.zip" || fail "of a handout"
[ -z "$(find "$work/handed/tools/course/update.sh" -newer "$work/old")" ] || fail "what is as it was would be built again"
[ -n "$(find "$work/handed/common/runtime.cpp" -newer "$work/old")" ] || fail "what is new would not be built"
carried "$work/handed"
grep -q '^Not in the new version, and kept in outputs/updates/.*/replaced:$' "$work/said" || fail "does not say where other files are"
grep -qx "    $week/notes.txt" "$work/said" && grep -qx '    common/own11.txt' "$work/said" || fail "does not name a file of one's own"
grep -qx '    and 2 more' "$work/said" || fail "does not count the others"
! grep -q '^    .*renamed' "$work/said" || fail "names an answer twice"
grep -q mine "$work/handed"/outputs/updates/*/replaced/$week/notes.txt || fail "a file of one's own is gone"
[ -d "$work/handed/build" ] || fail "the build is gone"
! update "$work/handed" "$work/said" || fail "takes what is no archive"

# The handout of another week: it lists the exercises of this one, and has only their contracts.
for copy in weeks dropped; do
  before "$work/$copy"
  mkdir -p "$work/$copy/prebuilt/skeletons"
  cp -R "$work/$copy/$week" "$work/$copy/prebuilt/skeletons/"
  answer "$work/$copy"
done
mkdir -p "$work/other/lockstep"
after "$work/other/lockstep"
rm "$work/other/lockstep/$week"/*.cpp
mkdir "$work/other/lockstep/labs/week22_zero"
sed -i 's/^{}]}]}$/{}]},{\n"folder": "week22_zero",\n"exercises": [\n{\n"id": "22.1",\n"name": "later"\n}]}]}/' "$work/other/lockstep/labs/course.json"
echo '// skeleton' > "$work/other/lockstep/labs/week22_zero/later.cpp"
(cd "$work/other" && cmake -E tar cf ../week22.zip --format=zip lockstep)
cp -R "$work/weeks" "$work/weeks.before"
! update "$work/weeks" "$work/week22.zip" || fail "removes a week that nobody asked it to remove"
grep -q "this folder has week 21, and .*/week22.zip only week 22\.$" "$work/said" || fail "does not say which weeks are where"
grep -q 'Ask for a handout of weeks 21, 22, ' "$work/said" || fail "does not say what to ask for"
diff -r "$work/weeks.before" "$work/weeks" || fail "changed something"
update "$work/dropped" --drop-weeks "$work/week22.zip" || fail "does not do what was asked for"
grep -q "^21.1: not in the new handout; your answer is outputs/updates/.*/answers/$week/kept.cpp$" "$work/said" || fail "says nothing of 21.1"
grep -q '^0 not begun' "$work/said" || fail "counts exercises that are gone"
[ ! -e "$work/dropped/$week/kept.cpp" ] || fail "the week is still there"
[ -e "$work/dropped/labs/week22_zero/later.cpp" ] || fail "the other week is not there"
grep -q my_kept "$work/dropped"/outputs/updates/*/answers/$week/kept.cpp || fail "an answer of a week that is gone is lost"
! update "$work/handed" --nosuch || fail "takes an option that there is not"
echo PASS
