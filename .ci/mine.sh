#!/bin/sh
# A learner's code in the programs, in this clone: ./lab … --mine. With nothing done the reference is borrowed, and said
# so; a ring that gathers twice shows in a benchmark's bytes; with every answer there a run of three axes is all the
# learner's, to the last bit the reference's. Verdicts that are known are not judged again.
set -eu

fail() {
  echo "mine.sh: $1" >&2
  cat build/mine.log >&2
  exit 1
}
says() { grep -Eq -- "$1" build/mine.log || fail "it should say '$1'"; }
# run ARGUMENTS…: ./lab with them.
run() { ./lab "$@" > build/mine.log 2>&1 || fail "./lab $* should pass"; }
refused() { if ./lab "$@" > build/mine.log 2>&1; then fail "./lab $* should be refused"; fi; }
# field FILE NAME: of the last row of a result.
field() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["rows"][-1][sys.argv[2]])' "$1" "$2"; }
code_of() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["context"]["code"])' "$1"; }

ring='bench all_reduce --ranks 4 --bytes 64KiB --samples 1 --algorithm ring --json build/mine.json'
week21=labs/week21_data_parallel

echo '-- nothing done'
./lab skeletons --overwrite > /dev/null
# shellcheck disable=SC2086  # words
run $ring --mine
says '^code: yours: none; borrowed: .*21\.2.* \(yours: NOT IMPLEMENTED\)$'
[ "$(code_of build/mine.json)" = "$(sed -n 's/^code: //p' build/mine.log)" ] || fail 'the context should say the same'
[ "$(field build/mine.json bytes_sent_per_rank_max)" = 98304 ] || fail 'the ring should send 2·3/4 of 64 KiB'
# shellcheck disable=SC2086
run $ring
says '^code: reference$'
[ "$(code_of build/mine.json)" = reference ] || fail 'without --mine it is the reference'
refused bench simulator --mine
says "runs no exercise's code"
refused train --no-borrow
says 'needs --mine'

echo '-- everything done, the ring wrong'
for file in $(cd solutions && find . -name '*.cpp' -not -path '*/hard/*' -not -path '*/given/*'); do cp "solutions/$file" "labs/$file"; done
sed 's/^  ring_all_gather(me, data);/&\n&/' solutions/week21_data_parallel/ring_all_reduce.cpp > $week21/ring_all_reduce.cpp
# shellcheck disable=SC2086
run $ring --mine --no-borrow
says '^code: yours: all$'
[ "$(field build/mine.json bytes_sent_per_rank_max)" = 147456 ] || fail 'gathering twice should send half as much again'
# shellcheck disable=SC2086
run $ring --mine
says '^code: yours: 21\.1 .*; borrowed: 21\.2 \(yours: FAIL\)$'
[ "$(field build/mine.json bytes_sent_per_rank_max)" = 98304 ] || fail 'a ring that fails should be borrowed'

echo '-- everything done'
cp solutions/week21_data_parallel/ring_all_reduce.cpp $week21/
mesh='--backend mpi --dp 2 --tp 2 --pp 2 --steps 3'
# shellcheck disable=SC2086
run train --mine $mesh --csv build/mine.csv
says '^code: yours: all$'
says '^code      yours: all\. Every pass'
# shellcheck disable=SC2086
run train $mesh --csv build/reference.csv
losses() { cut -d, -f1,2 "$1"; }
[ "$(losses build/mine.csv)" = "$(losses build/reference.csv)" ] || fail 'the losses should be those of the reference'
# shellcheck disable=SC2086
run train --mine $mesh
if grep -q '^checking your' build/mine.log; then fail 'what is known should not be judged again'; fi

echo '-- an answer that is set aside'
./lab borrow 21.2 > build/mine.log
# shellcheck disable=SC2086
run $ring --mine
says '^code: yours: 21\.1 .*; borrowed: 21\.2 \(yours: set aside\)$'
# shellcheck disable=SC2086
run $ring --mine --no-borrow
says '^code: yours: all$'
./lab borrow --back 21.2 > build/mine.log

echo '-- an answer that crashes'
sed 's/^  ring_reduce_scatter(me, data);/&\n  if (data.size() > 9000) *static_cast<volatile int*>(nullptr) = 1;/' \
  solutions/week21_data_parallel/ring_all_reduce.cpp > $week21/ring_all_reduce.cpp
# shellcheck disable=SC2086
refused $ring --mine --no-borrow
says 'killed by signal 11 .*while your code was in it'

echo '-- saved while it is watched'
cp solutions/week21_data_parallel/ring_all_reduce.cpp $week21/
./lab watch ring > build/mine.log 2>&1 &
watch=$!
trap 'kill $watch 2> /dev/null || :' EXIT
lines() { grep -c '^21\.2 ' build/mine.log || :; }
wait_for() { # wait_for COUNT VERDICT
  for _ in $(seq 600); do
    [ "$(lines)" -lt "$1" ] || break
    sleep 0.5
  done
  [ "$(lines)" = "$1" ] || fail "there should be $1 verdicts"
  grep '^21\.2 ' build/mine.log | tail -n 1 | grep -Eq "$2" || fail "the last verdict should be $2"
}
wait_for 1 PASS
sed 's/r - step - 1, p), incoming/r - step, p), incoming/' solutions/week21_data_parallel/ring_all_reduce.cpp > $week21/ring_all_reduce.cpp
wait_for 2 '(FAIL|MISMATCH|DEADLOCK)'
cp solutions/week21_data_parallel/ring_all_reduce.cpp $week21/
wait_for 3 PASS
kill $watch
trap - EXIT

git checkout -q -- labs
