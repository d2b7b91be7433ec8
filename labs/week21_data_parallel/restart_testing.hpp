// Shared by the tests of exercise 21.14: a clock, a store and processes that exist only here.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "labs/week21_data_parallel/launch_testing.hpp"
#include "labs/week21_data_parallel/restart.hpp"

namespace lockstep::week21::restart_test {

using launch_test::draw;
using launch_test::expect_error;
using launch_test::random_for;

/// Time that passes only by sleeping. Code that polls without sleeping, or waits for an hour, is stopped.
class MadeUpTime {
 public:
  double now() {
    look();
    return now_;
  }
  void sleep(double seconds) {
    if (!(seconds >= 0 && seconds <= 1.0))
      throw Error(Verdict::fail, fmt::format("sleep({:g}): check at least once a second", seconds));
    if (seconds > 0) looks_ = 0;
    now_ += seconds;
    if (now_ > begin_ + 3600) throw Error(Verdict::fail, "after an hour it is still waiting");
  }
  void look() {
    if (++looks_ > 1'000'000) throw Error(Verdict::fail, "it checked a million times without sleeping: busy waiting");
  }
  double passed() const { return now_ - begin_; }

 private:
  double begin_ = 5000, now_ = begin_;
  int looks_ = 0;
};

/// A store in which peers set their keys at given times.
class MadeUpStore : public Store {
 public:
  void comes(const std::string& key, double at, int value) { peers_[key] = {at, fmt::to_string(value)}; }
  void set(const std::string& key, const std::string& value) override {
    if (peers_.contains(key)) wrong = "it set " + key + ", which is another rank's";
    peers_[key] = {time.passed(), value};
    own.push_back({key, value, time.passed()});
  }
  std::optional<std::string> get(const std::string& key) override {
    time.look();
    const auto found = peers_.find(key);
    if (found == peers_.end() || found->second.at > time.passed()) return std::nullopt;
    return found->second.value;
  }
  double now() override { return time.now(); }
  void sleep(double seconds) override { time.sleep(seconds); }

  struct Own {
    std::string key, value;
    double at;
  };
  MadeUpTime time;
  std::vector<Own> own;
  std::string wrong;

 private:
  struct Peer {
    double at;
    std::string value;
  };
  std::map<std::string, Peer> peers_;
};

/// Processes that end by themselves at given times, and react to signals as they like.
class MadeUpProcesses : public Processes {
 public:
  static constexpr double kVanishing = 0.3;  ///< seconds from SIGKILL to the end
  struct Process {
    double ends = 0;  ///< by itself
    int code = 0;
    double after_terminate = 0.2;  ///< seconds from SIGTERM to the end; infinite: it ignores it
    int code_after_terminate = 128 + 15;
    double terminated = -1, killed = -1;  ///< when; −1: never
    double end() const {
      const double by_signal = terminated < 0 ? INFINITY : terminated + after_terminate;
      return std::min({ends, by_signal, killed < 0 ? INFINITY : killed + kVanishing});
    }
    int final_code() const {
      if (end() == ends) return code;
      return end() == killed + kVanishing ? 128 + 9 : code_after_terminate;
    }
  };
  explicit MadeUpProcesses(std::vector<Process> all) : processes(std::move(all)) {}
  int count() const override { return static_cast<int>(processes.size()); }
  std::optional<int> exit_code(int i) override {
    time.look();
    const Process& process = of(i);
    return runs(process) ? std::nullopt : std::optional(process.final_code());
  }
  void terminate(int i) override { signal(i, "SIGTERM", of(i).terminated); }
  void kill(int i) override { signal(i, "SIGKILL", of(i).killed); }
  double now() override { return time.now(); }
  void sleep(double seconds) override { time.sleep(seconds); }
  bool any_runs() const {
    return std::ranges::any_of(processes, [&](const Process& process) { return runs(process); });
  }

  MadeUpTime time;
  std::vector<Process> processes;
  std::string wrong;

 private:
  bool runs(const Process& process) const { return time.passed() < process.end(); }
  Process& of(int i) {
    if (i < 0 || i >= count()) throw Error(Verdict::fail, fmt::format("there is no process {} of {}", i, count()));
    return processes[static_cast<std::size_t>(i)];
  }
  void signal(int i, const char* name, double& when) {
    if (!runs(of(i))) wrong = fmt::format("process {} got {} after it had ended", i, name);
    if (when >= 0) wrong = fmt::format("process {} got {} twice", i, name);
    when = time.passed();
  }
};

}  // namespace lockstep::week21::restart_test
