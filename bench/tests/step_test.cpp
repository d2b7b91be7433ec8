// Benchmarks of a training step and of its parts, from outside: ddp, gpt, activations, tp, overhead, scaling.
#include <cmath>
#include <map>
#include <string>

#include "bench/programs/bench_program.hpp"

namespace lockstep::bench {
namespace {

TEST_F(BenchProgram, OverlapHidesCommunicationAndTheStepIsPredicted) {
  Json rows = rows_of("--ranks 4 --machine dgx-a100 --batch 2 --microbatches 1,2", "ddp");
  ASSERT_EQ(rows.size(), 8u);
  for (std::size_t i = 0; i < 8; i += 4) {
    double compute = rows[i].at("seconds"), after = rows[i + 1].at("seconds"), overlapped = rows[i + 2].at("seconds"),
           communication = rows[i + 3].at("seconds");
    EXPECT_LT(compute, overlapped);
    EXPECT_LT(overlapped, after);
    EXPECT_NEAR(after / (compute + communication), 1, 1e-3);
    EXPECT_EQ(rows[i + 1].at("verified"), true);
    EXPECT_EQ(rows[i + 2].at("verified"), true);
    EXPECT_GT(rows[i + 2].at("hidden_fraction"), 0.1);
    double bytes = rows[i].at("bytes");
    EXPECT_NEAR(rows[i + 2].at("bytes_sent_per_rank_max").get<double>() / (bytes * 2 * 3 / 4), 1, 0.01);
    for (std::size_t k = 0; k < 4; ++k)
      EXPECT_NEAR(rows[i + k].at("predicted_seconds").get<double>() / rows[i + k].at("seconds").get<double>(), 1, 0.02)
          << rows[i + k];
  }
}

TEST_F(BenchProgram, AStepIsPricedAndItsModelFlopAreCounted) {
  Json rows = rows_of("--phantom --machine dgx-h200 --model gpt2-124m --batch 16 --sequence 1024 --matmul 8192", "gpt");
  ASSERT_EQ(rows.size(), 2u);
  const Json& step = rows[0];
  const double matrices = 12 * 12 * 768.0 * 768 + 50257.0 * 768, attention = 6 * 12 * 768.0 * 1024;
  EXPECT_EQ(step.at("model_flop_per_token").get<double>(), 6 * matrices + attention);
  const double seconds = step.at("seconds"), flop = 16 * 1024 * (6 * matrices + attention);
  EXPECT_NEAR(step.at("flop_per_second").get<double>() * seconds / flop, 1, 1e-12);
  EXPECT_NEAR(step.at("mfu").get<double>() * 989e12 * seconds / flop, 1, 1e-12);
  EXPECT_NEAR(step.at("predicted_seconds").get<double>() / seconds, 1, 1e-9)
      << "the simulator prices the same operations";
  EXPECT_EQ(step.at("vocabulary"), 50257);
  EXPECT_LT(step.at("fraction_of_matmul_rate"), 1);
  EXPECT_EQ(rows[1].at("fraction_of_matmul_rate"), 1);
}

TEST_F(BenchProgram, AVocabularyCanBePadded) {
  Json rows = rows_of("--phantom --machine dgx-h200 --model gpt2-124m --vocabulary 50304 --sequence 64", "gpt");
  EXPECT_EQ(rows[0].at("vocabulary"), 50304);
  EXPECT_EQ(rows[0].at("parameters"), 124439808 + 47 * 768);
}

TEST_F(BenchProgram, AStepOfATinyModelLearns) {
  for (const char* dtype : {"fp32", "bf16"}) {
    Json rows = rows_of(std::string("--model tiny --batch 4 --matmul 64 --dtype ") + dtype, "gpt");
    EXPECT_EQ(rows[0].at("verified"), true);
    EXPECT_EQ(rows[0].at("dtype"), dtype);
  }
  EXPECT_EQ(start("--ranks 2", "gpt"), 2);
  EXPECT_EQ(start("--model tyni", "gpt"), 2);
  EXPECT_EQ(start("--dtype fp32 --pytorch eager", "gpt"), 2) << "beside virtual time";
  EXPECT_EQ(start("--batch 1000000000", "gpt"), 2);
  EXPECT_EQ(err_, "--batch needs a whole number from 1 to 1048576, not '1000000000'\n");
}

TEST_F(BenchProgram, AFullDiskBehindStandardOutputIsAFailure) {
  for (const char* program : {"/bench_schedule_sim", "/bench_memory_sim --params 7e9", "/bench_overhead_sim"}) {
    const int status = std::system((LOCKSTEP_PROGRAMS + std::string(program) + " >/dev/full 2>" + file("err")).c_str());
    EXPECT_EQ(WEXITSTATUS(status), 2) << program;
    EXPECT_NE(read(file("err")).find("cannot write to standard output"), std::string::npos)
        << program << read(file("err"));
  }
}

TEST_F(BenchProgram, ActivationsAreThoseOfTheFormulaToTheByte) {
  for (const char* options : {"--model gpt2-124m --batch 8 --machine dgx-a100 --phantom",
                              "--model tiny --batch 3 --precision fp32 --samples 5"}) {
    const Json rows = rows_of(options, "activations");
    std::map<std::string, double> parts;
    std::size_t modes = 0;
    for (const Json& row : rows) {
      const std::string mode = row.at("attention").get<std::string>() + "/" + row.at("recompute").get<std::string>();
      if (row.contains("part")) {
        parts[mode] += row.at("predicted_bytes").get<double>();
        continue;
      }
      ++modes;
      EXPECT_EQ(row.at("measured_bytes"), row.at("predicted_bytes")) << mode;
      EXPECT_EQ(row.at("measured_bytes"), parts.at(mode)) << mode;
      const double extra = row.at("extra_flop"), predicted = row.at("predicted_extra_flop");
      EXPECT_NEAR(extra, predicted, 0.05 * predicted) << mode;  // elementwise operations, of a tiny model
      if (mode.ends_with("full")) {
        EXPECT_GT(row.at("relative_seconds"), 1) << mode;
      }
    }
    EXPECT_EQ(modes, 5u);
  }
  EXPECT_EQ(start("--precision fp8", "activations"), 2);
}

TEST_F(BenchProgram, TensorParallelAccountComesFromTheLedger) {
  const Json rows = rows_of("--machine dgx-a100 --ranks 2 --phantom --vocabulary 1000", "tp");
  std::uint64_t sums = 0, bytes = 0;
  double communication = 0, alone = 0;
  for (const Json& row : rows) {
    const std::string place = row.at("place");
    if (row.at("algorithm") == "no_overlap" && row.at("pass") != "step")
      communication += row.at("seconds").get<double>();
    if (row.at("algorithm") == "no_overlap" && (place == "attention forward" || place == "mlp forward")) {
      EXPECT_EQ(row.at("bytes_each"), 4u << 20);
      EXPECT_NEAR(row.at("predicted_seconds").get<double>() / row.at("seconds").get<double>(), 1, 1e-9);
      sums += row.at("collectives").get<std::uint64_t>();
      bytes += row.at("total_bytes").get<std::uint64_t>();
    }
    if (row.at("algorithm") == "compute") alone = row.at("seconds");
  }
  EXPECT_EQ(sums, 24u);
  EXPECT_EQ(bytes, 96u << 20);
  const double all = 1000 * 512 + 512 * 512 + 12 * (12 * 512 * 512 + 13 * 512) + 2 * 512;
  const double whole = 512 * 512 + 12 * 6 * 512 + 2 * 512;  // positions, norms, two biases a block
  for (const Json& row : rows) {
    if (row.at("pass") != "step") continue;
    const double seconds = row.at("seconds");
    EXPECT_EQ(row.at("compute_seconds"), alone);
    EXPECT_NEAR(row.at("exposed_seconds"), seconds - alone, 1e-12);
    EXPECT_NEAR(row.at("communication_share"), (seconds - alone) / seconds, 1e-12);
    EXPECT_EQ(row.at("fits_cores"), true);
    EXPECT_EQ(row.at("parameter_bytes"), 2 * (whole + (all - whole) / 2));
    EXPECT_EQ(row.at("replicated_bytes"), 2 * whole);
    if (row.at("algorithm") == "no_overlap") {
      EXPECT_NEAR(seconds, alone + communication, 0.01 * communication);
      EXPECT_NEAR(row.at("communication_seconds"), communication, 0.01 * communication);
    }
    if (row.at("algorithm") == "overlap") {
      EXPECT_LT(seconds, alone + 0.75 * communication);
      EXPECT_GT(row.at("hidden_fraction"), 0.25);
    }
    if (row.at("algorithm") != "sequence_parallel") {
      EXPECT_NEAR(row.at("predicted_seconds"), seconds, 1e-3 * seconds) << row;
      EXPECT_NEAR(row.at("predicted_communication_share"), row.at("communication_share"), 1e-3) << row;
    }
  }
  EXPECT_EQ(start("--ranks 3 --phantom", "tp"), 2);
  EXPECT_NE(err_.find("8 heads do not divide over 3"), std::string::npos) << err_;
}

TEST_F(BenchProgram, TensorParallelAccountOfTwoRanksOnEveryMachine) {
  std::map<std::string, double> bytes, seconds;
  for (const Json& row : rows_of("", "tp")) {
    EXPECT_EQ(row.at("ranks"), 2);
    const std::string place = row.at("place"), machine = row.at("machine");
    if (row.at("algorithm") != "no_overlap" || (place != "attention forward" && place != "mlp forward")) continue;
    bytes[machine] += row.at("total_bytes").get<double>();
    seconds[machine] += row.at("predicted_seconds").get<double>();
  }
  EXPECT_GE(bytes.size(), 7u);
  for (const auto& [machine, sum] : bytes) EXPECT_EQ(sum, 24 * 4 << 20) << machine;
  EXPECT_GT(seconds.at("pcie-box"), 5 * seconds.at("dgx-a100"));
  EXPECT_EQ(seconds.count("dgx-a100-hdr"), 0u) << "two ranks of it are those of dgx-a100";
}

TEST_F(BenchProgram, OverheadShrinksWithTheBandwidth) {
  Json rows = rows_of("--ranks 2 --parameters 1e6,4e6 --links 10,100", "overhead");
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_LT(rows[0].at("efficiency"), rows[1].at("efficiency"));
  EXPECT_EQ(start("--links 0", "overhead"), 2);
  EXPECT_EQ(start("--parameters many", "overhead"), 2);
}

TEST_F(BenchProgram, ScalingStartsFromTheSerialStep) {
  Json rows = rows_of("--ranks 2,4 --machine pcie-box --phantom --model gpt2-124m --batch 64", "scaling");
  ASSERT_EQ(rows.size(), 6u);
  EXPECT_EQ(rows[0].at("speedup"), 1);
  for (std::size_t i : {1, 2}) {
    double speedup = rows[i].at("speedup"), p = rows[i].at("ranks");
    EXPECT_GT(speedup, 1);
    EXPECT_LT(speedup, p);
    EXPECT_NEAR(rows[i].at("karp_flatt").get<double>(), (1 / speedup - 1 / p) / (1 - 1 / p), 1e-12);
  }
  EXPECT_GT(rows[5].at("efficiency"), rows[2].at("efficiency")) << "weak above strong";
}

TEST_F(BenchProgram, ALawIsFittedToAllPointsOrRefusedInWords) {
  const auto context = [&](const std::string& arguments) {
    EXPECT_EQ(start(arguments + " --machine dgx-a100-hdr --phantom --json " + file("law.json"), "scaling"), 0) << err_;
    return Json::parse(read(file("law.json")));
  };
  const Json fits = context("--ranks 2,4,8 --model gpt2-124m --batch 64");
  const Json& fit = fits.at("context");
  double above = 0, below = 0;  // through the origin: s = Σ (p − 1)(p − S) / Σ (p − 1)²
  for (const Json& row : fits.at("rows"))
    if (row.at("scaling") == "weak") {
      const double p = row.at("ranks"), scaled = row.at("speedup");
      above += (p - 1) * (p - scaled);
      below += (p - 1) * (p - 1);
    }
  EXPECT_NEAR(fit.at("gustafson_serial_fraction").get<double>(), above / below, 1e-9);
  EXPECT_LT(fit.at("gustafson_serial_fraction_low"), fit.at("gustafson_serial_fraction_high"));
  EXPECT_LE(fit.at("amdahl_serial_fraction"), 1);
  EXPECT_EQ(fit.at("command_line"),
            "./lab bench scaling --ranks 2,4,8 --model gpt2-124m --batch 64 --machine dgx-a100-hdr --phantom");
  const Json refused = context("--ranks 4,8,16 --model tiny --batch 16").at("context");
  EXPECT_FALSE(refused.contains("amdahl_serial_fraction"));
  EXPECT_NE(refused.at("amdahl_note").get<std::string>().find("more ranks take longer"), std::string::npos);
}

TEST_F(BenchProgram, RingAttentionIsAsPredictedAndZigzagEven) {
  std::size_t seen = 0;
  for (const Json& row :
       rows_of("--machine dgx-a100 --ranks 4 --heads 32 --d-model 4096 --ring-attention 8192,65536", "tp")) {
    ++seen;
    const double seconds = row.at("seconds"), bytes = row.at("peak_bytes"), imbalance = row.at("imbalance");
    EXPECT_NEAR(row.at("predicted_seconds").get<double>() / seconds, 1, 0.05) << row;
    EXPECT_NEAR(row.at("predicted_peak_bytes"), bytes, 1) << row;
    EXPECT_NEAR(imbalance, row.at("algorithm") == "zigzag" ? 1 : 1.75, 0.05) << row;
  }
  EXPECT_EQ(seen, 8u) << "2 lengths, 2 cuts, 2 passes";
}

TEST_F(BenchProgram, MultiplyingWhileRowsTravelPaysFromAsManyRowsAsPredicted) {
  const Json rows = rows_of("--machine dgx-a100 --ranks 8 --d-model 4096 --overlapped-linear 8,128,2048", "tp");
  ASSERT_EQ(rows.size(), 12u) << "3 numbers of rows, 2 layers, 2 orders";
  for (const Json& row : rows) {
    EXPECT_NEAR(field(row, "predicted_seconds") / field(row, "seconds"), 1, 0.05) << row;
    EXPECT_EQ(row.at("rows_to_pay"), 128) << row;
    if (row.at("algorithm") != "ring") continue;
    EXPECT_EQ(field(row, "relative_seconds") < 1, field(row, "rows_per_rank") >= 128) << row;
  }
  EXPECT_GT(field(rows[1], "relative_seconds"), 2) << "8 rows: eight products read the weight eight times";
  EXPECT_NEAR(field(rows[8], "seconds"), 1559.8e-6, 1e-7) << "2,048 rows, gathered first: the handout's table";
  EXPECT_NEAR(field(rows[9], "seconds"), 1059.8e-6, 1e-7) << "and in the ring";
}

TEST_F(BenchProgram, DropoutByAxisIsTheSameOnEveryLayoutAndARowOfSplitUnitsIsALaunch) {
  const Json rows = rows_of("--machine dgx-a100 --ranks 4 --d-model 1024 --batch 2 --sequence 256 --dropout 0.1", "tp");
  ASSERT_EQ(rows.size(), 5u) << "2 passes; 4 × 1, 2 × 2 and 1 × 4 ranks";
  EXPECT_EQ(rows[0].at("predicted_dropout_calls"), 512 + 1) << "hidden units row by row, and the output at once";
  EXPECT_EQ(rows[1].at("predicted_dropout_calls"), 2 * 512 + 1) << "the hidden units again, and their gradient";
  for (const Json& row : {rows[0], rows[1]})
    EXPECT_NEAR(field(row, "predicted_dropout_seconds") / field(row, "dropout_seconds"), 1, 0.01) << row;
  for (const Json& row : {rows[2], rows[3], rows[4]}) EXPECT_EQ(row.at("differing_elements"), 0) << row;
  EXPECT_EQ(rows[4].at("elements"), 4 * 2 * 8 * 2 * 8) << "y and dx of 8 sequences of 2 × 8, on 4 ranks";
  const Json alone = rows_of("--machine dgx-a100 --ranks 1 --d-model 64 --batch 1 --sequence 8 --dropout 0.1", "tp");
  EXPECT_EQ(alone[0].at("predicted_dropout_calls"), 2) << "whole rows are neighbours";
}

TEST_F(BenchProgram, OverlappedLinearRefusesWhatHasNoRing) {
  const std::map<std::string, std::string> words{{"8 --ranks 1", "one rank gathers nothing"},
                                                 {"8 --ranks 3", "2048 hidden units cannot be divided over 3 ranks"},
                                                 {"0 --ranks 2", "--overlapped-linear"},
                                                 {"8 --ranks 2 --d-model 64,128", "a single --d-model"},
                                                 {"8 --ranks 2 --dtype fp32", "--dtype"}};
  for (const auto& [arguments, expected] : words)
    expect_refused(start("--overlapped-linear " + arguments, "tp"), arguments, expected);
}

}  // namespace
}  // namespace lockstep::bench
