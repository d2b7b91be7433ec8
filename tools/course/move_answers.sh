#!/bin/sh
# move_answers.sh FOLDER…: answers that were begun before the runtime got its storeys, moved to today's paths and names.
#
# Rewrites what the .cpp files in these folders (labs/, a folder of submissions) include and name, and says which it
# changed; a second time it changes nothing. Given code that has moved to a header since stays in the answer and works,
# but where the header now has a function of the same name: those it names, to be taken out by hand.
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
for name in options_3d phantom_step; do
  printf 's#include "labs/week25_3d/%s.hpp#include "labs/trainer/%s.hpp#\n' "$name" "$name" >> "$rules"
done
echo 's#\<storage_named\>#parse_storage#g' >> "$rules"

# given_now FILE ENDING TEXT WORDS: where FILE ends so and has the text, its functions that a header has now.
given_now() {
  case $1 in *"$2") ;; *) return 0 ;; esac
  ! grep -q "$3" "$1" || echo "by hand: $1: take out $4, which its header gives now"
}

for folder; do
  [ -e "$folder" ] || { echo "move_answers.sh: $folder does not exist" >&2; exit 2; }
  find "$folder" -name '*.cpp' -type f | while read -r file; do
    sed -f "$rules" "$file" > "$rules.new"
    if ! cmp -s "$file" "$rules.new"; then
      cat "$rules.new" > "$file" # in place: owner and mode stay
      echo "moved: $file"
    fi
    given_now "$file" /ddp.cpp '^float shard_weight(' 'shard_weight and bucket_layout'
    given_now "$file" /sequence_parallel.cpp '^void column_forward_rows(' 'whole_rows, column_forward_rows and row_backward_rows'
    given_now "$file" /stages.cpp '^Pipeline make_pipeline(' 'make_pipeline, before and after'
  done
done
