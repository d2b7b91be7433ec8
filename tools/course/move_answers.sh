#!/bin/sh
# move_answers.sh FOLDER…: answers that were begun before the runtime got its storeys, moved to today's paths and names.
#
# Rewrites what the .cpp files in these folders (labs/, a folder of submissions) include and name, and says which it
# changed; a second time it changes nothing. Answers of exercises whose given code has moved to a header since keep their
# own copy of it, and work.
set -eu
[ $# -gt 0 ] || { sed -n '2s/^# //p' "$0" >&2; exit 2; }

rules=$(mktemp)
trap 'rm -rf "$rules" "$rules.new"' EXIT
# Where headers went: old path, new path.
while read -r before after; do
  [ -z "$before" ] || printf 's#include "common/%s#include "common/%s#\n' "$before" "$after"
done > "$rules" << 'END'
json/ support/json/
text/ support/text/
stats/ support/stats/
host/ support/host/
ledger/ runtime/ledger/
trace/ runtime/trace/
machine/ runtime/machine/
run.hpp runtime/run.hpp
model/ gpt/model/
data/ gpt/data/
pipeline/ gpt/pipeline/
checkpoint/ gpt/checkpoint/
END
for name in options_3d peak_memory phantom_step; do
  printf 's#include "labs/week25_3d/%s.hpp#include "labs/trainer/%s.hpp#\n' "$name" "$name" >> "$rules"
done
echo 's#\<storage_named\>#parse_storage#g' >> "$rules"

for folder; do
  [ -e "$folder" ] || { echo "move_answers.sh: $folder does not exist" >&2; exit 2; }
  find "$folder" -name '*.cpp' -type f | while read -r file; do
    sed -f "$rules" "$file" > "$rules.new"
    cmp -s "$file" "$rules.new" && continue
    cat "$rules.new" > "$file" # in place: owner and mode stay
    echo "moved: $file"
  done
done
