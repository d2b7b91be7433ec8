#!/bin/sh
# no_build_test.sh LAB SOURCE: what needs no build runs while another process builds, and from a checkout that cannot be
# written.
set -u
lab=$1
source=$2
lock=${lab%/tools/lab}/mine/lock
# shellcheck source=tools/tests/testing.sh
. "$source/tools/tests/testing.sh"
trap 'touch "$folder/done"; wait; rm -rf "$folder"' EXIT
explain='card explain 1 dp=8,tp=1,pp=1,microbatch=1,zero=3'

# They bring up to date what is not.
for command in 'help train' "$explain"; do
  # shellcheck disable=SC2086  # words
  "$lab" $command > "$folder/said" 2>&1 || fail "'$command' should run"
done

# While another process holds the lock.
(
  flock 9
  touch "$folder/locked"
  until [ -e "$folder/done" ]; do sleep 0.1; done
) 9>> "$lock" &
until [ -e "$folder/locked" ]; do sleep 0.05; done
for command in list 'hint 21.2' 'help train' 'scores' 'drill' 'card' '' 'list --help' "$explain"; do
  # shellcheck disable=SC2086  # words
  timeout 60 "$lab" $command > "$folder/said" 2>&1 || fail "'$command' should run while another process builds"
  ! grep -q waiting "$folder/said" || fail "'$command' should wait for nobody"
done
touch "$folder/done"
wait

# shellcheck disable=SC2016  # the inner shell's
only_read='mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && cd / && exec "$@"'
for way in 'unshare -m' 'unshare -rm' ''; do
  [ -n "$way" ] || { echo 'PASS; not tested: a checkout that cannot be written (mounting is not permitted)'; exit 0; }
  $way sh -c "$only_read" "$source" true 2> /dev/null && break
done
read_only() { $way sh -c "$only_read" "$source" "$lab" "$@" > "$folder/said" 2> "$folder/err"; }
for command in list 'hint 21.2' 'scores' 'drill' 'card' '' "$explain" 'card 1'; do
  # shellcheck disable=SC2086
  read_only $command || { cat "$folder/err" >> "$folder/said"; fail "'$command' should run from a checkout that cannot be written"; }
  [ "$(wc -l < "$folder/err")" -le 1 ] || fail "'$command' should complain in one line at most"
done
read_only reveal 21.2 || fail 'an answer that is looked at is shown'
grep -q 'ring_reduce_scatter' "$folder/said" || fail 'an answer that is looked at is shown'
grep -q '^not recorded that 21.2 is revealed: cannot write ' "$folder/err" || fail 'what is not recorded is said'
[ "$(wc -l < "$folder/err")" -eq 1 ] || fail 'in one line'
# A command that has to build, or that writes, is rejected in one line.
mkdir "$folder/ada"
for command in 'check 21.2' 'borrow 21.2' "grade $folder/ada --only 21.1" "handout $folder/new.zip --weeks 21"; do
  # shellcheck disable=SC2086
  read_only $command
  [ $? -eq 2 ] && [ "$(wc -l < "$folder/err")" -eq 1 ] && grep -q 'Read-only' "$folder/err" &&
    grep -q 'copy the repository to a folder of your own\|^cannot write ' "$folder/err" && continue
  cat "$folder/err" >> "$folder/said"
  fail "'$command' should be refused in a line"
done
echo PASS
