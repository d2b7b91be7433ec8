#!/bin/sh
# Kills random ranks of a training run at random moments, resumes it each time, and compares its last checkpoint with
# that of a run that nobody disturbed: every byte. Where the run ends before all kills are done, it begins anew. Then an
# interrupt: the launcher gets SIGTERM, and the ranks save before they end.
#   kill_test.sh LAUNCHER TRAIN RANKS KILLS SEED [OPTION…]      options of ./lab train, for both runs
set -u
launcher=$1 program=$2 ranks=$3 kills=$4 seed=$5
shift 5
# shellcheck source=tools/tests/testing.sh
. "$(dirname "$0")/../tests/testing.sh"
name=train_$$ # that no other process has; the kernel keeps 15 letters
cp "$program" "$folder/$name"
# A little text, so that a run starts quickly.
head -c 50000 "$(dirname "$0")/../../data/austen.txt" >"$folder/text"

steps=$((kills * 60 + 100))
last=$(printf 'step-%08d' $steps)
exec= # "exec": the launcher takes the place of the shell that calls it
train() { # DIRECTORY, and what else
  directory=$1
  shift
  $exec sh "$launcher" -n "$ranks" --timeout 120 --grace 60 "$folder/$name" --data "$folder/text" --model tiny --layers 1 --batch 8 \
    --sequence 16 --steps $steps --log-every $steps --validate-every $steps --sample 0 --checkpoint-every 5 \
    --checkpoint "$folder/$directory" "$@"
}
resume() { # only where something was saved
  if ls -d "$folder/disturbed"/step-*[0-9] >/dev/null 2>&1; then
    train disturbed --resume "$folder/disturbed" "$@"
  else
    train disturbed "$@"
  fi
}
until_none() {
  tries=0
  while [ -n "$(running "$name")" ]; do
    tries=$((tries + 1))
    [ $tries -gt 100 ] && fail "ranks outlive a job of which one was killed: $(running "$name")"
    sleep 0.05
  done
}
compare() {
  diff -r "$folder/whole/$last" "$folder/disturbed/$last" >>"$folder/said" 2>&1 ||
    fail "the disturbed run ends with other bytes than the undisturbed one"
  rounds=$((rounds + 1))
  rm -rf "$folder/disturbed"
}

begin=$(date +%s.%N)
train whole "$@" >"$folder/said" 2>&1 || fail "the undisturbed run"
end=$(date +%s.%N)

# When, in seconds after the ranks are there, and which of them: within what the undisturbed run took, or sooner where
# many kills should meet one run. A run that is over before its moment counts as a round, and the next attempt has
# another moment.
awk -v seed="$seed" -v kills="$kills" -v ranks="$ranks" -v lasts="$(echo "$begin $end" | awk '{ print $2 - $1 }')" 'BEGIN {
  srand(seed)
  if (kills > 6) lasts *= 6 / kills
  for (i = 0; i < 30 * kills; i++) printf "%.3f %d\n", rand() * lasts, 1 + int(rand() * ranks)
}' >"$folder/plan"
done=0 in_training=0 rounds=0
while [ $done -lt "$kills" ] && read -r seconds which; do
  killed=
  resume "$@" >"$folder/said" 2>&1 &
  job=$!
  tries=0
  while [ "$(running "$name" | wc -l)" -lt "$ranks" ] && [ $tries -lt 200 ]; do
    sleep 0.02
    tries=$((tries + 1))
  done
  sleep "$seconds"
  victim=$(running "$name" | sed -n "${which}p")
  if [ -n "$victim" ] && kill -KILL "$victim" 2>/dev/null; then killed=yes; fi
  wait $job
  status=$?
  until_none
  grep -q 'trying the checkpoint before' "$folder/said" && fail "a kill damaged a checkpoint"
  if [ -d "$folder/disturbed/$last" ]; then # the run was over; a rank may have been killed while it exited
    compare
  elif [ -z "$killed" ]; then
    fail "the run ended with $status, though nobody was killed"
  fi
  [ -n "$killed" ] || continue
  done=$((done + 1))
  grep -q '^step ' "$folder/said" && in_training=$((in_training + 1))
  echo "kill $done, process $which after $seconds s: leaves $(ls "$folder/disturbed" 2>/dev/null | tr '\n' ' ')"
done <"$folder/plan"
[ $done -eq "$kills" ] || fail "only $done of $kills kills met a process"
if [ -d "$folder/disturbed" ] || [ $rounds -eq 0 ]; then
  resume "$@" >"$folder/said" 2>&1 || fail "the last part of the disturbed run"
  compare
fi
[ $in_training -gt 0 ] || fail "no kill came while the run was training"

tries=0 status=0
while [ $status -eq 0 ]; do # 0: the run was over before the signal came
  tries=$((tries + 1))
  [ $tries -le 10 ] || fail "no interrupt came before the run was over"
  rm -rf "$folder/disturbed"
  : >"$folder/said"
  exec=exec
  resume "$@" >"$folder/said" 2>&1 &
  job=$!
  exec=
  until grep -q '^step ' "$folder/said" || ! kill -0 $job 2>/dev/null; do sleep 0.02; done
  kill -TERM $job 2>/dev/null
  wait $job
  status=$?
  until_none
done
[ $status -eq 143 ] || fail "an interrupted run ends with $status"
saved=$(sed -n 's/^stopped   by an interrupt after step \([0-9]*\) of .*/\1/p' "$folder/said")
[ -d "$folder/disturbed/$(printf 'step-%08d' "${saved:-0}")" ] || fail "an interrupted run did not save"
resume "$@" >"$folder/said" 2>&1 || fail "the rest of the interrupted run"
compare
echo "PASS: $done kills, $in_training of them after the first step, and an interrupt at step $saved; $rounds disturbed runs of $steps steps end with the same checkpoint, byte for byte"
