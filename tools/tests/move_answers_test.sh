#!/bin/sh
# move_answers_test.sh SOURCE: an answer of before includes what exists after, once and for all; others stay as they are.
set -eu
source=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "move_answers_test: $*"; exit 1; }

mkdir "$folder/anna"
cat > "$folder/anna/answer.cpp" << 'END'
#include "common/rank.hpp"
#include "common/stats/stats.hpp"
#include "common/machine/machine.hpp"
#include "common/model/block.hpp"
#include "common/pipeline/schedule.hpp"
#include "common/ledger/ledger.hpp"
#include "common/run.hpp"
#include "common/text/storage.hpp"
#include "labs/week25_3d/options_3d.hpp"
#include "labs/week25_3d/engine.hpp"
DType type = storage_named("bf16");  // common/stats stays in words
END
# held_ and visit are given names in 22.4, and a learner's own elsewhere.
printf '#include "common/rank.hpp"\nint held_, visit, lend_;\n' > "$folder/anna/other.cpp"
cat > "$folder/anna/fsdp.cpp" << 'END'
#include "labs/week22_zero/visits.hpp"
Gather::Gather(const Visits& visits, LendTensor lend) : visits_(visits.size()), lend_(std::move(lend)) {}
void release(std::size_t u) { held_[u].lent = false, held_[u + 1] = {}; }
struct Held { bool lent = false; };
END
printf 'float shard_weight(int);\n' > "$folder/anna/ddp.cpp"
# A number may be an exercise's, and another one a number.
printf '// Exercise 25.6: how often to save.\nvoid f() { todo("25.6b", "what is lost"); }\ndouble x = 25.6;\n' > "$folder/anna/save_interval.cpp"
printf 'namespace {\n}\n\nvoid accumulate_gradients(Worker& worker) {\n  todo("25.2a", "x");\n}\nvoid update() { todo("25.2c", "y"); }\n' > "$folder/anna/step_3d.cpp"
cp "$folder/anna/other.cpp" "$folder/before"

said=$(sh "$source/tools/course/move_answers.sh" "$folder/anna")
[ "$(echo "$said" | grep -c '^moved: ')" = 4 ] || fail "moved others: $said"
echo "$said" | grep -q 'ddp.cpp: take out shard_weight' || fail "says nothing of ddp.cpp: $said"
cmp "$folder/before" "$folder/anna/other.cpp" || fail "changed a file that needs nothing"
cat "$folder/anna/answer.cpp" "$folder/anna/fsdp.cpp" | sed -n 's/^#include "\(.*\)"/\1/p' | while read -r header; do
  [ -e "$source/$header" ] || { echo "$header does not exist"; exit 1; }
done || fail "includes what is not there"
grep -q 'parse_storage("bf16");  // common/stats stays in words' "$folder/anna/answer.cpp" || fail "names"
sed 1d "$folder/anna/fsdp.cpp" > "$folder/moved"
cat > "$folder/expected" << 'END'
Gather::Gather(const UsageOrder& usage_order, BindTensor bind) : pieces_(usage_order.size()), bind_(std::move(bind)) {}
void release(std::size_t u) { unsharded_[u].bound = false, unsharded_[u + 1] = {}; }
struct Held { bool bound = false; };
END
diff "$folder/expected" "$folder/moved" || fail "names of week 22"
cat > "$folder/expected" << 'END'
// Exercise 25.5: how often to save.
void f() { todo("25.5b", "what is lost"); }
double x = 25.6;
END
diff "$folder/expected" "$folder/anna/save_interval.cpp" || fail "number of an exercise"
sed -n '/^OnAxes/,/^}/p' "$source/labs/week25_3d/step_3d.cpp" > "$folder/table" # as a new skeleton has it
sed -n '/^OnAxes/,/^}/p' "$folder/anna/step_3d.cpp" | diff "$folder/table" - || fail "25.2 without its table"
cat > "$folder/expected" << 'END'
namespace {
}

void accumulate_gradients(Worker& worker) {
  todo("25.2b", "x");
}
void update() { todo("25.2d", "y"); }
END
sed '/^OnAxes/,/^$/d' "$folder/anna/step_3d.cpp" | diff "$folder/expected" - || fail "parts of 25.2"
sh "$source/tools/course/move_answers.sh" "$folder/anna" | grep -q '^moved' && fail "moved twice"
code=0
sh "$source/tools/course/move_answers.sh" "$folder/nobody" 2> /dev/null || code=$?
[ $code -eq 2 ] || fail "a folder that is not there ends with $code"
echo PASS
