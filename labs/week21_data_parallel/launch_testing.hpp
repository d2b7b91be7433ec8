// What the tests of exercise 21.13 use: environments as launchers leave them, refusals, and a clock, a store and
// processes that exist only here.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "common/testing/drawn.hpp"
#include "labs/week21_data_parallel/launch.hpp"

namespace lockstep::week21::launch_test {

/// Draws other numbers with each --seed.
inline std::mt19937 random_for(std::uint64_t test) {
  return std::mt19937(static_cast<unsigned>(test * 7919 + testing::drawn({21, 13, test}, 1u << 30)));
}
inline int draw(std::mt19937& random, int least, int most) {
  return least + static_cast<int>(random() % static_cast<unsigned>(most - least + 1));
}

struct Environment {
  std::map<std::string, std::string> values;

  Variables variables() const {
    return [this](const char* name) {
      const auto found = values.find(name);
      return found == values.end() ? nullptr : found->second.c_str();
    };
  }
  Environment with(const std::string& name, const std::string& value) const {
    Environment other = *this;
    other.values[name] = value;
    return other;
  }
  Environment with(const Environment& inner) const {  // what is started inside overrides
    Environment other = inner;
    other.values.insert(values.begin(), values.end());
    return other;
  }
  Environment without(const std::string& name) const {
    Environment other = *this;
    other.values.erase(name);
    return other;
  }
  std::string words() const {
    std::string all;
    for (const auto& [name, value] : values) all += fmt::format(" {}={}", name, value);
    return all;
  }
};

/// Process `rank` of `ranks` on hosts of `per_host`, which are filled one after the other.
struct Started {
  int rank = 0, ranks = 1, per_host = 1;
  int local() const { return rank % per_host; }
};
inline Environment by_torchrun(Started s, int restarts = 0) {
  return {{{"RANK", fmt::to_string(s.rank)},
           {"WORLD_SIZE", fmt::to_string(s.ranks)},
           {"LOCAL_RANK", fmt::to_string(s.local())},
           {"LOCAL_WORLD_SIZE", fmt::to_string(s.per_host)},
           {"GROUP_RANK", fmt::to_string(s.rank / s.per_host)},
           {"MASTER_ADDR", "gpu01"},
           {"MASTER_PORT", "29400"},
           {"TORCHELASTIC_RESTART_COUNT", fmt::to_string(restarts)},
           {"TORCHELASTIC_MAX_RESTARTS", "3"}}};
}
inline Environment by_open_mpi(Started s) {
  return {{{"OMPI_COMM_WORLD_RANK", fmt::to_string(s.rank)},
           {"OMPI_COMM_WORLD_SIZE", fmt::to_string(s.ranks)},
           {"OMPI_COMM_WORLD_LOCAL_RANK", fmt::to_string(s.local())},
           {"OMPI_COMM_WORLD_LOCAL_SIZE", fmt::to_string(s.per_host)},
           {"OMPI_COMM_WORLD_NODE_RANK", fmt::to_string(s.local())},
           {"PMIX_RANK", fmt::to_string(s.rank)}}};
}
inline Environment by_mpich(Started s) {
  return {{{"PMI_RANK", fmt::to_string(s.rank)},
           {"PMI_SIZE", fmt::to_string(s.ranks)},
           {"PMI_FD", "7"},
           {"MPI_LOCALRANKID", fmt::to_string(s.local())},
           {"MPI_LOCALNRANKS", fmt::to_string(s.per_host)}}};
}
inline Environment by_slurm(Started s) {
  return {{{"SLURM_PROCID", fmt::to_string(s.rank)},
           {"SLURM_NTASKS", fmt::to_string(s.ranks)},
           {"SLURM_LOCALID", fmt::to_string(s.local())},
           {"SLURM_NODEID", fmt::to_string(s.rank / s.per_host)},
           {"SLURM_STEP_NUM_TASKS", fmt::to_string(s.ranks)},
           {"SLURM_JOB_ID", "70007"},
           {"SLURM_JOB_NODELIST", "gpu[07-09,12]"}}};
}
/// What a job's shell has, of salloc or of a batch script's first lines: it is no task of srun's.
inline Environment in_a_shell_of_slurm(int ranks) {
  return {
      {{"SLURM_NTASKS", fmt::to_string(ranks)}, {"SLURM_JOB_ID", "70007"}, {"SLURM_JOB_NODELIST", "gpu[07-09,12]"}}};
}

/// What f returns. Where it refuses instead, a failure that says what was asked: `what`.
template <class F>
auto unless_refused(const std::string& what, const F& f) -> std::optional<decltype(f())> {
  try {
    return f();
  } catch (const Error& error) {
    if (error.verdict() != Verdict::usage) throw;
    ADD_FAILURE() << what << ". It was refused: \"" << error.what() << '"';
    return std::nullopt;
  }
}

/// `f` must throw an Error of `verdict` whose words contain `word`; what is not written yet is no refusal.
template <class F>
void expect_error(Verdict verdict, const std::string& word, const std::string& what, const F& f) {
  try {
    f();
  } catch (const Error& error) {
    if (error.verdict() == Verdict::not_implemented || error.verdict() == Verdict::does_not_compile) throw;
    if (error.verdict() != verdict)
      ADD_FAILURE() << what << ": refused as " << to_string(error.verdict()) << ", expected " << to_string(verdict)
                    << ". Its message: " << error.what();
    else if (std::string(error.what()).find(word) == std::string::npos)
      ADD_FAILURE() << what << ": the message does not name " << word << ". It is: " << error.what();
    return;
  } catch (const std::exception& other) {
    ADD_FAILURE() << what << ": ended with an exception that is not an Error, " << other.what();
    return;
  }
  ADD_FAILURE() << what << ": was not refused";
}

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

}  // namespace lockstep::week21::launch_test
