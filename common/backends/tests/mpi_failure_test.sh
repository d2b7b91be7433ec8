#!/bin/sh
# Checks that a failing job of several processes ends soon, says why, returns a non-zero code, and leaves no process
# behind. The jobs run side by side, since they mostly wait; each has its own folder and process name.
#   mpi_failure_test.sh LAUNCHER PROGRAM [WORDS]     WORDS: the message about a rank that was killed
launcher=$1
program=$2
killed_says=${3:-}
# shellcheck source=tools/tests/testing.sh
. "$(dirname "$0")/../../../tools/tests/testing.sh"
number=0

fail() {
  echo "FAILED $name: $1"
  sed 's/^/    /' "$out"
  touch "$folder/failed"
}

left() { running "$short"; } # process ids of this job's program

check_gone() { # the kernel may be slow on a loaded computer; a job that was not ended would run for 20 s
  tries=0
  while [ -n "$(left)" ]; do
    tries=$((tries + 1))
    [ $tries -gt 150 ] && { fail "processes are left: $(left)"; return; }
    sleep 0.1
  done
}

expect() { # expected code (or "not 0"), words that the output must contain…
  code=$1
  shift
  if [ "$code" = "not 0" ]; then
    [ "$status" -ne 0 ] || fail "the exit code is 0"
  else
    [ "$status" -eq "$code" ] || fail "the exit code is $status, not $code"
  fi
  for word; do grep -q -- "$word" "$out" || fail "the output does not say '$word'"; done
  check_gone
}

start() { # name, seconds: the job's launcher becomes the process in which this is called
  exec sh "$launcher" -n 4 --timeout "$2" "$copy" "$1" >"$out" 2>&1
}

job() { # name, expected code, words…
  (start "$name" 20)
  status=$?
  expect "$@"
}

its_own_time_out() {
  (start forever 1)
  status=$?
  expect 124 "did not end within 1 s"
}

kill_one() { # whichever process is killed, and by whatever signal, nothing is left
  start forever 20 &
  pid=$!
  tries=0
  while [ "$(left | wc -l)" -lt 4 ] && [ $tries -lt 100 ]; do sleep 0.1; tries=$((tries + 1)); done
  sleep 0.3
  rank=$(left | head -n 1)
  parent=$(sed 's/.*) //' "/proc/$rank/stat" | cut -d' ' -f2)
  case $1 in
    launcher-TERM) kill -TERM $pid ;;
    launcher-KILL) kill -KILL $pid ;;
    mpirun-KILL) kill -KILL "$parent" ;;
    rank-TERM) kill -TERM "$rank" ;;
  esac
  wait $pid
  status=$?
  expect "not 0"
}

beside() { # name, what to do…: in the background
  name=$1
  shift
  number=$((number + 1))
  place=$folder/$number
  out=$place/out
  copy=$place/f$$_$number
  short=$(basename "$copy" | cut -c1-15) # the kernel's truncated program name
  mkdir "$place"
  cp "$program" "$copy"
  # Files that killed jobs leave behind are removed with the folder.
  (TMPDIR=$place; export TMPDIR; "$@"; echo "$name" >>"$folder/done") &
}

cycle="DEADLOCK: 4 ranks wait for each other in a cycle: 0 → 3 → 2 → 1 → 0."
beside good job 0 "PASS"
beside slow job 0 "PASS"
beside deadlock job 1 "$cycle" "receive_first" "rank 2: waits at" "4000 bytes"
beside throw job 1 "FAIL" "rank 1 on $(hostname)" "rank 1 has had enough"
beside killed job "not 0" ${killed_says:+"$killed_says"}
beside stuck job "not 0" "TIMEOUT" "rank 1: runs code of its own" "rank 2: waits at"
beside loops job "not 0" "TIMEOUT" "rank 1: runs code of its own since it began"
case $launcher in
  *mpirun.sh) # this backend counts messages
    beside deadlock job 1 "$cycle" "receives 4000 bytes from rank 3 (rank 3 has not started the send)"
    beside two job "not 0" "DEADLOCK: 2 ranks wait for each other in a cycle: 0 → 1 → 0." "rank 2: runs code of its own since its call at mpi_failure_program.cpp"
    beside emulated job 0 "PASS"
    ;;
esac
beside "launcher's time-out" its_own_time_out
for victim in launcher-TERM launcher-KILL mpirun-KILL rank-TERM; do beside $victim kill_one $victim; done
wait

[ "$(wc -l <"$folder/done")" -eq $number ] || { echo "FAILED: only these came to an end: $(cat "$folder/done")"; exit 1; }
[ -e "$folder/failed" ] && exit 1
echo "PASS"
