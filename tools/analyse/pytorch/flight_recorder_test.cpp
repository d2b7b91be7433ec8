// Tests that dumps of flight recorders are compared: two that Gloo's wrote, and others with the fields of NCCL's.
#include "tools/analyse/pytorch/flight_recorder.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>

#include "common/error.hpp"
#include "tools/analyse/pytorch/pytorch_testing.hpp"

namespace lockstep::pytorch {
namespace {

Flight compare_samples(const std::string& name) {
  return compare({read_flight_record(sample(name + "-rank1.json")), read_flight_record(sample(name + "-rank0.json"))});
}

TEST(FlightRecorder, WhatGlooRecorded) {
  const Flight missing = compare_samples("missing");
  ASSERT_EQ(missing.findings.size(), 1u);
  EXPECT_EQ(missing.findings[0].kind, "MISSING");
  EXPECT_EQ(missing.findings[0].sequence, 4);
  EXPECT_NE(page_of("pytorch.md").find(format(missing)), std::string::npos) << format(missing);
  const Flight mismatch = compare_samples("mismatch");
  ASSERT_EQ(mismatch.findings.size(), 1u);
  EXPECT_EQ(mismatch.findings[0].kind, "MISMATCH");
  EXPECT_EQ(mismatch.findings[0].text,
            "collective 4 of default_pg: rank 1 runs all_gather of [1024] Float, rank 0 runs all_reduce of [1024] "
            "Float.");
}

/// A dump with the fields of NCCL's, of collectives of 16 numbers.
class Dump {
 public:
  explicit Dump(int rank) : rank_(rank) {}
  Dump& add(int number, const std::string& name, const std::string& state, int elements = 16) {
    entries_ += fmt::format(
        R"({}{{"process_group": ["0", "default_pg"], "collective_seq_id": {}, "is_p2p": false,
            "profiling_name": "nccl:{}", "state": "{}", "retired": {}, "input_sizes": [[{}]], "output_sizes": [[{}]],
            "input_dtypes": ["BFloat16"], "frames": [{{"name": "all", "filename": "/x/torch/d.py", "line": 1}},
            {{"name": "step", "filename": "/home/me/train.py", "line": {}}}]}})",
        entries_.empty() ? "" : ",", number, name, state, state == "completed", elements, elements, 40 + number);
    return *this;
  }
  std::string write() const {
    const std::string path = fmt::format("{}/nccl_trace_rank_{}", testing::TempDir(), rank_);
    std::ofstream(path) << fmt::format(
        R"({{"version": "2.10", "pg_config": {{"0": {{"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2]"}}}},
            "pg_status": {{}}, "entries": [{}]}})",
        entries_);
    EXPECT_TRUE(is_flight_record(path));
    return path;
  }

 private:
  int rank_;
  std::string entries_;
};

Flight of(const std::vector<Dump>& dumps) {
  std::vector<FlightRecord> ranks;
  for (const Dump& dump : dumps) ranks.push_back(read_flight_record(dump.write()));
  return compare(std::move(ranks));
}
std::string only_finding(const std::vector<Dump>& dumps) {
  const Flight flight = of(dumps);
  return flight.findings.size() == 1 ? flight.findings[0].kind + " " + flight.findings[0].text : "";
}

TEST(FlightRecorder, TheFirstDifferenceOfEachGroupIsNamed) {
  const auto done = [](int rank) { return Dump(rank).add(7, "all_reduce", "completed"); };
  EXPECT_TRUE(of({done(0), done(1), done(2)}).findings.empty());
  EXPECT_EQ(only_finding({done(0).add(8, "all_reduce", "started"), done(1), done(2).add(8, "all_reduce", "started")}),
            "MISSING collective 8 of default_pg: ranks 0, 2 are in all_reduce of [16] BFloat16 at train.py:48, rank 1 "
            "is not. Rank 1's last is 7, all_reduce of [16] BFloat16 at train.py:47, completed.");
  EXPECT_EQ(only_finding({done(0).add(8, "all_reduce", "started"), done(1).add(8, "all_reduce", "started", 8),
                          done(2).add(8, "all_reduce", "started")}),
            "MISMATCH collective 8 of default_pg: ranks 0, 2 run all_reduce of [16] BFloat16 at train.py:48, rank 1 "
            "runs all_reduce of [8] BFloat16 at train.py:48.");
  const std::string behind =
      only_finding({done(0).add(8, "all_reduce", "started"), done(1).add(8, "all_reduce", "scheduled"),
                    done(2).add(8, "all_reduce", "started")});
  EXPECT_NE(behind.find("UNFINISHED collective 8"), behind.npos) << behind;
  EXPECT_NE(behind.find("scheduled on rank 1, started on ranks 0, 2"), behind.npos) << behind;
  EXPECT_NE(behind.find("earlier work of that rank's GPU"), behind.npos) << behind;
  EXPECT_TRUE(of({done(0).add(8, "all_to_all", "completed", 4), done(1).add(8, "all_to_all", "completed", 8),
                  done(2).add(8, "all_to_all", "completed")})
                  .findings.empty())
      << "ranks may send different numbers";
  EXPECT_EQ(of({done(0), done(2)}).absent, std::vector<int>{1});
  // A ring buffer that has forgotten what others still have.
  EXPECT_TRUE(of({done(0), done(1).add(8, "all_reduce", "completed"), Dump(2).add(8, "all_reduce", "completed")})
                  .findings[0]
                  .text.find("rank 0 is not") != std::string::npos);
}

TEST(FlightRecorder, WhatCannotBeReadIsRefused) {
  const auto said = [](const std::string& name, const std::string& text) -> std::string {
    const std::string path = testing::TempDir() + "/" + name;
    std::ofstream(path) << text;
    try {
      read_flight_record(path);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(said("dump_0", "\x80\x02}q").find("pickle.load"), std::string::npos);
  EXPECT_NE(said("dump", "{}").find("which rank"), std::string::npos);
  EXPECT_NE(said("dump_0", "{").find("cut short"), std::string::npos);
  EXPECT_NE(said("dump_0", "{}").find("entries"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::pytorch
