// Control messages between all processes of a job, over TCP; NCCL moves the data. The connections of a process that
// dies are closed, so all others notice at once.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "common/backends/nccl/bootstrap.hpp"
#include "common/backends/nccl/socket.hpp"

namespace lockstep::nccl {

/// Topic of a message. Control messages with one label from one rank arrive in the order sent.
struct Label {
  enum class Kind : std::uint32_t { gather, header, control };
  Kind kind = Kind::gather;
  std::uint64_t run = 0;                           // counts calls of run()
  std::uint64_t key = 0;                           // identifies a collective or an endpoint
  auto operator<=>(const Label&) const = default;  // NOLINT(modernize-use-nullptr): for clang-tidy 14
};

class Control {
 public:
  /// Callbacks for events of the whole job; each is called at most once, on a thread of the control plane.
  struct Alarms {
    std::function<void(int rank)> lost;                  // a process ended without a goodbye: it has died
    std::function<void(const std::string& text)> ended;  // a process ended the job, for this reason
  };

  /// Collective: connects every process to every other. Throws Error(fail) that names an unreachable process.
  Control(Bootstrap& bootstrap, double timeout_seconds, Alarms alarms);
  /// Says goodbye, and waits until all others have: processes of a job end together.
  ~Control();
  Control(const Control&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(peers_.size()); }

  /// Sends a message, also to oneself. Messages to processes that have left are dropped.
  void send(int to, Label label, const std::string& text);
  std::optional<std::string> take(int from, Label label);
  /// Tells all processes that the job is over.
  void end_job(const std::string& text);

  /// Counts control messages and departures. wait_for_news returns once it is above `seen`, or after `at_most`.
  std::uint64_t news() const;
  void wait_for_news(std::uint64_t seen, std::chrono::microseconds at_most);
  bool has_left(int rank) const;
  /// Discards control messages of runs before `run`.
  void forget_before(std::uint64_t run);

 private:
  struct Frame;
  struct Peer {
    Socket socket;
    std::mutex sending;
    std::thread reader;
    std::atomic<bool> left{false};
  };
  void connect_all(Bootstrap& bootstrap, double timeout_seconds);
  Socket reach(int rank, const std::string& card, double timeout_seconds);
  void send_frame(int to, const Frame& frame, const std::string& text);
  void read_from(int rank);
  void deliver(int from, Label label, std::string text);
  void note_departure(int rank);

  int rank_;
  Alarms alarms_;
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank; ours has no socket
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<std::tuple<Label, int>, std::deque<std::string>> boxes_;  // by label and sender
  std::uint64_t news_ = 0;
  std::uint64_t oldest_run_ = 0;
  std::atomic<bool> leaving_{false};
};

/// Every member's bytes, by index in `members`, which includes the caller. `label` identifies this collective. Returns
/// early, with an empty vector, once stop() holds; throws Error(fail) if a member has left for good.
std::vector<std::string> all_gather(
    Control& control, Label label, const std::vector<int>& members, const std::string& mine,
    const std::function<bool()>& stop = [] { return false; });

/// A number for a collective or an endpoint; all its members compute the same.
std::uint64_t key_of(const std::vector<int>& members, const std::string& name, std::uint64_t number = 0);

}  // namespace lockstep::nccl
