#!/bin/sh
# move_answers.sh FOLDER…: answers that were begun with paths and names of before, moved to today's.
#
# Rewrites what the .cpp files in these folders (labs/, a folder of submissions) include and name, and the number of
# their exercise, and says which it changed; a second time it changes nothing. Given code that has moved to a header
# since stays in the answer and works, but where the header now has a function of the same name: those it names, to be
# taken out by hand.
set -eu
[ $# -gt 0 ] || { sed -n '2s/^# //p' "$0" >&2; exit 2; }

rules=$(mktemp)
trap 'rm -f "$rules" "$rules".*' EXIT
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
echo 's#labs/week22_zero/visits\.hpp#labs/week22_zero/usage_order.hpp#' >> "$rules"
# Names that answers use: old name, new name.
words() { sed 's/\(.*\) \(.*\)/s#\\<\1\\>#\2#g/'; }
words >> "$rules" << 'END'
storage_named parse_storage
gpt_visits gpt_usage_order
Visits UsageOrder
BeforeVisit BeforePiece
LendGradient BindGradient
LendTensor BindTensor
END
# Members that 22.3 and 22.4 are given; in other answers these words may be anybody's.
words > "$rules.week22" << 'END'
held_ unsharded_
lent bound
lend bind
lend_ bind_
lend_unit bind_unit
take_back unbind_unit
visits_ pieces_
visits usage_order
visit piece
END

# Numbers of exercises: file, old and new. They are in the answer's comments, and in what it says is not done yet.
numbers() {
  while read -r name before after; do
    case $1 in */"$name".cpp) sed -i "s#\\([Ee]xercise \\|todo(\"\\)${before%.*}\\.${before#*.}#\\1$after#g" "$2" ;; esac
  done << 'END'
save_interval 25.6 25.5
END
}

# table_first FILE NEW: 25.2 has begun with its table since: a skeleton of it, and the other parts are a letter further on.
table_first() {
  case $1 in */step_3d.cpp) ;; *) return 0 ;; esac
  if grep -q 'on_axes(' "$2" || ! grep -q '^void accumulate_gradients(' "$2"; then return 0; fi
  sed -i 's/todo("25\.2c"/todo("25.2d"/; s/todo("25\.2b"/todo("25.2c"/; s/todo("25\.2a"/todo("25.2b"/
    /^void accumulate_gradients(/i OnAxes on_axes(Gradient gradient) {\n  using enum Has;\n  todo("25.2a", "for each gradient {what it is on tp, on pp, on dp}; there is none without a partial");\n}\n' "$2"
}

# in_two FILE NEW: 25.3's parts c and d are 25.6 since, in a file beside it. What stands above part a is for both files:
# includes, and a learner's own helpers.
in_two() {
  case $1 in */planner.cpp) ;; *) return 0 ;; esac
  grep -q '^double exposed_data(' "$2" || return 0
  other=$(dirname "$1")/step_time.cpp
  if [ -e "$other" ] && ! { grep -q 'todo("25\.6a"' "$other" && grep -q 'todo("25\.6b"' "$other" && grep -q 'todo("25\.6c"' "$other"; }; then
    echo "by hand: $1: take out what is in step_time.cpp now, which you have begun"
    return 0
  fi
  for half in planner step_time; do
    awk -v half="$half" '/^\/\/ Part a: memory|^double in_flight\(/ { part = "planner" }
      /^\/\/ Part c: the step|^double gather_seconds\(/ { part = "step_time" }
      part == "" || part == half
      END { if (half == "planner") print "}  // namespace lockstep::week25" }' "$2" > "$rules.$half"
  done
  # The first todo of part c is 25.6a, the second 25.6b.
  sed -e 's#labs/week25_3d/planner\.hpp#labs/week25_3d/step_time.hpp#; s#Exercise 25\.3\b.*\. Read#Exercise 25.6: the step'"'"'s time, and the choice. Read#' \
    -e '/^StepTime step_time(/,$ s/todo("25\.3c"/todo("25.6b"/; s/todo("25\.3c"/todo("25.6a"/; s/todo("25\.3d"/todo("25.6c"/' \
    -e 's#^// Part c: the step -#// Parts a and b: the step -#; s#^// Part d: choosing#// Part c: choosing#' "$rules.step_time" > "$other"
  cat "$rules.planner" > "$2"
  echo "moved: $other: parts c and d of 25.3, which are 25.6 now"
}

# given_now FILE ENDING TEXT WORDS: where FILE ends so and has the text, its functions that a header has now.
given_now() {
  case $1 in *"$2") ;; *) return 0 ;; esac
  ! grep -q "$3" "$1" || echo "by hand: $1: take out $4, which its header gives now"
}

for folder; do
  [ -e "$folder" ] || { echo "move_answers.sh: $folder does not exist" >&2; exit 2; }
  find "$folder" -name '*.cpp' -type f | while read -r file; do
    sed -f "$rules" "$file" > "$rules.new"
    case $file in */zero2.cpp | */fsdp.cpp) sed -i -f "$rules.week22" "$rules.new" ;; esac
    numbers "$file" "$rules.new"
    table_first "$file" "$rules.new"
    in_two "$file" "$rules.new"
    if ! cmp -s "$file" "$rules.new"; then
      cat "$rules.new" > "$file" # in place: owner and mode stay
      echo "moved: $file"
    fi
    given_now "$file" /ddp.cpp '^float shard_weight(' 'shard_weight and bucket_layout'
    given_now "$file" /sequence_parallel.cpp '^void column_forward_rows(' 'whole_rows, column_forward_rows and row_backward_rows'
    given_now "$file" /stages.cpp '^Pipeline make_pipeline(' 'make_pipeline, before and after'
  done
done
