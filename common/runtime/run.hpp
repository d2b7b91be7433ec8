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
  Machine machine = Machine::uniform(1e-6, 1e-9, 1e-10);  // prices of the simulator, or of --emulate
  bool phantom = false;                                   // no memory, no arithmetic, only prices (simulator)
  bool check_races = true;                                // simulator; MPI: a header before each message, so that
                                                          // sizes, types and collectives of both ends are compared
  bool poison = true;                                     // new memory is filled with NaN patterns
  std::optional<std::uint64_t> perturb;                   // simulator: run queued work early or late, by this seed
  bool trace = false;
  int traced_ranks = 0;         // with a trace: only the first so many ranks record their events; 0: all do
  int threads = 0;              // of the CPU's arithmetic, each rank; 0: as many as there are usable cores for it
  bool emulate = false;         // MPI: sleep until the machine's modelled time of each operation and message has passed
  double emulate_scale = 1;     // modelled seconds × scale = wall-clock seconds
  bool tf32 = false;            // GPUs: products of fp32 round their operands to 10 bits, for tensor cores
  double timeout_seconds = 20;  // MPI, GPUs: without progress for so long, the run ends and tells what each rank does;
                                // on MPI, for what is no deadlock, which is known within 2 s
  std::size_t stack_bytes = 256 * 1024;  // simulator: of each fiber
};

/// Whether this rank records what it does.
inline bool is_traced(const RunOptions& options, int rank) {
  return options.trace && (options.traced_ranks == 0 || rank < options.traced_ranks);
}

/// What one rank saw, for one place to judge.
using Values = std::vector<double>;
using Program = std::function<Values(Rank)>;

/// How a run ended. On MPI every process gets the same Outcome, except `trace` (rank 0 only).
struct Outcome {
  Verdict verdict = Verdict::pass;
  std::string message;  // empty when passed; else complete
  int failed_rank = -1;
  std::vector<Values> values;       // by rank
  std::vector<RankLedger> ledgers;  // by rank
  Trace trace;
  double seconds = 0;       // the slowest rank's: virtual, or wall-clock; emulated: wall-clock / emulate_scale
  double wall_seconds = 0;  // that really passed: of the simulation, or of the slowest rank
  std::uint64_t messages = 0;

  bool passed() const { return verdict == Verdict::pass; }
  /// Throws Error(verdict, message) unless passed.
  const Outcome& check() const;
};

/// Of backends: notes in the trace what the ledgers say, and how the run ended.
void note_end(Outcome& outcome);

/// Runs `program` on ranks 0 … options.ranks − 1 and waits for all. A failing program is an Outcome, not an exception;
/// bad options (ranks < 1, more ranks than MPI processes) throw Error(usage).
/// On MPI every process calls it, with the same options; those beyond options.ranks wait without using a core. A failed
/// run is followed by others as usual. Only a rank that does not end within timeout_seconds after another has failed
/// (after a TIMEOUT: within 2 s), or a process that dies, ends the whole job, with an exit code that is not 0.
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
/// True in the one process that prints and judges: always in the simulator, MPI's process 0.
bool is_judge();
/// Whether the first `ranks` ranks have a processor core each, on whichever hosts they are. The simulator's have; those
/// that share a GPU do not.
bool has_core_each(int ranks);
/// Call once at the start and at the end of main: MPI's initialisation; nothing in the simulator. The number of ranks
/// available is the world's size, or 0 for any.
class Session {
 public:
  Session(int& argc, char**& argv);
  ~Session();
  Session(const Session&) = delete;
  int available_ranks() const;
};

}  // namespace lockstep
