#!/bin/sh
# One job on two hosts of this computer: placement of ranks, traffic over the cable, how jobs end badly, and messages when
# the cable is cut. Exits with 77, and the reason, where launch/two_hosts.sh cannot make hosts.
#   two_hosts_test.sh SOURCE PROGRAM         PROGRAM: mpi_failure_program
source=$1
program=$2
mpirun() { sh "$source/launch/mpirun.sh" --nodes 2 "$@"; }

if [ -z "${3:-}" ]; then
  sh "$source/launch/two_hosts.sh" true || exit
  for rate in 1gbit 1.5mbit; do
    sh "$source/launch/two_hosts.sh" --rate $rate true || { echo "FAILED: --rate $rate"; exit 1; }
  done
  for rate in fast 0 1gbps; do # the last are bytes to tc
    sh "$source/launch/two_hosts.sh" --rate $rate true 2> /dev/null
    [ $? -eq 2 ] || { echo "FAILED: --rate $rate is not refused"; exit 1; }
  done
  exec sh "$source/launch/two_hosts.sh" sh "$0" "$source" "$program" on-host-a
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
fail() {
  echo "FAILED: $*"
  [ ! -s "$work/out" ] || sed 's/^/    /' "$work/out"
  failed=1
}

mpirun -n 4 --timeout 20 hostname > "$work/out" 2>&1 || fail "hostname exits with $?"
[ "$(sort "$work/out" | tr '\n' ' ')" = "host-a host-a host-b host-b " ] || fail "4 ranks on 2 hosts run elsewhere"

# A ring of four ranks crosses the cable once each way: 16 MiB, by the kernel's count of the interface, headers included.
# On a busy computer TCP takes packets that were reordered for lost ones and sends up to a tenth of them again.
sent() { awk '$1 == "eth0:" {printf "%.0f", $10}' /proc/net/dev; }
resent() { awk '$1 == "Tcp:" && $13 ~ /^[0-9]/ {printf "%.0f", $13 * 1514}' /proc/net/snmp; }
before=$(sent)
again=$(resent)
mpirun -n 4 --timeout 40 "$program" good 4194304 > "$work/out" 2>&1 || fail "a ring of 16 MiB exits with $?"
crossed=$(($(sent) - before))
again=$(($(resent) - again))
{ [ $crossed -ge 16777216 ] && [ $((crossed - again)) -le 18000000 ]; } ||
  fail "$crossed bytes left host-a, at most $again of them sent again, not 16777216 and some"

# However a job ends, nothing is left on either host: they share a table of processes.
printf '#!/bin/sh\nexec sh "%s/launch/mpirun.sh" --nodes 2 "$@"\n' "$source" > "$work/over_two.sh"
sh "$source/common/backends/tests/mpi_failure_test.sh" "$work/over_two.sh" "$program" > "$work/out" 2>&1 || fail "bad ends end otherwise"

# A cable that is cut says nothing to either end; the table does.
sh "$source/launch/mpirun.sh" --nodes 2 -n 4 --timeout 80 "$program" forever > "$work/out" 2>&1 &
job=$!
start=$(sent)
crossing() { [ $(($(sent) - start)) -gt 4000000 ]; }
said() { grep -q "rank 3: " "$work/out"; }
until_or_half_a_minute() {
  tries=0
  until "$@" || [ $tries -ge 300 ]; do
    tries=$((tries + 1))
    sleep 0.1
  done
}
until_or_half_a_minute crossing
ip link set eth0 down
until_or_half_a_minute said
kill $job # mpirun itself waits for the lost host until its time is over
wait $job && fail "the exit code of a job that lost a host is 0"
for words in "TIMEOUT: a rank does not answer" "rank 1: waits at" "rank 2: no answer" "rank 3: no answer"; do
  grep -q "$words" "$work/out" || fail "a cut cable: the output does not say '$words'"
done

[ $failed -eq 0 ] && echo "PASS: $crossed bytes crossed the cable where 16777216 were sent"
exit $failed
