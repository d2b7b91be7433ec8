// Shared by the tests of exercise 21.13: environments as launchers leave them, and refusals.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "common/runtime/errors.hpp"
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
  Environment with(const Environment& inner) const {  // inner settings override
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
/// The environment of a job's shell, of salloc or of a batch script's first lines: it is no task of srun's.
inline Environment in_a_shell_of_slurm(int ranks) {
  return {
      {{"SLURM_NTASKS", fmt::to_string(ranks)}, {"SLURM_JOB_ID", "70007"}, {"SLURM_JOB_NODELIST", "gpu[07-09,12]"}}};
}

/// Returns f's result. If it refuses instead, a failure says what was asked: `what`.
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

/// `f` must throw an Error of `verdict` whose words contain `word`; an answer that is not written yet is no refusal.
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
  } catch (const std::exception&) {
    ADD_FAILURE() << what << ": " << caught({}).what << ", expected an Error";
    return;
  }
  ADD_FAILURE() << what << ": was not refused";
}

}  // namespace lockstep::week21::launch_test
