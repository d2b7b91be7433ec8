// Running a program on p ranks. Each backend's library defines `run`; a program links exactly one of them, so the same
// object files make a simulator program and an MPI program.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "common/error.hpp"
#include "common/rank.hpp"
#include "common/runtime/ledger/ledger.hpp"
#include "common/runtime/machine/machine.hpp"
#include "common/runtime/trace/trace.hpp"

namespace lockstep {

struct RunOptions {
  int ranks = 1;
  Machine machine = Machine::uniform(1e-6, 1e-9, 1e-10);  // cost model of the simulator, or of --emulate
  bool phantom = false;                                   // no memory, no arithmetic, only modelled costs (simulator)
  bool check_races = true;  // simulator: race detection; MPI: a header before each message, so that both ends compare
                            // sizes, types and collectives
  bool poison = true;       // new memory is filled with NaN patterns
  std::optional<std::uint64_t> perturb;  // simulator: seed for running queued work early or late
  bool trace = false;
  int traced_ranks = 0;         // with a trace: only ranks below this record their events; 0: all do
  int threads = 0;              // of the CPU's arithmetic, per rank; 0: as many as there are usable cores for it
  bool emulate = false;         // MPI: sleep until the machine's modelled time of each operation and message has passed
  double emulate_scale = 1;     // modelled seconds × scale = wall-clock seconds
  bool tf32 = false;            // GPUs: fp32 products round their operands to a 10-bit mantissa, for tensor cores
  double timeout_seconds = 20;  // MPI, GPUs: a run without progress for this long ends and reports what each rank is
                                // doing; on MPI, for stalls other than deadlocks, which are found within 2 s
  std::size_t stack_bytes = 256 * 1024;  // simulator: stack of each fiber
};

/// True if this rank records its events.
inline bool is_traced(const RunOptions& options, int rank) {
  return options.trace && (options.traced_ranks == 0 || rank < options.traced_ranks);
}

/// Values that one rank observed, for one process to check.
using Values = std::vector<double>;
using Program = std::function<Values(Rank)>;

/// Outcome of a run. On MPI every process gets the same Outcome, except `trace` (rank 0 only).
struct Outcome {
  Verdict verdict = Verdict::pass;
  std::string message;  // empty if passed; otherwise complete
  int failed_rank = -1;
  std::vector<Values> values;       // by rank
  std::vector<RankLedger> ledgers;  // by rank
  Trace trace;
  double seconds = 0;  // of the slowest rank: virtual or wall-clock time; when emulating, wall-clock / emulate_scale
  double wall_seconds = 0;  // real time: of the simulation, or of the slowest rank
  std::uint64_t messages = 0;

  bool passed() const { return verdict == Verdict::pass; }
  /// Throws Error(verdict, message) unless passed.
  const Outcome& check() const;
};

/// For backends: adds the totals of the ledgers, and how the run ended, to the trace.
void note_end(Outcome& outcome);

/// Runs `program` on ranks 0 … options.ranks − 1 and waits for all. A failing program is an Outcome, not an exception;
/// bad options (ranks < 1, more ranks than MPI processes) throw Error(usage).
/// On MPI, every process calls it with the same options; processes beyond options.ranks wait without using a core.
/// After a failed run, further runs work as usual. The whole job ends, with a non-zero exit code, only if a process
/// dies, or if a rank is still running timeout_seconds after another has failed (2 s after a TIMEOUT).
Outcome run(const RunOptions& options, const Program& program);

/// For programs that return nothing.
template <class F>
requires std::is_void_v<std::invoke_result_t<F, Rank>> Outcome run(const RunOptions& options, F program) {
  return run(options, Program([program](Rank me) {
               program(me);
               return Values{};
             }));
}

/// "sim", "mpi", "cuda" or "nccl": the backend linked in.
const char* backend_name();
/// True in the one process that prints and checks results: always in the simulator, process 0 on MPI.
bool is_judge();
/// True if each of the first `ranks` ranks has a processor core of its own, counting all hosts. Always true in the
/// simulator, never for ranks that share a GPU.
bool has_core_each(int ranks);
/// Initialises the backend (MPI_Init; nothing in the simulator) and finalises it at the end of main. Make one at the
/// start of main. available_ranks() is the world's size, or 0 for any number.
class Session {
 public:
  Session(int& argc, char**& argv);
  ~Session();
  Session(const Session&) = delete;
  int available_ranks() const;
};

}  // namespace lockstep
