#!/bin/sh
# However a job of several processes ends, it ends soon, says why, returns a code that is not 0, and leaves no process
# behind.
#   mpi_failure_test.sh LAUNCHER PROGRAM [WORDS]     WORDS: what is said of a rank that was killed
launcher=$1
program=$2
killed_says=${3:-}
out=$(mktemp)
copy=$(mktemp -d)/fail_$$ # a name that no other process has
cp "$program" "$copy"
TMPDIR=$(dirname "$copy") # what killed jobs leave is removed with it
export TMPDIR
trap 'rm -rf "$out" "$TMPDIR"' EXIT
failures=0

fail() {
  echo "FAILED $1: $2"
  sed 's/^/    /' "$out"
  failures=$((failures + 1))
}

short=$(basename "$copy" | cut -c1-15) # what the kernel keeps of a program's name

left() { # process ids of the program that still run
  for process in /proc/[0-9]*; do
    read -r name 2>/dev/null <"$process/comm" && [ "$name" = "$short" ] && echo "${process#/proc/}"
  done 2>/dev/null
}

check_gone() {
  tries=0
  while [ -n "$(left)" ]; do
    tries=$((tries + 1))
    [ $tries -gt 30 ] && { fail "$1" "processes are left: $(left)"; return; }
    sleep 0.1
  done
}

expect() { # name, expected code (or "not 0"), words that the output must hold…
  name=$1 code=$2
  shift 2
  if [ "$code" = "not 0" ]; then
    [ "$status" -ne 0 ] || fail "$name" "the exit code is 0"
  else
    [ "$status" -eq "$code" ] || fail "$name" "the exit code is $status, not $code"
  fi
  for word; do grep -q -- "$word" "$out" || fail "$name" "the output does not say '$word'"; done
  check_gone "$name"
}

job() {
  sh "$launcher" -n 4 --timeout 20 "$copy" "$@" >"$out" 2>&1
  status=$?
}

job good
expect good 0 "PASS"

job deadlock
expect deadlock 1 "DEADLOCK" "rank 0 → rank 3 → rank 2 → rank 1 → rank 0" "receive_first" "rank 2: waits at" "4000 bytes"

job throw
expect throw 1 "FAIL" "rank 1 on $(hostname)" "rank 1 has had enough"

job killed
expect killed "not 0" ${killed_says:+"$killed_says"}

job stuck
expect stuck "not 0" "TIMEOUT" "rank 1: runs code of its own" "rank 2: waits at"

# The launcher's own time-out.
sh "$launcher" -n 4 --timeout 1 "$copy" forever >"$out" 2>&1
status=$?
expect "launcher's time-out" 124 "did not end within 1 s"

# Whoever is killed, and however: nothing is left.
for victim in launcher-TERM launcher-KILL mpirun-KILL rank-TERM; do
  sh "$launcher" -n 4 --timeout 20 "$copy" forever >"$out" 2>&1 &
  pid=$!
  tries=0
  while [ "$(left | wc -l)" -lt 4 ] && [ $tries -lt 50 ]; do sleep 0.1; tries=$((tries + 1)); done
  sleep 0.3
  rank=$(left | head -n 1)
  parent=$(sed 's/.*) //' "/proc/$rank/stat" | cut -d' ' -f2)
  case $victim in
    launcher-TERM) kill -TERM $pid ;;
    launcher-KILL) kill -KILL $pid ;;
    mpirun-KILL) kill -KILL "$parent" ;;
    rank-TERM) kill -TERM "$rank" ;;
  esac
  wait $pid
  status=$?
  expect $victim "not 0"
done

[ $failures -eq 0 ] && echo "PASS"
exit $((failures > 0))
