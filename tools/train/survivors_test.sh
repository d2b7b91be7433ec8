#!/bin/sh
# A rank dies, on MPI (25.8): one of four processes is killed, and its memory is gone. Three continue from their own memory,
# and later a fourth joins. The losses are those of a run that nobody disturbed.
#   survivors_test.sh LAUNCHER PROGRAM
set -u
launcher=$1 program=$2 steps=40 rank=1
[ ! -w /dev/shm ] || export TMPDIR=/dev/shm # memory
# shellcheck source=tools/tests/testing.sh
. "$(dirname "$0")/../tests/testing.sh"
name=surv_$$ # that no other process has; the kernel keeps 15 letters
cp "$program" "$folder/$name"
start() { # RANKS LOG STEPS, and options
  ranks=$1 log=$folder/$2.log last=$3
  shift 3
  sh "$launcher" -n "$ranks" --timeout 120 "$folder/$name" --steps "$last" "$@" >"$log" 2>&1
}
rank_process() { # of rank $1: by its environment
  for id in $(running "$name"); do
    tr '\0' '\n' <"/proc/$id/environ" | grep -Eqx "(OMPI_COMM_WORLD_RANK|PMI_RANK)=$1" && echo "$id"
  done 2>/dev/null
}

start 4 whole $steps --folder "$folder/whole" || fail "the undisturbed run"
start 4 killed $steps --folder "$folder/f" --pause 100 &
job=$!
tries=0
until grep -q "^step 11 " "$folder/killed.log" 2>/dev/null; do
  tries=$((tries + 1))
  [ $tries -lt 600 ] || fail "the run does not come to step 11"
  sleep 0.05
done
victim=$(rank_process $rank)
[ -n "$victim" ] && kill -KILL "$victim" || fail "there is no process of rank $rank to kill"
wait $job && fail "a job one of whose processes was killed ends as if nothing had happened"
rm -rf "$folder/f/4-$rank" # its memory
start 3 without 25 --folder "$folder/f" --before 4 --was 0,2,3 || fail "the three that are left do not continue"
grep -Eq '^3 ranks from step (7|10|13|16)$' "$folder/without.log" || fail "they do not continue from a snapshot"
start 4 joined $steps --folder "$folder/f" --before 3 --was 0,-1,1,2 || fail "nobody can join"
for log in without joined; do
  awk -v run="$log" 'NR == FNR { if ($1 == "step") right[$2] = $4; next }
    $1 == "step" { d = $4 - right[$2]; if (d < 0) d = -d; if (d > 1e-5) { print run ": step " $2 ": " $4 ", not " right[$2]; bad = 1 } n++ }
    END { exit bad || n == 0 }' "$folder/whole.log" "$folder/$log.log" || fail "the losses are other ones"
done
grep -qx '4 ranks from step 25' "$folder/joined.log" || fail "the fourth does not join after step 24"
[ "$(tail -n 1 "$folder/joined.log" | cut -d ' ' -f 2)" = $steps ] || fail "the last run is not complete"
echo "PASS: rank $rank of 4 was killed; $(head -n 1 "$folder/without.log"), $(head -n 1 "$folder/joined.log"), with the same losses"
