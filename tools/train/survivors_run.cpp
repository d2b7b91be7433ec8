// A training run on MPI whose processes may be killed, for survivors_test.sh: each keeps its snapshots (25.8) in files
// of a folder of its own in shared memory, which outlives it.
//
//   survivors_run --folder /dev/shm/F --steps 40                           ranks 0 to 3, from the beginning
//   survivors_run --folder /dev/shm/F --steps 40 --before 4 --was 0,2,3    three continue without rank 1
//
// Folder F/P-R is rank R's of P. Prints a line for each step.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include "common/runtime/run.hpp"
#include "common/support/text/command_line.hpp"
#include "common/support/text/files.hpp"
#include "common/support/text/parse_number.hpp"
#include "common/support/text/run_program.hpp"
#include "labs/week25_3d/survivors.hpp"
#include "labs/week25_3d/survivors_training_testing.hpp"

namespace lockstep::week25 {
namespace {

namespace fs = std::filesystem;

constexpr int kEvery = 3, kKept = 2;

struct RunOf {
  std::string folder;
  int steps = 40, before = 0, pause_ms = 0;
  std::vector<std::string> was_text;
  std::vector<int> was;

  fs::path of_rank(int ranks, int rank) const { return fs::path(folder) / fmt::format("{}-{}", ranks, rank); }
};

/// "own-12" and "previous-12": three arrays, one after the other.
void write(Rank me, const fs::path& path, const std::vector<Slice>& arrays) {
  std::string bytes;
  for (const Slice& array : arrays) {
    const std::vector<float> values = to_host(me, array);
    bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  }
  write_atomically(path, bytes);
}

std::vector<Slice> read_arrays(Rank me, const fs::path& path, std::size_t size) {
  std::ifstream file(path, std::ios::binary);
  std::vector<Slice> arrays;
  for (int a = 0; a < 3; ++a) {
    std::vector<float> values(size);
    file.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(size * sizeof(float)));
    if (!file) throw Error(Verdict::fail, path.string() + " is too short");
    arrays.push_back(me.allocate(size, DType::f32, Category::buffer));
    upload(me, arrays.back(), values);
  }
  return arrays;
}

void keep_snapshot(Rank me, const RunOf& o, int step, const Snapshot& snapshot) {
  const fs::path folder = o.of_rank(me.size(), me.rank());
  fs::create_directories(folder);
  write(me, folder / fmt::format("own-{}", step), snapshot.own);
  write(me, folder / fmt::format("previous-{}", step), snapshot.previous);
  for (const char* kind : {"own", "previous"}) fs::remove(folder / fmt::format("{}-{}", kind, step - kKept * kEvery));
}

/// Reads the files of the ranks before; the folder of a dead one is gone.
std::vector<Remembered> remembered(const RunOf& o) {
  std::vector<Remembered> ranks(static_cast<std::size_t>(o.before));
  for (int r = 0; r < o.before; ++r) {
    if (!fs::exists(o.of_rank(o.before, r))) continue;
    for (const fs::directory_entry& entry : fs::directory_iterator(o.of_rank(o.before, r))) {
      const std::string name = entry.path().filename();
      const std::size_t dash = name.find('-');
      const auto step = parse_number<int>(name.substr(dash + 1));
      if (!step) continue;  // unfinished
      Remembered& rank = ranks[static_cast<std::size_t>(r)];
      (name.starts_with("own") ? rank.own : rank.previous).push_back(*step);
    }
  }
  return ranks;
}

/// Fills the shards from the newest step that all of them remember; returns it.
int resume(Rank me, const RunOf& o, survivors_test::Training& training) {
  std::vector<int> dead;
  for (int r = 0; r < o.before; ++r)
    if (std::ranges::count(o.was, r) == 0) dead.push_back(r);
  const int from = newest_whole(remembered(o), dead);
  if (from < 0) throw Error(Verdict::fail, "no step is remembered by all");
  Snapshot held;
  if (const int rank = o.was.at(static_cast<std::size_t>(me.rank())); rank >= 0) {
    const fs::path folder = o.of_rank(o.before, rank);
    const std::size_t n = training.count();
    held.own = read_arrays(me, folder / fmt::format("own-{}", from), chunk_range(n, rank, o.before).size);
    held.previous = read_arrays(me, folder / fmt::format("previous-{}", from), chunk_range(n, rank - 1, o.before).size);
  }
  reshard(me, training.count(), o.before, o.was, held, training.shard);
  training.gather(me);
  return from;
}

void train(Rank me, const RunOf& o) {
  survivors_test::Training training(me);
  const int from = o.before > 0 ? resume(me, o, training) : 0;
  if (me.rank() == 0) fmt::print("{} ranks from step {}\n", me.size(), from + 1);
  for (int step = from + 1; step <= o.steps; ++step) {
    const double loss = training.step(me, step);
    if (me.rank() == 0) fmt::print("step {} loss {:.7f}\n", step, loss), std::fflush(stdout);
    std::this_thread::sleep_for(std::chrono::milliseconds(o.pause_ms));
    if (step % kEvery == 0) keep_snapshot(me, o, step, snapshot_of(me, training.count(), training.shard));
  }
}

}  // namespace
}  // namespace lockstep::week25

int main(int argc, char** argv) {
  using namespace lockstep;
  return run_program("survivors_run: ", [&] {
    Session session(argc, argv);
    week25::RunOf o;
    CommandLine line("survivors_run", "A run whose processes may be killed, with snapshots in shared memory.");
    line.add("--folder", o.folder, "of the snapshots");
    line.add("--steps", o.steps, "the last step", Whole{1});
    line.add("--before", o.before, "ranks that there were; default: the run begins", Whole{});
    line.add("--was", o.was_text, "with --before: the rank that each was, -1: it joins");
    line.add("--pause", o.pause_ms, "milliseconds after each step", Whole{});
    if (!line.parse(argc, argv, is_judge())) return 0;
    for (const std::string& text : o.was_text) o.was.push_back(parse_number<int>(text).value());
    run({.ranks = session.available_ranks()}, [&](Rank me) { week25::train(me, o); }).check();
    return 0;
  });
}
