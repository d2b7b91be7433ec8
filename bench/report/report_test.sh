#!/bin/sh
# shellcheck disable=SC2016,SC2030,SC2031,SC2034,SC2317 # text of scripts, and names for those that are sourced
# report_test.sh SOURCE: how many steps ./lab report says that it has, how long they take, and that it is never silent; in a
# tree that is made up, with programs and steps of our own. Its clock advances by five seconds whenever somebody looks.
set -eu
source=$1
# shellcheck source=tools/tests/testing.sh
. "$source/tools/tests/testing.sh"
mkdir -p "$folder/bin" "$folder/bench/report" "$folder/bench/plots" "$folder/tools" "$folder/build/default/programs"
cp "$source/bench/report/report.sh" "$source/bench/report/steps.sh" "$folder/bench/report/"
cp "$source/tools/progress.sh" "$folder/tools/"
echo 0 > "$folder/clock"
made_up bin/date "exec 9>> $folder/clock.lock; flock 9; read -r now < $folder/clock; echo \$((now + 5)) > $folder/clock.new; mv $folder/clock.new $folder/clock; echo \$now"
made_up bin/sleep 'exec /bin/sleep 0.01'
made_up bin/nproc 'echo 1' # so that steps run one after the other
made_up bin/cmake 'printf "[1/4] one\n[2/4] two\n[3/4] three\n[4/4] four\n"'
made_up bin/python "echo \"\$*\" >> $folder/ran; case \$* in *page.py*) touch \$3/index.html; echo a remark >&2 ;; esac"
echo 'python='"$folder/bin/python"' plain=$python' > "$folder/bench/plots/find_python.sh"
printf 'build bench_all_reduce_sim: x\nbuild train_mpi: x\n' > "$folder/build/default/build.ninja"
# Ends once five lines have been said of it, or fails; how long that took by the clock is in took.
made_up build/default/programs/slow "echo slow >> $folder/ran
read -r begin < $folder/clock
for try in \$(seq 3000); do
  [ \"\$(grep -c 'a slow one' $folder/said)\" -lt 5 ] || { read -r end < $folder/clock; echo \$((end - begin)) > $folder/took; exit; }
  /bin/sleep 0.01
done
exit 1"
made_up build/default/programs/quick "echo \"\$*\" >> $folder/ran; [ \"\$1\" != fails ]"
cat > "$folder/bench/report/week21.sh" <<'W'
step slow:60 "a slow one" "$programs/slow"
step size_1 "one size" "$programs/quick" "size $(pick 1,2,4 1)"
extra more:300 "more of it" "$programs/quick" more
if has train_mpi; then
  step processes:30 "of processes" "$programs/quick" processes
else
  say "no MPI"
fi
W
cat > "$folder/bench/report/week22.sh" <<'W'
step later_1 "of a program that a handout lacks" mpi 2 "$programs/later" 1
step later_2 "the same" "$programs/later" 2
step other "of another week" "$programs/quick" other
W

# report CODE ARGUMENTS…: it must end with that exit code. What it said is in said, what ran in ran.
report() {
  code=$1
  shift
  rm -f "$folder/ran"
  status=0
  env PATH="$folder/bin:$PATH" sh "$folder/bench/report/report.sh" --output "$folder/out" "$@" > "$folder/said" 2>&1 || status=$?
  [ "$status" -eq "$code" ] || fail "the exit code is $status, not $code"
}
ran() { # ran WHAT…: these, in this order, and no others; then the figures and the page
  printf '%s\n' "$@" > "$folder/expected"
  sed '/figures.py\|page.py/d' "$folder/ran" | diff "$folder/expected" - > /dev/null || fail "it should run '$*', not '$(cat "$folder/ran")'"
  [ "$(grep -c 'figures.py\|page.py' "$folder/ran")" -eq 2 ] || fail "it should draw and write the page"
}

minutes() { sed -n 's/.*a slow one, about \([0-9]*\) min left$/\1/p' "$folder/said" | head -n 1; }

# The default: four steps of a week and another, then figures and page. The slow one is told of while it runs.
report 0
ran slow 'size 1' processes other
[ "$(grep -c 's  later is not in this build: what it measures is left out$' "$folder/said")" -eq 1 ] || fail "what is left out is said once"
says "^building the report's programs \[[24]/4\]"
says '^\[1/6\] a slow one, about [2-9] min left$'
short=$(minutes)
[ "$(cat "$folder/took")" -le 60 ] || fail "five lines of the slow step, and the end of it, in $(cat "$folder/took") s: it was silent for more than 10"
says 'wrote out/index.html'
says '^a remark$'
[ ! -e "$folder/out/doing" ] || fail 'nothing runs any more'

# --full: all of it, and that takes longer; the page is told.
report 0 --full
ran slow 'size 1,2,4' more processes other
says '^\[1/7\] a slow one, about '
[ "$(minutes)" -ge $((short + 5)) ] || fail 'five more minutes should be left than in the default'
grep -q 'page.py.*--full' "$folder/ran" || fail 'the page should know that it is the long one'

# One week; without MPI there are fewer steps.
echo 'build bench_all_reduce_sim: x' > "$folder/build/default/build.ninja"
report 0 --week 21
ran slow 'size 1'
says '^\[1/4\] a slow one, about [0-9]* [a-z]* left$'
[ "$(grep -c 'no MPI' "$folder/said")" -eq 1 ] || fail 'it should say once that there is no MPI'

# A step that fails is named, costs itself alone, and the end is not good.
echo 'step other "of another week" "$programs/quick" fails; step last "the last" "$programs/quick" last' > "$folder/bench/report/week22.sh"
report 1 --week 22
ran fails last
says 'of another week failed'
says '1 step failed; its log is in out/data'
[ -s "$folder/out/data/other.failed" ] || fail 'the page should learn of it'

# Two that measure nothing run at the same time: each waits for the other. Measurements begin once both have ended.
made_up build/default/programs/meets "touch $folder/met.\$1 $folder/busy.\$1
for try in \$(seq 3000); do
  [ ! -e $folder/met.\$2 ] || { /bin/sleep 0.2; rm $folder/busy.\$1; exit; }
  /bin/sleep 0.01
done
exit 1"
made_up build/default/programs/measures "! ls $folder/busy.* 2> /dev/null; echo measures >> $folder/ran"
made_up bin/nproc 'echo 2'
cat > "$folder/bench/report/week22.sh" <<'W'
step one "one of two" "$programs/meets" a b
step other "the other" "$programs/meets" b a
step measures "a measurement" alone "$programs/measures"
step fails "one that fails beside another" "$programs/quick" fails
step last "the last" "$programs/quick" last
W
report 1 --week 22
says 'one that fails beside another failed'
says '1 step failed; its log is in out/data'
[ "$(ls "$folder"/out/data/*.failed)" = "$folder/out/data/fails.failed" ] || fail "these failed: $(ls "$folder"/out/data/*.failed)"

for bad in "--run $folder/out --price two" "--run $folder/out --price" '--price 2.50'; do
  # shellcheck disable=SC2086
  report 2 $bad
  says '^report: --price'
done

# The suite's own steps, with programs that do nothing. Each week runs by itself; steps that only --full runs are named to the page;
# and by the costs that are written next to the steps the default takes at most four minutes.
cp "$source"/bench/report/week2*.sh "$folder/bench/report/"
mkdir -p "$folder/launch"
made_up launch/mpirun.sh 'while [ $# -gt 0 ]; do case $1 in -n | --timeout) shift 2 ;; *) exec "$@" ;; esac; done'
sed -n 's/.*for target in//p; /^  bench_schedule/p' "$source/bench/report/report.sh" | tr -cs 'a-z_\n' '\n' | grep -v '^do$' | while read -r target; do
  for backend in sim mpi; do
    echo "build ${target}_$backend: x" >> "$folder/build/default/build.ninja"
    made_up "build/default/programs/${target}_$backend" "echo ${target}_$backend >> $folder/ran"
  done
done
echo 'build why: x' >> "$folder/build/default/build.ninja"
made_up build/default/programs/why "echo why >> $folder/ran"
steps=0 short_steps=0
for week in 21 22 23 24 25; do
  report 0 --full --week $week
  all=$(grep -vc '\.py' "$folder/ran")
  [ -z "$(find "$folder/out/data" -name '*.later')" ] || fail "week $week: --full leaves nothing out"
  report 0 --week $week
  few=$(grep -vc '\.py' "$folder/ran")
  [ $((few + $(find "$folder/out/data" -name '*.later' | wc -l))) -eq "$all" ] || fail "week $week: $few of $all steps ran, and the page learns of others"
  [ "$few" -gt 3 ] || fail "week $week: there should be something to see"
  steps=$((steps + all)) short_steps=$((short_steps + few))
done
[ "$short_steps" -lt "$steps" ] || fail 'the default should have fewer steps'
cost() { # cost FULL: tenths of seconds of all steps
  (
    set +e
    # shellcheck source=bench/report/steps.sh
    . "$source/bench/report/steps.sh"
    full=$1 counting=yes data=$folder/out/data out=$folder/out programs=$folder/build/default/programs training=''
    has() { :; }
    say() { :; }
    for week in "$source"/bench/report/week2*.sh; do
      # shellcheck source=/dev/null
      . "$week" 2> /dev/null
    done
    echo "$work"
  )
}
short=$(cost '')
[ "$short" -le 1500 ] || fail "the default costs $short tenths of seconds; the build, figures and page come on top"
[ "$(cost --full)" -gt "$short" ] || fail 'more steps should cost more'

# The time left, by itself: what the costs say; slower as soon as the clock has shown it; and less as a step advances.
left() { # left BEGAN AT FINISHED COST NOW: of 4 minutes in all
  (
    # shellcheck source=bench/report/steps.sh
    . "$source/bench/report/steps.sh"
    began=$1 at=$2 finished=$3 cost=$4 work=2400
    time_left "$5"
  )
}
is() { [ "$1" = "$2" ] || { echo "report_test: '$1' left, not '$2'" >&2; exit 1; }; }
is "$(left 0 0 0 600 0)" 'about 4 min left'
is "$(left 0 60 600 600 60)" 'about 3 min left'
is "$(left 0 120 600 600 120)" 'about 5 min left'  # half as fast as it should be
is "$(left 0 180 1800 600 180)" 'about 70 s left'
is "$(left 0 180 1800 600 210)" 'about 40 s left'
is "$(left 0 180 1800 600 500)" 'about 10 s left'  # longer than it should take
