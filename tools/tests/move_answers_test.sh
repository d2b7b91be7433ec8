#!/bin/sh
# move_answers_test.sh SOURCE: an answer of before includes what exists after, once and for all; others stay as they are.
set -eu
source=$1
# shellcheck source=tools/tests/testing.sh
. "$source/tools/tests/testing.sh"

mkdir "$folder/anna" "$folder/bob"
: > "$folder/bob/answers.zip"
sh "$source/tools/course/move_answers.sh" "$folder/bob" | grep -qx "not opened: $folder/bob/answers.zip: unpack it first, into a folder" ||
  fail "an archive is passed over in silence"
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
# 25.3 had four parts, of which two are 25.6 now: an answer whose part c has one function.
cat > "$folder/anna/planner.cpp" << 'END'
// Exercise 25.3: the planner. Read labs/week25_3d/planner.hpp first.
#include "labs/week25_3d/planner.hpp"

namespace lockstep::week25 {

// Part a: memory ---
double in_flight(const StageSchedule& steps, int chunks) { return mine; }

// Part b: the pipeline ---
Pipeline pipeline(const Strategy& strategy, const Workload& work) {
  todo("25.3b", "x");
}

// Part c: the step ---
double gather_seconds(const Strategy& strategy, const Workload& work, double elements) { return given; }

double exposed_data(const Strategy& strategy, const Workload& work, const StageWork& stage) {
  return mine;
}

StepTime step_time(const Strategy& strategy, const Workload& work) {
  todo("25.3c", "y");
}

// Part d: choosing ---
std::vector<Rated> choose(std::vector<Rated> all, double memory_bytes, std::size_t count) {
  todo("25.3d", "z");
}

}  // namespace lockstep::week25
END
mkdir "$folder/ben" "$folder/eva"
cp "$folder/anna/planner.cpp" "$folder/ben/"
cp "$source/labs/week25_3d/step_time.cpp" "$folder/ben/" # not begun
cp "$folder/anna/planner.cpp" "$folder/eva/"
echo 'double begun;' > "$folder/eva/step_time.cpp"
# 21.13 had five parts, of which the last two are 21.14 now; digits and refuse are in its header.
cat > "$folder/anna/launch.cpp" << 'END'
// Exercise 21.13: from a launcher to a job. Read labs/week21_data_parallel/launch.hpp first.
#include "labs/week21_data_parallel/launch.hpp"

namespace lockstep::week21 {
namespace {

/// All of `text` as a whole number of at most 9 digits, or nothing.
std::optional<int> digits(std::string_view text) {
  return given;
}

int my_own;

}  // namespace

void refuse(const std::string& words) { throw Error(Verdict::usage, words); }

int whole_number(const Variables& variables, const std::string& name, int least, int most) {
  return given;
}

std::string key_of(int restarts, int rank) {
  return given;
}

std::optional<Place> place_by(const Launcher& launcher, const Variables& variables) {
  todo("21.13a", "s");
}

std::vector<std::string> numbers_in(const std::string& list) {
  todo("21.13b", "t");
}

std::vector<std::string> hosts_in(const std::string& list) {
  todo("21.13b", "u");
}

int gpu_of(const Place& place, int visible) {
  todo("21.13c", "v");
}

int newest_complete(const std::vector<std::string>& files) {
  todo("21.13d", "w");
}

int come_together(Store& store, const Place& place, int newest, double timeout) {
  todo("21.13d", "x");
}

int supervise(Processes& processes, double grace) {
  todo("21.13e", "y");
}

}
END
# 22.4 had five parts, of which the last three are 22.9 now; two of these were members of its class.
mkdir "$folder/lea" "$folder/max"
cat > "$folder/lea/fsdp.cpp" << 'END'
// Exercise 22.4: ZeRO stage 3, FSDP. Read labs/week22_zero/fsdp.hpp first.
#include "labs/week22_zero/fsdp.hpp"

#include "labs/week22_zero/fsdp_units.hpp"

namespace lockstep::week22 {
namespace {

int my_own;

/// "blocks.3" of a tensor in block 3, "" outside the blocks.
std::string block_of(const Parameter& tensor) {
  return given;
}

}  // namespace

std::vector<Unit> wrap(const std::vector<Parameter>& table, Wrapping wrapping) {
  todo("22.4c", "x");
}

namespace {

class UnitFsdp final : public FsdpUnits {
  void release(std::size_t u) override {
    todo("22.4a", "y");
  }

  Ticket reduce(Slice whole, Slice share) override {
    return communicate("reduce_scatter", bytes, [whole, share, type](Rank queue) {
      add(queue, share, in_type(queue, sums, share.dtype()));
    });
  }

  void prefetch(const std::vector<std::size_t>& order) override {
    while (gathered_ < order.size() && gathered_ < used_ + options_.prefetch) gather(order[gathered_++]);
  }

  static Slice in_type(Rank queue, const Slice& values, DType type) {
    convert(queue, to, values);
    todo("22.4e", "z");
  }
};

}  // namespace

std::unique_ptr<Fsdp> make_fsdp(Rank dp) { return given; }

}  // namespace lockstep::week22
END
printf 'std::vector<Unit> wrap(const std::vector<Parameter>& table, Wrapping wrapping) {\n}\nclass Mine;\n' > "$folder/max/fsdp.cpp"
# The formulas of 24.6 are 24.2's now: an answer next to another, to a skeleton, and to one that has begun both.
cat > "$folder/anna/bubble.cpp" << 'END'
#include "labs/week24_pipeline/bubble.hpp"

namespace lockstep::week24 {

double bubble_of_ideal(const PipelineShape& shape) {
  return mine;
}

double bubble_of_total(const PipelineShape& shape) { return one_line; }

Bubble measured_bubble(const std::vector<StageUse>& stages) {
  todo("24.6b", "x");
}

}  // namespace lockstep::week24
END
cat > "$folder/anna/gpipe.cpp" << 'END'
#include "labs/week24_pipeline/gpipe.hpp"

namespace lockstep::week24 {

StageSchedule gpipe(const PipelineShape& shape, int) {
  todo("24.2", "y");
}

}  // namespace lockstep::week24
END
cp "$folder/anna/bubble.cpp" "$folder/ben/"
cp "$source/labs/week24_pipeline/gpipe.cpp" "$folder/ben/"
cp "$folder/anna/bubble.cpp" "$folder/eva/"
sed 's/  todo(.*/  return mine;/' "$folder/ben/gpipe.cpp" > "$folder/eva/gpipe.cpp"
# So is a function of 23.3, whose skeleton has more than its todo. An answer to 23.2 alone gets the skeleton's.
cat > "$folder/anna/tensor_attention.cpp" << 'END'
#include "labs/week23_tensor_parallel/tensor_attention.hpp"

namespace lockstep::week23 {

std::array<RowRange, 3> qkv_rows(std::size_t heads, std::size_t head_size, int rank, int ranks) {
  if (heads % p != 0)
    usage_error("heads");
  return mine;
}

void parallel_attention_forward() {
  todo("23.3b", "x");
}

}  // namespace lockstep::week23
END
cat > "$folder/anna/tensor_mlp.cpp" << 'END'
#include "labs/week23_tensor_parallel/tensor_mlp.hpp"

namespace lockstep::week23 {

void parallel_mlp_forward() {
  todo("23.2", "y");
}

}  // namespace lockstep::week23
END
mkdir "$folder/kim"
cp "$folder/anna/tensor_mlp.cpp" "$folder/anna/gpipe.cpp" "$folder/kim/"
cp "$folder/anna/tensor_attention.cpp" "$folder/ben/"
cp "$source/labs/week23_tensor_parallel/tensor_mlp.cpp" "$folder/ben/"
cp "$folder/anna/tensor_attention.cpp" "$folder/eva/"
sed 's/^}  .*//' "$folder/anna/tensor_mlp.cpp" > "$folder/eva/tensor_mlp.cpp"
printf 'std::array<RowRange, 3> qkv_rows(std::size_t heads) { return one_line; }\n\n}  // namespace lockstep::week23\n' >> "$folder/eva/tensor_mlp.cpp"
cp "$folder/anna/other.cpp" "$folder/before"

said=$(sh "$source/tools/course/move_answers.sh" "$folder/anna")
[ "$(echo "$said" | grep '^moved: ' | cut -d: -f2 | sort -u | wc -l)" = 12 ] || fail "moved others: $said"
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
cat > "$folder/expected" << 'END'
// Exercise 25.6: the step's time, and the choice. Read labs/week25_3d/step_time.hpp first.
#include "labs/week25_3d/step_time.hpp"

namespace lockstep::week25 {

// Parts a and b: the step ---
double gather_seconds(const Strategy& strategy, const Workload& work, double elements) { return given; }

double exposed_data(const Strategy& strategy, const Workload& work, const StageWork& stage) {
  return mine;
}

StepTime step_time(const Strategy& strategy, const Workload& work) {
  todo("25.6b", "y");
}

// Part c: choosing ---
std::vector<Rated> choose(std::vector<Rated> all, double memory_bytes, std::size_t count) {
  todo("25.6c", "z");
}

}  // namespace lockstep::week25
END
diff "$folder/expected" "$folder/anna/step_time.cpp" || fail "parts c and d of 25.3"
cat > "$folder/expected" << 'END'
// Exercise 25.3: the planner. Read labs/week25_3d/planner.hpp first.
#include "labs/week25_3d/planner.hpp"

namespace lockstep::week25 {

// Part a: memory ---
double in_flight(const StageSchedule& steps, int chunks) { return mine; }

// Part b: the pipeline ---
Pipeline pipeline(const Strategy& strategy, const Workload& work) {
  todo("25.3b", "x");
}

}  // namespace lockstep::week25
END
diff "$folder/expected" "$folder/anna/planner.cpp" || fail "parts a and b of 25.3"
cat > "$folder/expected" << 'END'
// Exercise 21.13: from a launcher to a job. Read labs/week21_data_parallel/launch.hpp first.
#include "labs/week21_data_parallel/launch.hpp"

namespace lockstep::week21 {
namespace {

int my_own;

}  // namespace

int whole_number(const Variables& variables, const std::string& name, int least, int most) {
  return given;
}

std::optional<Place> place_by(const Launcher& launcher, const Variables& variables) {
  todo("21.13a", "s");
}

std::vector<std::string> numbers_in(const std::string& list) {
  todo("21.13b", "t");
}

std::vector<std::string> hosts_in(const std::string& list) {
  todo("21.13c", "u");
}

int gpu_of(const Place& place, int visible) {
  todo("21.13d", "v");
}

}
END
diff "$folder/expected" "$folder/anna/launch.cpp" || fail "parts a to c of 21.13"
cat > "$folder/expected" << 'END'
// Exercise 21.14: when a process dies. Read labs/week21_data_parallel/restart.hpp first.
#include "labs/week21_data_parallel/restart.hpp"

namespace lockstep::week21 {
namespace {

int my_own;

}  // namespace

std::string key_of(int restarts, int rank) {
  return given;
}

int newest_complete(const std::vector<std::string>& files) {
  todo("21.14a", "w");
}

int come_together(Store& store, const Place& place, int newest, double timeout) {
  todo("21.14b", "x");
}

int supervise(Processes& processes, double grace) {
  todo("21.14c", "y");
}

}
END
diff "$folder/expected" "$folder/anna/restart.cpp" || fail "parts d and e of 21.13"
sh "$source/tools/course/move_answers.sh" "$folder/lea" > /dev/null
cat > "$folder/expected" << 'END'
// Exercise 22.4: ZeRO stage 3, FSDP. Read labs/week22_zero/fsdp.hpp first.
#include "labs/week22_zero/fsdp.hpp"

#include "labs/week22_zero/fsdp_units.hpp"

namespace lockstep::week22 {
namespace {

int my_own;

class UnitFsdp final : public FsdpUnits {
  void release(std::size_t u) override {
    todo("22.4a", "y");
  }

  Ticket reduce(Slice whole, Slice share) override {
    return communicate("reduce_scatter", bytes, [whole, share, type, in_type = options_.policies.in_type](Rank queue) {
      add(queue, share, in_type(queue, sums, share.dtype()));
    });
  }

};

}  // namespace

std::unique_ptr<Fsdp> make_fsdp(Rank dp) { return given; }

}  // namespace lockstep::week22
END
diff "$folder/expected" "$folder/lea/fsdp.cpp" || fail "parts a and b of 22.4"
cat > "$folder/expected" << 'END'
// Exercise 22.9: the policies of FSDP. Read labs/week22_zero/sharding_policy.hpp first.
#include "labs/week22_zero/sharding_policy.hpp"

namespace lockstep::week22 {
namespace {

int my_own;

/// "blocks.3" of a tensor in block 3, "" outside the blocks.
std::string block_of(const Parameter& tensor) {
  return given;
}

}  // namespace

std::vector<Unit> wrap(const std::vector<Parameter>& table, Wrapping wrapping) {
  todo("22.9a", "x");
}

END
sed -n '/^std::size_t gather_ahead/,/{$/p' "$source/labs/week22_zero/sharding_policy.cpp" >> "$folder/expected" # as a skeleton has it
cat >> "$folder/expected" << 'END'
  while (gathered < order.size() && gathered < used + prefetch) gather(order[gathered++]);
  return gathered;
}

Slice in_type(Rank queue, const Slice& values, DType type) {
  cast(queue, to, values);
  todo("22.9c", "z");
}
}  // namespace lockstep::week22
END
diff "$folder/expected" "$folder/lea/sharding_policy.cpp" || fail "parts c to e of 22.4"
[ -z "$(sh "$source/tools/course/move_answers.sh" "$folder/lea")" ] || fail "moved 22.4 twice"
said=$(sh "$source/tools/course/move_answers.sh" "$folder/max")
echo "$said" | grep -q "^by hand: .*fsdp.cpp: wrap is 22.9's" || fail "says nothing of a wrap on a skeleton of one's own: $said"
cat > "$folder/expected" << 'END'
#include "labs/week24_pipeline/gpipe.hpp"

namespace lockstep::week24 {

StageSchedule gpipe(const PipelineShape& shape, int) {
  todo("24.2a", "y");
}

double bubble_of_ideal(const PipelineShape& shape) {
  return mine;
}

double bubble_of_total(const PipelineShape& shape) { return one_line; }

}  // namespace lockstep::week24
END
diff "$folder/expected" "$folder/anna/gpipe.cpp" || fail "formulas of 24.6"
cat > "$folder/expected" << 'END'
#include "labs/week24_pipeline/bubble.hpp"

namespace lockstep::week24 {

Bubble measured_bubble(const std::vector<StageUse>& stages) {
  todo("24.6", "x");
}

}  // namespace lockstep::week24
END
diff "$folder/expected" "$folder/anna/bubble.cpp" || fail "24.6 without formulas"
cat > "$folder/expected" << 'END'
#include "labs/week23_tensor_parallel/tensor_mlp.hpp"

namespace lockstep::week23 {

void parallel_mlp_forward() {
  todo("23.2a", "y");
}

std::array<RowRange, 3> qkv_rows(std::size_t heads, std::size_t head_size, int rank, int ranks) {
  if (heads % p != 0)
    usage_error("heads");
  return mine;
}

}  // namespace lockstep::week23
END
diff "$folder/expected" "$folder/anna/tensor_mlp.cpp" || fail "qkv_rows of 23.3"
! grep -q qkv_rows "$folder/anna/tensor_attention.cpp" || fail "23.3 with qkv_rows"
grep -q 'todo("23.3", "x")' "$folder/anna/tensor_attention.cpp" || fail "23.3 with parts"
sh "$source/tools/course/move_answers.sh" "$folder/kim" > "$folder/said"
[ "$(grep -c '^  todo("2[34].2b"' "$folder/kim/tensor_mlp.cpp")" = 1 ] || fail "23.2 without part b"
[ "$(grep -c '^  todo("2[34].2b"' "$folder/kim/gpipe.cpp")" = 2 ] || fail "24.2 without part b"
[ -z "$(sh "$source/tools/course/move_answers.sh" "$folder/kim")" ] || fail "part b twice"
sh "$source/tools/course/move_answers.sh" "$folder/ben" | grep -q '^moved: .*step_time.cpp: parts of planner.cpp, which are 25.6 now' || fail "beside a skeleton"
diff "$folder/anna/step_time.cpp" "$folder/ben/step_time.cpp" || fail "a skeleton stays"
said=$(sh "$source/tools/course/move_answers.sh" "$folder/eva")
echo "$said" | grep -q '^by hand: .*planner.cpp: take out what is in step_time.cpp now' || fail "says nothing of an answer in both: $said"
grep -q begun "$folder/eva/step_time.cpp" || fail "overwrites an answer"
echo "$said" | grep -q '^by hand: .*bubble.cpp: move bubble_of_ideal and bubble_of_total to gpipe.cpp$' || fail "says nothing of formulas in both: $said"
echo "$said" | grep -q '^by hand: .*tensor_attention.cpp: move qkv_rows to tensor_mlp.cpp$' || fail "says nothing of qkv_rows in both: $said"
grep -q 'return mine' "$folder/eva/tensor_attention.cpp" && grep -q one_line "$folder/eva/tensor_mlp.cpp" || fail "qkv_rows is lost"
grep -q 'return mine' "$folder/ben/tensor_mlp.cpp" || fail "a skeleton of 23.2b stays"
[ "$(grep -c '^std::array<RowRange, 3> qkv_rows' "$folder/ben/tensor_mlp.cpp")" = 1 ] || fail "qkv_rows twice"
grep -q one_line "$folder/eva/bubble.cpp" || fail "formulas are lost"
grep -q one_line "$folder/ben/gpipe.cpp" || fail "a skeleton of 24.2 stays"
[ "$(grep -c '^double bubble_of_' "$folder/ben/gpipe.cpp")" = 2 ] || fail "formulas twice"
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
