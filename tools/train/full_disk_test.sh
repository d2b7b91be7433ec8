#!/bin/sh
# A real disk that is really full: room for two checkpoints, of which a third never fits. The run continues or stops as
# asked, what was saved stays whole, and from it a run elsewhere ends as if nothing had happened.
#   full_disk_test.sh LAUNCHER TRAIN        exit code 77 where nobody may mount a file system in memory
set -u
if [ "${3:-}" != mounted ]; then
  unshare --mount true 2>/dev/null || { echo "SKIPPED: no file system may be mounted here"; exit 77; }
  exec unshare --mount sh "$0" "$1" "$2" mounted
fi
launcher=$1 program=$2
# shellcheck source=tools/tests/testing.sh
. "$(dirname "$0")/../tests/testing.sh"
trap 'umount "$folder/small" 2>/dev/null; rm -rf "$folder"' EXIT
mkdir "$folder/small"
# A checkpoint of this model is 68,480 parameters × 12 bytes and a manifest: 830 kB.
mount -t tmpfs -o size=2M tmpfs "$folder/small" || { echo "SKIPPED: no file system may be mounted here"; exit 77; }
head -c 50000 "$(dirname "$0")/../../data/austen.txt" >"$folder/text"

train() {
  sh "$launcher" -n 2 --timeout 60 "$program" --data "$folder/text" --model tiny --layers 1 --batch 8 --sequence 16 \
    --steps 40 --sample 0 "$@" >"$folder/said" 2>&1
}

train --checkpoint "$folder/whole" || fail "the undisturbed run"

train --checkpoint "$folder/small/a" --checkpoint-every 10 --on-save-error continue && fail "the exit code is 0, though the end was not saved"
says "step 30 was not written: .*No space left on device; the run continues"
says "^step *40/40"
[ "$(ls "$folder/small/a" | tr '\n' ' ')" = "step-00000010 step-00000020 " ] || fail "there is $(ls "$folder/small/a")"
train --resume "$folder/small/a" --checkpoint "$folder/rest" || fail "the run from what was saved"
diff -r "$folder/whole" "$folder/rest" || fail "the run from what was saved ends with other bytes"

rm -r "$folder/small/a"
train --checkpoint "$folder/small/b" --checkpoint-every 10 --on-save-error stop && fail "the exit code is 0, though the run was to stop"
says "step 30 was not written: .*No space left on device"
grep -q "^step *40/40" "$folder/said" && fail "the run did not stop"
train --resume "$folder/small/b" || fail "the run from what was saved before it stopped"
echo PASS
