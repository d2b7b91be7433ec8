// MPI's entry points: Session, and run(options, program) on the first processes of the job.
#include "common/runtime/run.hpp"

#include <fmt/format.h>
#include <mpi.h>

#include <cstdlib>
#include <thread>

#include "common/backends/mpi/cores.hpp"
#include "common/backends/mpi/rank.hpp"
#include "common/backends/mpi/start_up.hpp"
#include "common/backends/mpi/status.hpp"
#include "common/backends/mpi/wire.hpp"
#include "common/runtime/device_notes.hpp"
#include "common/runtime/processes/cores_per_rank.hpp"
#include "common/runtime/processes/results.hpp"
#include "common/support/host/host.hpp"

namespace lockstep {

using mpi::check;

namespace {

bool mpi_is_up() {
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  return initialized && !finalized;
}

int world_rank() {
  if (!mpi_is_up()) {
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"})
      if (const char* text = std::getenv(name)) return std::atoi(text);
    return 0;
  }
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int world_size() {
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

/// Receives the result without using a core, on processes that a run does not use. An MPI broadcast would spin.
std::string hear_from_judge(std::string bytes) {
  using namespace std::chrono_literals;
  std::size_t length = bytes.size();
  auto hear = [](void* data, std::size_t size) {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ibcast(data, static_cast<int>(size), MPI_BYTE, 0, MPI_COMM_WORLD, &request));
    auto nap = 50us;
    for (int done = 0;;) {
      check(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
      if (done) return;
      std::this_thread::sleep_for(nap);
      nap = std::min<std::chrono::microseconds>(nap * 2, 2ms);
    }
  };
  hear(&length, sizeof length);
  bytes.resize(length);
  for (std::size_t part = 0; part < mpi::parts_of(length); ++part)
    hear(bytes.data() + part * mpi::kPartBytes, mpi::part_bytes(length, part));
  return bytes;
}

std::string host_name() {
  char name[MPI_MAX_PROCESSOR_NAME] = "";
  int length = 0;
  MPI_Get_processor_name(name, &length);
  return std::string(name, length);
}

/// Places by rank in MPI_COMM_WORLD; owned by Session.
std::vector<mpi::Placement>& the_placements() {
  static std::vector<mpi::Placement> places;
  return places;
}

constexpr double kLongestScale = 1e9;  // of modelled seconds; a clock of nanoseconds overflows after 290 years

/// Checks that all processes call run with the same number of ranks; otherwise their communicators would not match.
void require_same_call(int ranks) {
  int bounds[] = {ranks, -ranks};
  check(MPI_Allreduce(MPI_IN_PLACE, bounds, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
  if (bounds[0] != -bounds[1])
    throw Error(Verdict::usage, fmt::format("one process called run with ranks = {} and another with ranks = {}: every "
                                            "process must make the same calls of run, even after one that failed",
                                            -bounds[1], bounds[0]));
}

/// Runs this process's part; the outcome is complete only on rank 0.
Outcome take_part(const RunOptions& options, const Program& program, MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  auto job = std::make_unique<mpi::Job>(options, rank, host_name(), comm);
  job->cores_per_rank = lockstep::cores_per_rank(the_placements(), rank, options.ranks);
  if (options.emulate) job->ports = std::make_unique<mpi::Ports>(options.machine, comm);
  auto backend = std::make_unique<mpi::MpiRank>(std::move(job));
  const Values values = backend->play(program);
  backend->finish();
  Outcome outcome = backend->outcome(values);
  processes::drop_or_keep(std::move(backend));
  outcome.trace.backend = backend_name();
  if (options.trace && options.emulate) {
    outcome.trace.machine = options.machine.name;
    outcome.trace.modelled = true;
    outcome.trace.eager_bytes = options.machine.eager_bytes;
  }
  return outcome;
}

}  // namespace

Outcome run(const RunOptions& options, const Program& program) {
  if (!mpi_is_up()) throw Error(Verdict::usage, "run needs a Session: make one at the beginning of main");
  const int world = world_size();
  if (options.ranks < 1) throw Error(Verdict::usage, fmt::format("{} ranks: there must be at least 1", options.ranks));
  if (options.ranks > world)
    throw Error(Verdict::usage,
                fmt::format("{0} ranks need {0} MPI processes, and {1} {2}: ./lab … --backend mpi --ranks {0} "
                            "starts them, and by hand mpirun -n {0}",
                            options.ranks, world, world == 1 ? "was started" : "were started"));
  if (!(options.timeout_seconds > 0))
    throw Error(Verdict::usage, fmt::format("a time-out of {} s: it must be above 0", options.timeout_seconds));
  if (options.emulate && !(options.emulate_scale > 0 && options.emulate_scale <= kLongestScale))
    throw Error(Verdict::usage,
                fmt::format("modelled times cannot last {} times as long: the factor must be above 0 and at most {}",
                            options.emulate_scale, kLongestScale));
  if (options.phantom) throw Error(Verdict::usage, "phantom runs are for the simulator: MPI has real memory");
  require_same_call(options.ranks);
  const bool takes_part = world_rank() < options.ranks;
  MPI_Comm comm = MPI_COMM_NULL;
  check(MPI_Comm_split(MPI_COMM_WORLD, takes_part ? 0 : MPI_UNDEFINED, world_rank(), &comm));
  Outcome mine;
  if (takes_part) {
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    try {
      mine = take_part(options, program, comm);
    } catch (const Error& error) {  // options that no rank can run with; tell the others
      mine.verdict = error.verdict();
      mine.message = error.what();
    }
    MPI_Comm_free(&comm);
  }
  Outcome outcome;
  processes::from_bytes(hear_from_judge(is_judge() ? processes::to_bytes(mine) : ""), outcome);
  if (outcome.ledgers.empty()) throw Error(outcome.verdict, outcome.message);
  outcome.trace = std::move(mine.trace);
  return outcome;
}

std::vector<DeviceNote> device_notes() { return {}; }
const char* backend_name() { return "mpi"; }

bool is_judge() { return world_rank() == 0; }

bool has_core_each(int ranks) { return has_core_each(the_placements(), ranks); }

Session::Session(int& argc, char**& argv) {
  const char* started = std::getenv("LOCKSTEP_MPI_RANKS");  // set by launch/mpirun.sh
  if (started || std::getenv("OMPI_COMM_WORLD_RANK")) die_with_parent();
  int provided = 0;
  {
    mpi::StartUpWatch watch;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (provided < MPI_THREAD_SERIALIZED)
    throw Error(Verdict::fail, "this MPI library was built without threads (MPI_THREAD_SERIALIZED)");
  if (started && world_size() != std::atoi(started))
    throw Error(Verdict::usage, fmt::format("{} processes were started, but MPI knows of {}: mpirun belongs to another "
                                            "MPI library than the program",
                                            started, world_size()));
  the_placements() = mpi::gather_placements(MPI_COMM_WORLD);
}

Session::~Session() { MPI_Finalize(); }

int Session::available_ranks() const { return world_size(); }

}  // namespace lockstep
