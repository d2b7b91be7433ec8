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
# Headers that moved: old path, new path.
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
echo 's#include "labs/week25_3d/options_3d.hpp#include "labs/trainer/options_3d.hpp#' >> "$rules"
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

# Parts that moved to another exercise, or got a letter: old, new. Text in quotes is left alone.
while read -r before after; do
  printf 's#todo("%s"#todo("%s"#\n' "$before" "$after"
done >> "$rules" << 'END'
23.2 23.2a
23.3a 23.2b
23.3b 23.3
24.2 24.2a
24.6a 24.2b
24.6b 24.6
END

# Numbers of exercises: file, old and new. They are in the answer's comments, and in its "not done yet" messages.
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

# in_two FILE NEW NAME OTHER ID LETTERS ITS THEIRS: parts of NAME.cpp are exercise ID since, with parts LETTERS ("a b c"), in
# OTHER.cpp next to it: blocks that begin with a line of the pattern THEIRS, up to one of ITS. Text above both is for both
# files: includes, and a learner's own helpers. $rules.NAME.sed and $rules.OTHER.sed say what else changes.
in_two() {
  case $1 in */"$3".cpp) ;; *) return 0 ;; esac
  grep -Eq "$8" "$2" || return 0
  other=$(dirname "$1")/$4.cpp
  if [ -e "$other" ] && ! (for letter in $6; do grep -Fq "todo(\"$5$letter\"" "$other" || exit 1; done); then
    echo "by hand: $1: take out what is in $4.cpp now, which you have begun"
    return 0
  fi
  for half in "$3" "$4"; do
    its=$7 theirs=$8 awk -v name="$3" -v other="$4" -v half="$half" '$0 ~ ENVIRON["its"] { part = name }
      $0 ~ ENVIRON["theirs"] { part = other }
      /^}  \/\/ namespace lockstep/ { part = ""; closed = 1 }
      part == "" || part == half
      END { if (half == name && !closed) print "}" }' "$2" | sed -f "$rules.$half.sed" | cat -s > "$rules.$half"
  done
  cat "$rules.$4" > "$other"
  cat "$rules.$3" > "$2"
  echo "moved: $other: parts of $3.cpp, which are $5 now"
}
# 25.3's parts c and d are 25.6; the first todo of part c is 25.6a, the second 25.6b.
: > "$rules.planner.sed"
cat > "$rules.step_time.sed" << 'END'
s#labs/week25_3d/planner\.hpp#labs/week25_3d/step_time.hpp#
s#Exercise 25\.3\b.*\. Read#Exercise 25.6: the step's time, and the choice. Read#
/^StepTime step_time(/,$ s/todo("25\.3c"/todo("25.6b"/
s/todo("25\.3c"/todo("25.6a"/
s/todo("25\.3d"/todo("25.6c"/
s#^// Part c: the step -#// Parts a and b: the step -#
s#^// Part d: choosing#// Part c: choosing#
END
# 21.13's parts d and e are 21.14, b is b and c, and c is d; the header has digits and refuse.
cat > "$rules.given.sed" << 'END'
/^\/\/\/ All of `text` as a whole number/d
/^std::optional<int> digits(/,/^}/d
/^void refuse(const std::string& words) {/d
END
cat "$rules.given.sed" - > "$rules.launch.sed" << 'END'
s/todo("21\.13c"/todo("21.13d"/
/^std::vector<std::string> hosts_in(/,/^}/ s/todo("21\.13b"/todo("21.13c"/
END
cat "$rules.given.sed" - > "$rules.restart.sed" << 'END'
s#labs/week21_data_parallel/launch\.hpp#labs/week21_data_parallel/restart.hpp#
s#Exercise 21\.13\b.*\. Read#Exercise 21.14: when a process dies. Read#
/^int newest_complete(/,/^}/ s/todo("21\.13d"/todo("21.14a"/
s/todo("21\.13d"/todo("21.14b"/
s/todo("21\.13e"/todo("21.14c"/
END

# 22.4's part c is 22.9a, d is b and e is c. prefetch and in_type were members; in_type comes with the options now.
cat > "$rules.fsdp.sed" << 'END'
s#, and for parts a, b, d and e fsdp_units\.hpp,$#, and fsdp_units.hpp,#
s#\[whole, share, type\](Rank queue)#[whole, share, type, in_type = options_.policies.in_type](Rank queue)#
END
cat > "$rules.sharding_policy.sed" << 'END'
s#labs/week22_zero/fsdp\.hpp#labs/week22_zero/sharding_policy.hpp#
\#labs/week21_data_parallel/ring_all_reduce\.hpp\|labs/week22_zero/fsdp_units\.hpp#d
\#^//$\|^// whose members the class\|^// Given is when each unit is needed#d
s#Exercise 22\.4\b.*#Exercise 22.9: the policies of FSDP. Read labs/week22_zero/sharding_policy.hpp first.#
s/todo("22\.4c"/todo("22.9a"/
s/todo("22\.4d"/todo("22.9b"/
s/todo("22\.4e"/todo("22.9c"/
/^std::vector<Unit> wrap(/,$ { /^namespace {$/d }
/^  \/\/\/ Gathers units ahead\|^  void prefetch(/,$ {
  s/^  //
  s/\<used_/used/g
  s/\<gathered_/gathered/g
  s/\<options_\.prefetch/prefetch/g
  s/\<convert(/cast(/g
  s/^static Slice in_type(/Slice in_type(/
  s/^void prefetch(.*/std::size_t gather_ahead([[maybe_unused]] const std::vector<std::size_t>\& order, [[maybe_unused]] std::size_t used,\
                         [[maybe_unused]] std::size_t gathered, [[maybe_unused]] int prefetch,\
                         [[maybe_unused]] const std::function<void(std::size_t unit)>\& gather) {/
  /^std::size_t gather_ahead(/,/^}$/ s/^}$/  return gathered;\n}/
}
END

# own FUNCTIONS KEPT FILE: the functions of FILE that the pattern names; with KEPT 1, all else.
own() {
  its="^[a-zA-Z].*[ &*]($1)\\(" awk -v kept="$2" '!inside && $0 ~ ENVIRON["its"] { inside = 1 } inside ? !kept : kept
    inside && (/^}/ || /^[^ ].*{.*}$/) { inside = 0; if (!kept) print "" }' "$3"
}

# with_moved FILE: FILE with the contents of $rules.moved at the end of its namespace.
with_moved() {
  awk -v moved="$rules.moved" '/^}  \/\/ namespace lockstep/ { while ((getline line < moved) > 0) print line }
    { print }' "$1" | cat -s > "$rules.whole"
}

# to_other FILE NEW NAME OTHER FUNCTIONS: these functions of NAME.cpp, a pattern, belong to OTHER.cpp since, another exercise's
# answer next to it. They take the place of a skeleton's, which has a todo in each; a learner's own helpers stay where they are.
to_other() {
  case $1 in */"$3".cpp) ;; *) return 0 ;; esac
  other=$(dirname "$1")/$4.cpp
  own "$5" 0 "$2" > "$rules.moved"
  [ -s "$rules.moved" ] || return 0
  if [ ! -e "$other" ] || [ "$(own "$5" 0 "$other" | grep -c '^[a-zA-Z]')" != "$(own "$5" 0 "$other" | grep -c '^  todo(')" ]; then
    echo "by hand: $1: move $(echo "$5" | sed 's/|/ and /g') to $4.cpp"
    return 0
  fi
  own "$5" 1 "$other" > "$rules.other"
  with_moved "$rules.other"
  cat "$rules.whole" > "$other"
  own "$5" 1 "$2" | cat -s > "$rules.other"
  cat "$rules.other" > "$2"
  echo "moved: $other: $(echo "$5" | sed 's/|/ and /g') of $3.cpp; what they use of your own does not move with them"
}

# from_skeleton FILE NEW NAME FUNCTIONS: these functions are NAME's since. An answer without them gets the skeleton's.
from_skeleton() {
  case $1 in */"$3".cpp) ;; *) return 0 ;; esac
  [ -z "$(own "$4" 0 "$2")" ] || return 0
  for skeleton in "$(dirname "$0")"/../../labs/week*/"$3".cpp; do
    [ -e "$skeleton" ] || return 0
    own "$4" 0 "$skeleton" > "$rules.moved"
  done
  [ -s "$rules.moved" ] || return 0
  with_moved "$2"
  cat "$rules.whole" > "$2"
}

# given_now FILE ENDING TEXT WORDS: where FILE ends so and has the text, its functions that a header has now.
given_now() {
  case $1 in *"$2") ;; *) return 0 ;; esac
  ! grep -q "$3" "$1" || echo "by hand: $1: take out $4, which its header gives now"
}

for folder; do
  [ -e "$folder" ] || { echo "move_answers.sh: $folder does not exist" >&2; exit 2; }
  find "$folder" \( -name '*.zip' -o -name '*.tar' -o -name '*.tar.gz' -o -name '*.tgz' \) -type f |
    sed 's/.*/not opened: &: unpack it first, into a folder/'
  find "$folder" -name '*.cpp' -type f | while read -r file; do
    sed -f "$rules" "$file" > "$rules.new"
    case $file in */zero2.cpp | */fsdp.cpp) sed -i -f "$rules.week22" "$rules.new" ;; esac
    numbers "$file" "$rules.new"
    table_first "$file" "$rules.new"
    in_two "$file" "$rules.new" planner step_time 25.6 'a b c' '^// Part a: memory|^double in_flight\(' \
      '^// Part c: the step|^double gather_seconds\('
    in_two "$file" "$rules.new" launch restart 21.14 'a b c' \
      '^void refuse\(|^int whole_number\(|^std::optional<Place> place_by\(' '^std::string key_of\(|^int newest_complete\('
    if grep -q '^class UnitFsdp ' "$rules.new"; then
      in_two "$file" "$rules.new" fsdp sharding_policy 22.9 'a b c' '^class UnitFsdp |^};' \
        '^/// "blocks\.3" of a tensor|^std::string block_of\(|^std::vector<Unit> wrap\(|^  /// Gathers units ahead|^  void prefetch\('
    fi
    to_other "$file" "$rules.new" tensor_attention tensor_mlp qkv_rows
    to_other "$file" "$rules.new" bubble gpipe 'bubble_of_ideal|bubble_of_total'
    from_skeleton "$file" "$rules.new" tensor_mlp qkv_rows
    from_skeleton "$file" "$rules.new" gpipe 'bubble_of_ideal|bubble_of_total'
    if ! cmp -s "$file" "$rules.new"; then
      cat "$rules.new" > "$file" # in place: owner and mode stay
      echo "moved: $file"
    fi
    given_now "$file" /ddp.cpp '^float shard_weight(' 'shard_weight and bucket_layout'
    given_now "$file" /sequence_parallel.cpp '^void column_forward_rows(' 'whole_rows, column_forward_rows and row_backward_rows'
    case $file in */fsdp.cpp) # in_two has left it in an answer on the hard skeleton
      ! grep -q '^std::vector<Unit> wrap(' "$file" || echo "by hand: $file: wrap is 22.9's, in sharding_policy.cpp" ;;
    esac
    given_now "$file" /stages.cpp '^Pipeline make_pipeline(' 'make_pipeline, before and after'
  done
done
