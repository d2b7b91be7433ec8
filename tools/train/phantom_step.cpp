#include "tools/train/phantom_step.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "common/backends/sim/symmetry.hpp"
#include "common/runtime/run.hpp"
#include "labs/trainer/worker.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"
#include "labs/week25_3d/step_3d.hpp"
#include "tools/train/published_flop.hpp"

namespace lockstep::week25 {

namespace {

/// Measurements of one stage.
struct Seen {
  double begin = 0, pipeline_end = 0, gradients_end = 0, end = 0;
  double working = 0;  // total time of forwards and backwards
  double busy = 0;     // arithmetic in them
  double gathers = 0;  // waits for new values in them
  std::vector<TimedStep> steps;
  std::map<int, double> bytes;  // bytes sent, by link level
  Memory memory;
};

/// Groups of `ranks` with distance `apart` between neighbours, and the outermost link level between neighbours of any
/// group.
struct Ring {
  int ranks = 1, apart = 1, level = 0;
};

Ring ring_of(const Machine& machine, const Options3d& o, Axis axis) {
  Coordinate next;
  next[axis] = 1;
  const int ranks = o.mesh[axis], level = slowest_level(machine, o.mesh, o.order, axis);
  return {ranks, ranks == 1 ? 1 : rank_of(o.mesh, o.order, next), std::max(0, level)};
}

/// The ring of `ranks` ranks on the axis dp, `step` apart. Ranks that share sequences are neighbours on the axis.
Ring part_of_dp(const Machine& machine, const Options3d& o, int ranks, int step) {
  Ring ring = ring_of(machine, o, Axis::dp);
  ring = {ranks, ring.apart * step, 0};
  for (int rank = 0; ranks > 1 && rank < o.mesh.ranks(); ++rank) {
    Coordinate at = coordinate_of(o.mesh, o.order, rank);
    const int place = at.dp / step % ranks;
    at.dp += ((place + 1) % ranks - place) * step;
    ring.level = std::max(ring.level, machine.level_between(rank, rank_of(o.mesh, o.order, at)));
  }
  return ring;
}

/// Returns the fraction of a ring's bytes that it is charged for on `folded`, where a shared port is divided by all
/// ranks of a stage that share it. In a ring only the last rank before the port sends through it, and as many rings
/// share the port as begin between two neighbours.
double share_of(const Machine& machine, const Machine& folded, const Ring& ring) {
  if (ring.ranks == 1) return 1;
  double own = 1 / folded.levels.front().bytes_per_second, divided = own;  // seconds per byte
  for (std::size_t l = 1; l <= static_cast<std::size_t>(ring.level); ++l) {
    const LinkLevel& link = machine.levels[l];
    own = std::max(own, (link.shared ? std::min(ring.apart, machine.levels[l - 1].ranks) : 1) / link.bytes_per_second);
    divided = std::max(divided, 1 / folded.levels[l].bytes_per_second);
  }
  return own / divided;
}

class StageRun {
 public:
  StageRun(Rank me, const Options3d& o, const Machine& machine, const Machine& folded)
      : me_(me), folded_(folded), follows_(o.overlap_gather) {
    const auto peers = [&](const Ring& ring, CollectiveSeconds library = {}) {
      const Rank group =
          symmetric_group(me, ring.ranks, ring.level, share_of(machine, folded, ring), std::move(library));
      levels_[group.group()] = ring.level;
      return group;
    };
    const auto summing = [&](const Ring& ring) {  // a library's collectives, where the machine is priced so
      if (!machine.by_library) return peers(ring);
      return peers(ring, [&machine, ring](double bytes, double sent) {
        return library_collective_seconds(machine, ring.ranks, bytes, sent, ring.apart);
      });
    };
    const Mesh mesh{.shape = o.mesh,
                    .order = o.order,
                    .here = {.dp = 0, .tp = 0, .pp = me.rank()},
                    .world = me,
                    .dp = summing(ring_of(machine, o, Axis::dp)),
                    .tp = summing(ring_of(machine, o, Axis::tp)),
                    .pp = me};
    DpGroups groups;
    if (o.cp > 1) groups.sharers = peers(part_of_dp(machine, o, o.cp, 1));
    if (const int g = o.state_ranks(); o.is_hybrid())
      groups.sharding = {summing(part_of_dp(machine, o, g, 1)), summing(part_of_dp(machine, o, o.data_ranks() / g, g))};
    worker_ = make_worker(mesh, o, groups);
    watch_steps();
  }

  Seen step() {
    if (follows_) {  // the second step hides the gathers of the first
      accumulate_gradients(worker_);
      update(worker_, 1e-4f, 1);
      seen_ = {};
    }
    const std::map<int, double> before = bytes();
    if (!follows_) barrier();
    seen_.begin = me_.now();
    const double busy = main_busy();
    accumulate_gradients(worker_);
    seen_.gradients_end = me_.now();
    seen_.busy = main_busy() - busy;
    update(worker_, 1e-4f, 1);
    seen_.end = me_.now();
    for (const auto& [level, sent] : bytes())
      seen_.bytes[level] = sent - (before.contains(level) ? before.at(level) : 0);
    seen_.memory = ledger_of(me_).memory;
    finish_gathers(worker_);
    return std::move(seen_);
  }

 private:
  void watch_steps() {
    StageHooks hooks = worker_.stage->hooks();
    hooks.step = [this](const Step& step, bool begins) {
      const double now = me_.now();
      if (begins) {
        seen_.steps.push_back({step, now, now});
      } else {
        seen_.steps.back().end = seen_.pipeline_end = now;
        seen_.working += now - seen_.steps.back().begin;
      }
    };
    if (hooks.before_forward)
      hooks.before_forward = [this, wait = hooks.before_forward](std::size_t piece) {
        const double now = me_.now();
        wait(piece);
        if (follows_) seen_.gathers += me_.now() - now;
      };
    worker_.stage->use(std::move(hooks));
  }
  /// Makes all stages begin together: their set-up takes different times.
  void barrier() {
    Slice one = me_.allocate(1, DType::f32, Category::buffer);
    for (int i = 0; i < 2; ++i) week21::ring_all_reduce(me_, one);
  }
  /// Bytes sent so far, by link level.
  std::map<int, double> bytes() {
    std::map<int, double> bytes;
    for (const PeerTraffic& peer : ledger_of(me_).peers) {
      const auto symmetric = levels_.find(peer.group);
      const int level = symmetric == levels_.end() ? folded_.level_between(me_.rank(), peer.peer) : symmetric->second;
      bytes[level] += static_cast<double>(peer.traffic.bytes_sent);
    }
    return bytes;
  }
  double main_busy() const { return ledger_of(me_).queues[0].busy; }

  Rank me_;
  const Machine& folded_;
  bool follows_;               // true if the second of two steps is measured
  std::map<int, int> levels_;  // link levels of symmetric groups
  Worker worker_;
  Seen seen_;
};

/// Time at which a step begins for a stage. Stages begin together; with overlap_gather, where one step follows another,
/// each begins when its own previous step ends.
double own_begin(const Seen& stage, double begin, const Options3d& o) { return o.overlap_gather ? stage.begin : begin; }

/// Time at which all stages have reached the beginning of the step.
double begin_of(const std::vector<Seen>& stages) {
  double begin = 0;
  for (const Seen& stage : stages) begin = std::max(begin, stage.begin);
  return begin;
}

/// Returns one row per stage: the steps of its schedule, the waits between them, and the rest of the step.
Trace trace_of(const std::vector<Seen>& stages, const Options3d& o) {
  const double begin = begin_of(stages);
  double first = begin;
  for (const Seen& stage : stages) first = std::min(first, own_begin(stage, begin, o));
  Trace trace{.queues = {"main"}, .events = {}};
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const Seen& stage = stages[s];
    const int rank = static_cast<int>(s);
    double at = own_begin(stage, begin, o);
    const auto add = [&](const auto& what, const std::string& name, double from, double to) {
      if (to > from)
        trace.events.push_back({.what = what, .rank = rank, .name = name, .begin = from - first, .end = to - first});
    };
    for (const TimedStep& step : stage.steps) {
      add(TraceWait{}, "wait", at, step.begin);
      add(TraceCompute{}, to_string(step.step, o.chunks), step.begin, step.end);
      at = step.end;
    }
    add(TraceWait{}, "gradients", stage.pipeline_end, stage.gradients_end);
    add(TraceCompute{}, "update", stage.gradients_end, stage.end);
  }
  return trace;
}

std::vector<LevelBytes> levels_of(const std::vector<Seen>& stages, const Machine& machine, const Options3d& o) {
  std::vector<LevelBytes> levels;
  for (std::size_t l = 0; l < machine.levels.size(); ++l) {
    LevelBytes& level = levels.emplace_back();
    level.name = machine.levels[l].name;
    for (const Seen& stage : stages) {
      const auto found = stage.bytes.find(static_cast<int>(l));
      if (found == stage.bytes.end()) continue;
      level.per_rank = std::max(level.per_rank, found->second);
      level.all += found->second * o.data_ranks() * o.mesh.tp;
    }
  }
  return levels;
}

void add_stages(PhantomStep& step, const std::vector<Seen>& stages, const Options3d& o) {
  const double begin = begin_of(stages);
  double work = 0, pipeline = 0;
  for (const Seen& stage : stages) {
    const double tensor = std::max(0.0, stage.working - stage.busy - stage.gathers);
    step.stages.push_back({.compute = stage.working - tensor - stage.gathers,
                           .tensor = tensor,
                           .idle = stage.pipeline_end - own_begin(stage, begin, o) - stage.working,
                           .data = stage.gathers + stage.gradients_end - stage.pipeline_end,
                           .update = stage.end - stage.gradients_end});
    step.memory.push_back(stage.memory);
    step.seconds = std::max(step.seconds, stage.end - begin);
    work = std::max(work, stage.working);
    pipeline = std::max(pipeline, stage.pipeline_end - begin);
  }
  step.bubble_of_ideal = (pipeline - work) / work;
  step.bubble_of_total = (pipeline - work) / pipeline;
}

}  // namespace

double PhantomStep::peak_bytes() const {
  std::uint64_t most = 0;
  for (const Memory& stage : memory) most = std::max(most, stage.peak_total);
  return static_cast<double>(most);
}

std::size_t PhantomStep::slowest() const {
  std::size_t slowest = 0;
  for (std::size_t s = 0; s < stages.size(); ++s)
    if (stages[s].pipeline() > stages[slowest].pipeline()) slowest = s;
  return slowest;
}

double PhantomStep::exposed_seconds() const { return stages[slowest()].tensor + stages[slowest()].data; }

Machine folded_machine(const Machine& machine, const MeshShape& mesh, const AxisOrder& order) {
  machine.level_between(0, mesh.ranks() - 1);  // throws if the machine has too few ranks
  Machine folded = machine;
  const int stride = mesh.pp == 1 ? mesh.ranks() : rank_of(mesh, order, {.dp = 0, .tp = 0, .pp = 1});
  int width = 1;  // ranks of a group one level further in
  for (LinkLevel& level : folded.levels) {
    const int ranks = level.ranks;
    if (ranks > stride && ranks % stride != 0 && ranks < mesh.ranks())
      usage_error(
          fmt::format("stages are {} ranks apart, which do not divide the {} of a group of {}: their placement "
                      "differs between nodes",
                      stride, ranks, level.name));
    const int sharing = &level == &folded.levels.front() ? ranks : width;  // a bus, or an inner group's port
    if (level.shared && sharing != 0) level.bytes_per_second /= std::min({sharing, stride, mesh.ranks()});
    if (level.shared && sharing <= stride) level.shared = false;
    width = ranks;
    level.ranks = ranks == 0 ? 0 : std::max(1, ranks / stride);
  }
  return folded;
}

PhantomStep phantom_step(const Options3d& o, const Machine& machine, bool trace) {
  check(o);
  const auto began = std::chrono::steady_clock::now();
  const Machine folded = folded_machine(machine, o.mesh, o.order);
  std::vector<Seen> stages(static_cast<std::size_t>(o.mesh.pp));
  RunOptions options{.ranks = o.mesh.pp, .machine = folded, .phantom = true, .check_races = false, .poison = false};
  run(options, [&](Rank me) {
    stages[static_cast<std::size_t>(me.rank())] = StageRun(me, o, machine, folded).step();
  }).check();
  PhantomStep step;
  step.simulated_ranks = o.mesh.pp;
  add_stages(step, stages, o);
  step.levels = levels_of(stages, machine, o);
  step.model_flop = train::published_flop(o);
  const double peak = machine.peak(o.model.storage);
  step.mfu = step.model_flop / (o.mesh.ranks() * peak * step.seconds);
  step.tokens_per_second = static_cast<double>(o.batch * o.sequence) / step.seconds;
  if (trace) step.trace = trace_of(stages, o);
  step.wall_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return step;
}

}  // namespace lockstep::week25
