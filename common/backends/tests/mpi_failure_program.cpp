// Fails in the way that its first argument names; mpi_failure_test.sh checks what is left. Exit code 1 if a failed run
// is an Outcome; the other ways end the job from outside. The second argument is the number of elements in a message.
// bound-apart and bound-together print whether has_core_each notices the launcher's binding.
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "common/arithmetic.hpp"
#include "common/runtime/run.hpp"
#include "common/support/host/host.hpp"

using namespace lockstep;

namespace {

void ring(Rank me, Slice out, Slice in) {
  const int p = me.size();
  me.exchange({send((me.rank() + 1) % p, out), receive((me.rank() + p - 1) % p, in)});
}

void receive_first(Rank me, Slice out, Slice in) {
  const int p = me.size();
  me.exchange({receive((me.rank() + p - 1) % p, in)});
  me.exchange({send((me.rank() + 1) % p, out)});
}

void compute_for(double seconds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < until) {
  }
}

/// No message moves for longer than it takes to find a deadlock, and yet the run is fine: ranks sleep, compute, or let
/// a queue compute, while the others wait for them.
void be_slow(Rank me, Slice out, Slice in) {
  Rank comm = me.stream("comm");
  if (me.rank() == 1) usleep(3'000'000);
  ring(me, out, in);
  const Ticket closure = me.run(comm, [=](Rank queue) {
    if (queue.rank() == 2) compute_for(1.5);
    ring(queue, out, in);
  });
  if (me.rank() == 3) usleep(1'500'000);  // before it calls split
  (void)me.split(0, 0);
  me.wait(closure);
}

/// Ranks 0 and 1 deadlock; the others never wait.
void deadlock_of_two(Rank me, Slice out, Slice in) {
  if (me.rank() > 1) compute_for(1e9);
  me.exchange({receive(1 - me.rank(), in)});
  me.exchange({send(1 - me.rank(), out)});
}

void fail(Rank me, std::string_view way, std::size_t count) {
  if (way == "loops" && me.rank() == 1) compute_for(1e9);
  Slice out = me.allocate(count, DType::f32, Category::buffer), in = me.allocate(count, DType::f32, Category::buffer);
  fill(me, out, 1);
  ring(me, out, in);
  if (way == "deadlock") receive_first(me, out, in);
  if (way == "two") deadlock_of_two(me, out, in);
  if (way == "slow" || way == "emulated") return way == "slow" ? be_slow(me, out, in) : ring(me, out, in);
  if (me.rank() == 1) {
    if (way == "throw") throw std::runtime_error("rank 1 has had enough");
    if (way == "killed") raise(SIGKILL);
    if (way == "stuck")
      while (true) usleep(1000);  // code of its own that never ends
  }
  while (way != "good") ring(me, out, in);
}

/// Binds like a launcher: the second process to another core than the first, or to the same. −1 if there is no such
/// core.
int bind(bool apart) {
  const std::vector<int> threads = allowed_threads();
  const char* local = std::getenv("OMPI_COMM_WORLD_LOCAL_RANK");
  if (!local) local = std::getenv("MPI_LOCALRANKID");
  const bool first = !local || std::string_view(local) == "0";
  int other = -1;
  for (const int thread : threads)
    if (read_host("", {threads[0], thread}).usable_cores == 2) other = thread;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CPU_SET(apart && !first && other >= 0 ? other : threads[0], &mask);
  return sched_setaffinity(0, sizeof mask, &mask) == 0 ? other : -1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view way = argc > 1 ? argv[1] : "good";
  const bool bound = way.starts_with("bound"), possible = bound && bind(way == "bound-apart") >= 0;
  Session session(argc, argv);
  if (bound) {
    const bool each = has_core_each(session.available_ranks());
    if (is_judge()) fmt::print("{}\n", !possible ? "no second core" : each ? "a core each" : "a core for all");
    return 0;
  }
  const std::size_t count = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1000;
  RunOptions options;
  options.ranks = session.available_ranks();
  const bool soon = way == "deadlock" && std::string_view(backend_name()) == "mpi";  // found before the timeout
  options.timeout_seconds = soon || way == "slow" || way == "emulated" ? 20 : 1;
  options.emulate = way == "emulated";
  if (options.emulate) options.machine = Machine::uniform(1.5, 1e-9, 1e-10);  // a message takes 1.5 s
  const Outcome outcome = run(options, [way, count](Rank me) { fail(me, way, count); });
  if (is_judge()) fmt::print("{} {}\n", to_string(outcome.verdict), outcome.message);
  return outcome.passed() ? 0 : 1;
}
