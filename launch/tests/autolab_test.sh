#!/bin/sh
# Tests the last line that Autolab gets for a submission: the points of each exercise, or none where something is wrong.
#   autolab_test.sh SOURCE
set -u
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
fail() {
  echo "FAILED: $1"
  sed 's/^/    /' "$work/out"
  failed=1
}
mkdir -p "$work/suite" "$work/job"
# A ./lab that grades what it is given, as the real one writes it.
cat > "$work/suite/lab" <<'LAB'
#!/bin/sh
echo "$*" > "${0%/*}/asked"
[ "$2" != "${2%good.zip}" ] || exit 2
case $* in *' --hide-seed '*) seed='' ;; *) seed=' (seed 12345, not for students)' ;; esac
echo "14 of 17 points in 3 s: results.json$seed"
while [ "$1" != --out ]; do shift; done
cat > "$2" <<'RESULTS'
{
  "score": 14,
  "tests": [
    {
      "name": "21.1 All",
      "number": "21.1",
      "score": 5,
      "max_score": 5,
      "output": "PASS\n  \"score\": 99,"
    },
    {
      "number": "21.2a",
      "score": 9,
      "max_score": 9
    },
    {
      "number": "21.2",
      "score": 0,
      "max_score": 8
    }
  ]
}
RESULTS
LAB
chmod +x "$work/suite/lab"
printf '21:core\n' > "$work/suite/graded.txt" && echo abc > "$work/suite/commit.txt"
cp "$work/suite/graded.txt" "$work/suite/commit.txt" "$source/launch/autolab/grade.sh" "$work/job/"
# graded LAST: the last line of what Autolab's job prints.
graded() {
  (cd "$work/job" && LOCKSTEP=$work/suite sh grade.sh) > "$work/out" 2>&1 || fail 'the job fails'
  [ "$(tail -n 1 "$work/out")" = "$1" ] || fail "the last line is not $1"
}
graded '{"scores": {}}'
touch "$work/job/good.zip" "$work/job/autograde.tar"
graded '{"scores": {"21.1": 5, "21.2": 9}}'
grep -q '14 of 17 points in 3 s: results.json$' "$work/out" || fail 'the points are not printed, or the seed is'
grep -q -- "grade .*/job/good.zip --only 21:core --hide-seed --out " "$work/suite/asked" || fail 'another submission, or other exercises'
touch "$work/job/more.zip"
graded '{"scores": {}}'
rm "$work/job/good.zip" # what cannot be graded has no points, also where points of another are left
echo '{"number": "21.1",' > "$work/job/results.json"
graded '{"scores": {}}'
mv "$work/job/more.zip" "$work/job/good.zip" && echo def > "$work/suite/commit.txt"
graded '{"scores": {}}'
grep -q 'another version' "$work/out" || fail 'an image of another version is not named'
# An exercise that the course does not have is seen before anything is packed, and the usage is one line.
for pack in autolab gradescope; do
  for what in 21:cor 21.99 99 ring; do
    ! sh "$source/launch/$pack/pack.sh" "$what" "$work/none" > "$work/out" 2>&1 || fail "$pack packs $what"
    grep -q "called '$what'" "$work/out" || fail "$pack does not name $what"
    [ ! -e "$work/none" ] || fail "$pack leaves something of $what"
  done
  ! sh "$source/launch/$pack/pack.sh" > "$work/out" 2>&1 || fail "$pack packs nothing"
  [ "$(wc -l < "$work/out")" = 1 ] || fail "$pack: more than its usage"
done
for what in 21 21:core core 21.2 21.2a 21.1,21.2 ring_all_reduce; do
  sh "$source/launch/graded.sh" "$what" > "$work/out" 2>&1 || fail "$what is not known"
done
# The pack has what the job and its image need.
if [ -d "$source/.git" ]; then
  sh "$source/launch/autolab/pack.sh" 21:core "$work/pack" > "$work/out" 2>&1 || fail 'no pack'
  tar -tf "$work/pack/autograde.tar" | LC_ALL=C sort | tr '\n' ' ' | grep -q '^commit.txt grade.sh graded.txt $' || fail 'autograde.tar'
  for file in setup.sh graded.txt commit.txt lab tools/CMakeLists.txt; do
    tar -tf "$work/pack/image/lockstep.tar" | grep -qx "lockstep/$file" || fail "the image has no $file"
  done
  grep -q 'sh grade.sh' "$work/pack/autograde-Makefile" || fail 'autograde-Makefile'
fi
exit $failed
