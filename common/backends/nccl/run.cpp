// Entry points of the NCCL backend: Session, and run(options, program) on the first processes of the job.
#include "common/runtime/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "common/backends/nccl/rank.hpp"
#include "common/backends/nccl/session.hpp"
#include "common/devices/cuda/status.hpp"
#include "common/runtime/processes/cores_per_rank.hpp"
#include "common/runtime/processes/results.hpp"
#include "common/support/host/host.hpp"

namespace lockstep {

using nccl::Label;

namespace {

/// The session that main holds; run() and is_judge() take no handle, like MPI's functions.
nccl::Processes*& the_processes() {
  static nccl::Processes* processes = nullptr;
  return processes;
}

nccl::Environment environment() {
  return nccl::read_environment([](const char* name) -> const char* { return std::getenv(name); });
}

/// Sets variables that CUDA reads when it starts, which may be in MPI_Init. A kernel loaded at its first launch may
/// wait until all work on the GPU has ended, including receives whose messages others send only after that kernel. So
/// all kernels are loaded at start (CUDA C++ Programming Guide, "Lazy Loading", on concurrent execution). And each
/// stream gets a hardware queue, if there are enough.
void prepare_cuda() {
  setenv("CUDA_MODULE_LOADING", "EAGER", /*overwrite=*/0);
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0);
}

void refuse_bad_options(const RunOptions& options, int processes) {
  if (options.ranks < 1) throw Error(Verdict::usage, fmt::format("{} ranks: there must be at least 1", options.ranks));
  if (options.ranks > processes)
    throw Error(Verdict::usage,
                fmt::format("{} ranks on {} process{}: start more with ./lab … --backend nccl --ranks {}, one GPU each",
                            options.ranks, processes, processes == 1 ? "" : "es", options.ranks));
  if (options.phantom) throw Error(Verdict::usage, "phantom runs are for the simulator: a GPU has real memory");
  if (options.emulate) throw Error(Verdict::usage, "--emulate sleeps on CPUs: use --backend mpi");
}

/// Runs this process's part.
Outcome take_part(const RunOptions& options, const Program& program, nccl::Processes& all, std::uint64_t run) {
  cuda::check(cudaSetDevice(all.gpu()), "cudaSetDevice");  // main may have selected another one
  auto backend = std::make_unique<nccl::NcclRank>(
      std::make_unique<nccl::Job>(options, all.control(), all.events(), run, all.gpu()), all.communicators(),
      all.memory(), all.staging(), all.supplies(), [&all](const std::string& message) { all.end_job(message); });
  const Values values = backend->play(program);
  backend->finish();

  Outcome outcome = backend->outcome(values);
  outcome.trace.backend = backend_name();
  processes::drop_or_keep(std::move(backend));
  return outcome;
}

}  // namespace

Outcome run(const RunOptions& options, const Program& program) {
  nccl::Processes* all = the_processes();
  if (!all) throw Error(Verdict::usage, "run needs a Session: make one at the beginning of main");
  nccl::Control& control = all->control();
  refuse_bad_options(options, control.size());
  const std::uint64_t run = all->next_run();
  control.forget_before(run);
  Outcome outcome;
  if (control.rank() < options.ranks) outcome = take_part(options, program, *all, run);
  if (options.ranks == control.size()) return outcome;
  // Processes that a run does not use receive the outcome.
  const Label label{.run = run, .key = nccl::key_of({}, "outcome")};
  std::vector<int> everybody;
  for (int rank = 0; rank < control.size(); ++rank) everybody.push_back(rank);
  Trace trace = std::move(outcome.trace);
  const auto texts =
      nccl::all_gather(control, label, everybody, control.rank() == 0 ? processes::to_bytes(outcome) : "");
  processes::from_bytes(texts.front(), outcome);
  outcome.trace = std::move(trace);
  return outcome;
}

std::string nccl::binding_of_this_job() {
  std::string text = nccl::format_binding(the_processes()->places());
  text.pop_back();
  for (std::size_t at = 0; (at = text.find('\n', at)) != text.npos;) text.replace(at, 1, "; ");
  return text;
}

std::string nccl::load_of_this_job() { return the_processes()->communicators().most().words(); }

const char* backend_name() { return "nccl"; }

bool is_judge() {
  if (the_processes()) return the_processes()->control().rank() == 0;
  try {
    return environment().rank == 0;
  } catch (const Error&) {
    return true;  // the caller is about to report what is wrong with it
  }
}

/// True if each rank has a core on its host to feed its GPU, bound or not.
bool has_core_each(int ranks) { return has_core_each(the_processes()->places(), ranks); }

Session::Session(int&, char**&) {
  const nccl::Environment found = environment();
  if (found.ranks > 1) die_with_parent();
  prepare_cuda();
  try {
    the_processes() = new nccl::Processes(found);
  } catch (const Error& error) {
    // Main prints what process 0 knows. What only this process knows is printed here, or nowhere.
    const bool all_know = error.verdict() == Verdict::usage || dynamic_cast<const NoDevice*>(&error);
    if (found.rank != 0 && !all_know) fmt::print(stderr, "rank {}: {}\n", found.rank, error.what());
    throw;
  }
}

Session::~Session() { delete std::exchange(the_processes(), nullptr); }

int Session::available_ranks() const { return the_processes()->control().size(); }

}  // namespace lockstep
