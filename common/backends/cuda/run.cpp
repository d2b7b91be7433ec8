// Entry points of the CUDA backend: Session, and run(options, program) on virtual ranks of one GPU.
#include "common/runtime/run.hpp"

#include <fmt/format.h>

#include "common/backends/cuda/world.hpp"
#include "common/devices/cuda/gpu.hpp"
#include "common/devices/cuda/status.hpp"

namespace lockstep {

namespace {

constexpr int kGpu = 0;          // index among those that CUDA_VISIBLE_DEVICES shows
constexpr int kMostRanks = 256;  // each has at least two streams, and all share one GPU

}  // namespace

Outcome run(const RunOptions& options, const Program& program) {
  if (options.ranks < 1 || options.ranks > kMostRanks)
    throw Error(Verdict::usage,
                fmt::format("{} ranks: the cuda backend runs 1 to {} on one GPU", options.ranks, kMostRanks));
  if (options.phantom) throw Error(Verdict::usage, "phantom runs are for the simulator: a GPU has real memory");
  (void)cuda::count_gpus();
  cuda::check(cudaSetDevice(kGpu), "cudaSetDevice");
  auto world = std::make_unique<cuda::World>(options, program, kGpu);
  Outcome outcome = world->run();
  outcome.trace.backend = backend_name();
  outcome.wall_seconds = outcome.seconds;
  drop_or_keep(std::move(world));
  return outcome;
}

const char* backend_name() { return "cuda"; }
bool is_judge() { return true; }
bool has_core_each(int ranks) { return ranks == 1; }
Session::Session(int&, char**&) { (void)cuda::open_gpu(kGpu); }
Session::~Session() = default;
int Session::available_ranks() const { return 0; }

}  // namespace lockstep
