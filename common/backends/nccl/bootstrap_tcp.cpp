// Rank 0 listens at a TCP port, receives from every process and answers all. Needs no shared file system and no MPI.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <thread>

#include "common/backends/nccl/bootstrap.hpp"
#include "common/backends/nccl/socket.hpp"
#include "common/error.hpp"
#include "common/support/text/parse_number.hpp"

namespace lockstep::nccl {

namespace {

using Clock = std::chrono::steady_clock;

Clock::time_point in_seconds(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}
int whole_seconds(double seconds) { return std::max(1, static_cast<int>(std::ceil(seconds))); }

/// First words of a caller, followed by its rank.
constexpr std::string_view kHello = "lockstep rank ";

class Tcp : public Bootstrap {
 public:
  explicit Tcp(const Environment& environment) : environment_(environment) {}
  int rank() const override { return environment_.rank; }
  int size() const override { return environment_.ranks; }

 protected:
  Environment environment_;
};

class Rank0 final : public Tcp {
 public:
  Rank0(int port, const Environment& environment)
      : Tcp(environment), listening_(listen_at(port)), callers_(static_cast<std::size_t>(environment.ranks)) {}

  std::vector<std::string> all_gather(const std::string& mine) override {
    std::vector<std::string> all(callers_.size());
    all[0] = mine;
    const auto until = in_seconds(environment_.timeout_seconds);
    for (std::size_t from = 1; from < all.size(); ++from) {
      while (!callers_[from] && Clock::now() < until) let_in();
      callers_[from].wait_at_most(whole_seconds(environment_.timeout_seconds));
      if (!callers_[from] || !callers_[from].receive_text(all[from]))
        throw Error(Verdict::fail, fmt::format("rank 0 waited {:g} s at {} for rank {} of {}, which did not connect",
                                               environment_.timeout_seconds, environment_.store, from, size()));
    }
    for (std::size_t to = 1; to < all.size(); ++to)
      for (const std::string& text : all) callers_[to].send_text(text);  // a caller that has gone is noticed next time
    return all;
  }

 private:
  void let_in() {
    Socket caller = accept_from(listening_, 0.1);
    caller.wait_at_most(2);  // a caller that says nothing does not belong to the job
    std::string hello;
    if (!caller || !caller.receive_text(hello) || !hello.starts_with(kHello)) return;
    const char *begin = hello.data() + kHello.size(), *end = hello.data() + hello.size();
    std::size_t rank = 0;
    if (std::from_chars(begin, end, rank).ptr == end && rank > 0 && rank < callers_.size())
      callers_[rank] = std::move(caller);
  }

  Socket listening_;
  std::vector<Socket> callers_;  // by rank; [0] stays empty
};

class Caller final : public Tcp {
 public:
  Caller(const std::string& host, int port, const Environment& environment) : Tcp(environment) {
    const double seconds = environment.timeout_seconds;
    const auto until = in_seconds(seconds);
    while (!(socket_ = connect_to(host, port, seconds))) {
      if (Clock::now() > until)
        throw Error(Verdict::fail, fmt::format("no answer from {}, where rank 0 listens ({} waited {:g} s): is rank 0 "
                                               "running, and does a firewall block that port?",
                                               environment.store, host_name(), seconds));
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    socket_.wait_at_most(whole_seconds(2 * seconds));  // rank 0 gives up earlier, and closes the connection
    socket_.send_text(fmt::format("{}{}", kHello, environment.rank));
  }

  std::vector<std::string> all_gather(const std::string& mine) override {
    std::vector<std::string> all(static_cast<std::size_t>(size()));
    bool heard = socket_.send_text(mine);
    for (std::string& text : all) heard = heard && socket_.receive_text(text);
    if (!heard) throw Error(Verdict::fail, fmt::format("the connection to rank 0 at {} was lost", environment_.store));
    return all;
  }

 private:
  Socket socket_;
};

[[noreturn]] void bad_store(const std::string& text) {
  throw Error(Verdict::usage, fmt::format("LOCKSTEP_STORE={}: tcp://HOST:PORT, where rank 0 can listen", text));
}

}  // namespace

std::unique_ptr<Bootstrap> make_tcp_bootstrap(const Environment& e) {
  constexpr std::string_view tcp = "tcp://";
  if (!e.store.starts_with(tcp)) bad_store(e.store);
  const std::string text = e.store.substr(tcp.size());
  const auto colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) bad_store(e.store);
  const int port = parse_number<int>(std::string_view(text).substr(colon + 1)).value_or(0);
  if (port < 1 || port > 65535) bad_store(e.store);
  if (e.rank == 0) return std::make_unique<Rank0>(port, e);
  return std::make_unique<Caller>(text.substr(0, colon), port, e);
}

}  // namespace lockstep::nccl
