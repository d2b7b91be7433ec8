// Machines: costs, link levels, and the messages about mistakes in machine files.
#include "common/runtime/machine/machine.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "common/error.hpp"
#include "common/support/json/document.hpp"
#include "common/support/tests/folder_testing.hpp"
#include "common/support/tests/refusal_testing.hpp"
#include "common/support/text/files.hpp"

namespace lockstep {
namespace {

constexpr const char* kNode = R"({
  "name": "box", "description": "two sockets of two",
  "levels": [
    {"name": "socket", "ranks": 2, "latency_seconds": 1e-6, "bytes_per_second": 10e9, "shared": false},
    {"name": "bridge", "ranks": 4, "latency_seconds": 2e-6, "bytes_per_second": 8e9, "shared": true}],
  "peak_flop_per_second": {"fp32": 1e12, "bf16": 4e12, "fp16": 4e12, "int32": 1e12, "int8": 8e12},
  "matmul_efficiency": [{"flop": 1e6, "fraction": 0.2}, {"flop": 1e8, "fraction": 0.8}],
  "memory_bytes": 16e9, "memory_bytes_per_second": 1e11, "launch_seconds": 3e-6, "eager_bytes": 4096
})";

constexpr const char* kCluster = R"({
  "name": "boxes", "description": "many boxes", "node": "box",
  "levels": [{"name": "net", "ranks": 0, "latency_seconds": 2e-5, "bytes_per_second": 1.2e9, "shared": true}]
})";

class MachineFile : public TestFolder {
 protected:
  MachineFile() { write("box", kNode); }

  std::string write(const std::string& name, const std::string& text) {
    std::string path = (folder_ / (name + ".json")).string();
    std::ofstream(path) << text;
    return path;
  }
  /// The node with one piece of its text replaced.
  std::string edited(const std::string& piece, const std::string& with) {
    std::string text = kNode;
    auto at = text.find(piece);
    EXPECT_NE(at, text.npos) << piece;
    return write("edited", text.replace(at, piece.size(), with));
  }
  /// Expects that reading ends in a usage error whose message contains all `parts`.
  static void expect_refused(const std::string& path, const std::vector<std::string>& parts) {
    const std::string said = refusal([&] { read_machine(path); });
    EXPECT_NE(said.find(path), std::string::npos) << said;
    for (const std::string& part : parts) EXPECT_NE(said.find(part), std::string::npos) << said << "\nlacks " << part;
  }
};

TEST_F(MachineFile, IsReadWhole) {
  Machine box = find_machine("box", folder_.string());
  EXPECT_EQ(box.name, "box");
  ASSERT_EQ(box.levels.size(), 2u);
  EXPECT_EQ(box.levels[1].name, "bridge");
  EXPECT_TRUE(box.levels[1].shared);
  EXPECT_EQ(box.capacity(), 4);
  EXPECT_EQ(box.peak_flop_per_second[static_cast<int>(DType::i8)], 8e12);
  EXPECT_EQ(box.eager_bytes, 4096u);
  EXPECT_EQ(box.gamma(), 3e-11);
}

TEST_F(MachineFile, AClusterIsANodeAndTheLevelsThatJoinNodes) {
  Machine boxes = read_machine(write("boxes", kCluster));
  EXPECT_EQ(boxes.name, "boxes");
  ASSERT_EQ(boxes.levels.size(), 3u);
  EXPECT_EQ(boxes.capacity(), 0);
  EXPECT_EQ(boxes.launch, 3e-6);
  EXPECT_EQ(boxes.level_between(1000, 1003), 1);
  EXPECT_EQ(boxes.level_between(3, 4), 2);
}

constexpr const char* kTables = R"("memory_bytes": 16e9, "tables": {
  "exchanges": [{"bytes": 4, "seconds": 1e-6, "cold_seconds": 2e-6}, {"bytes": 4096, "seconds": 3e-6, "cold_seconds": 8e-6},
                {"bytes": 8192, "seconds": 7e-6, "cold_seconds": 9e-6}],
  "one_way": [{"bytes": 4, "seconds": 1e-6, "cold_seconds": 1e-6}],
  "additions": [{"bytes": 4, "seconds": 1e-7, "cold_seconds": 1e-7}, {"bytes": 4096, "seconds": 2e-7, "cold_seconds": 6e-7}],
  "products": [{"m": 1, "nk": 100, "seconds": 1e-6}, {"m": 1, "nk": 300, "seconds": 2e-6},
               {"m": 5, "nk": 100, "seconds": 3e-6}, {"m": 5, "nk": 300, "seconds": 8e-6}],
  "operations_flop_per_second": {"gelu": 2e9}, "cache_bytes": 16e6})";

TEST_F(MachineFile, TablesAreLinearBetweenTheirPoints) {
  const Machine box = read_machine(edited("\"memory_bytes\": 16e9", kTables));
  EXPECT_DOUBLE_EQ(box.message_seconds(0, 4096), 3e-6);
  EXPECT_DOUBLE_EQ(box.message_seconds(0, 6144), 5e-6);
  EXPECT_DOUBLE_EQ(box.message_seconds(0, 1), 1e-6) << "below the first point, its time";
  EXPECT_DOUBLE_EQ(box.message_seconds(0, 16384), 14e-6) << "beyond the last, its rate";
  EXPECT_DOUBLE_EQ(line_at(box.measured.exchanges, 6144, 0.5).at(6144), 5e-6 + (8.5e-6 - 5e-6) / 2);
  EXPECT_DOUBLE_EQ(box.message_seconds(1, 4096), box.alpha(1) + 4096 * box.beta(1)) << "tables are of the innermost";
  const auto product = [&](std::size_t m, std::size_t n, std::size_t k, DType dtype) {
    return box.seconds(
        {.flop = 2.0 * static_cast<double>(m * n * k), .dtype = dtype, .matmul = true, .mnk = {m, n, k}});
  };
  EXPECT_DOUBLE_EQ(product(1, 10, 10, DType::f32), 1e-6);
  EXPECT_DOUBLE_EQ(product(3, 10, 20, DType::f32), (1.5e-6 + 5.5e-6) / 2);
  EXPECT_DOUBLE_EQ(product(10, 10, 30, DType::f32), 16e-6);
  EXPECT_DOUBLE_EQ(product(3, 10, 20, DType::bf16), 3.5e-6 / 4) << "as much faster as the peak is";
  EXPECT_DOUBLE_EQ(box.seconds({.name = "gelu", .flop = 2000, .bytes = 9e9}), 1e-6 + box.launch);
  const Operation attention{
      .name = "attention", .flop = 1e8, .dtype = DType::bf16, .matmul = true, .mnk = {64, 64, 32}};
  EXPECT_DOUBLE_EQ(box.seconds(attention), 1e8 / (4e12 * 0.8) + box.launch) << "many products, of many heads";
}

TEST_F(MachineFile, AttentionIsPricedBetweenTheTwoLengthsThatWereMeasured) {
  Machine box = read_machine(edited("\"memory_bytes\": 16e9", kTables));
  const auto seconds = [&](std::size_t positions) {
    return box.seconds({.name = "attention", .flop = 1e9, .matmul = true, .mnk = {positions, positions, 32}});
  };
  box.measured.operations["attention"] = 2e9;
  for (const std::size_t positions : {16, 64, 128, 1024})
    EXPECT_DOUBLE_EQ(seconds(positions), 0.5 + box.launch) << "a file with one rate, at " << positions;
  box.measured.operations["attention_256"] = 4e9;
  EXPECT_DOUBLE_EQ(seconds(64), 0.5 + box.launch);
  EXPECT_DOUBLE_EQ(seconds(16), 0.5 + box.launch) << "below both, the shorter's rate";
  EXPECT_DOUBLE_EQ(seconds(128), 1.0 / 3 + box.launch) << "two thirds of the way from 1/64 to 1/256";
  EXPECT_DOUBLE_EQ(seconds(256), 0.25 + box.launch);
  EXPECT_DOUBLE_EQ(seconds(1024), 0.25 + box.launch) << "above both, the longer's";
}

TEST_F(MachineFile, OperationsAmongOthersFindTheirArgumentsWhereALongWalkLeavesThem) {
  Machine box = read_machine(edited("\"memory_bytes\": 16e9", kTables));
  // By bytes of x: 1 kB takes 1 µs, 1 MB 100 µs (a core's own cache), 10 MB 4,000 µs (the last-level cache).
  box.measured.additions = {{1e3, 1e-6, 0}, {1e6, 1e-4, 0}, {1e7, 4e-3, 0}};
  const Operation add{.name = "add", .bytes = 3e6};
  EXPECT_DOUBLE_EQ(box.seconds(add), 1e-4) << "by itself";
  EXPECT_DOUBLE_EQ(box.seconds(add, 1e6), 1e-4) << "its own arguments are more than the rest";
  EXPECT_DOUBLE_EQ(box.seconds(add, 2e7), 4e-4) << "a tenth of so long an addition";
  EXPECT_DOUBLE_EQ(box.seconds(add, 2e9), 4e-4) << "beyond the table, its last rate";
  EXPECT_DOUBLE_EQ(box.seconds({.name = "fill", .bytes = 30}, 2e7), box.launch) << "a short one only begins";
  const Operation gelu{.name = "gelu", .flop = 2e6, .bytes = 3e6};
  EXPECT_DOUBLE_EQ(box.seconds(gelu, 2e7), box.seconds(gelu) + 3e-4) << "what its bytes take longer comes on top";
  const Operation product{.flop = 600, .bytes = 3e6, .matmul = true, .mnk = {3, 10, 10}};
  EXPECT_DOUBLE_EQ(box.seconds(product, 2e7), box.seconds(product) + 3e-4);
  box.measured = {};
  EXPECT_EQ(box.seconds(add, 2e9), box.seconds(add)) << "without tables nothing says what lies where";
}

TEST_F(MachineFile, FootprintsSayHowColdTheCachesAre) {
  MeasuredPrices prices{.cache_bytes = 7e6};
  EXPECT_EQ(prices.cold_share(7e6), 0) << "without footprints, what the caches hold";
  EXPECT_EQ(prices.cold_share(7.1e6), 1);
  prices.footprints = {{1e5, 2e-6}, {1e6, 2e-6}, {4e6, 3e-6}, {16e6, 2.9e-6}, {64e6, 6e-6}};
  EXPECT_EQ(prices.cold_share(10), 0) << "below the first";
  EXPECT_EQ(prices.cold_share(1e6), 0);
  EXPECT_DOUBLE_EQ(prices.cold_share(2e6), 0.125) << "half of the way from 1 to 4 MB, by its logarithm";
  EXPECT_DOUBLE_EQ(prices.cold_share(4e6), 0.25);
  EXPECT_DOUBLE_EQ(prices.cold_share(64e6), 1);
  EXPECT_EQ(prices.cold_share(1e9), 1) << "beyond the last";
  prices.footprints.back().seconds = 2.3e-6;
  EXPECT_EQ(prices.cold_share(64e6), 1) << "a rise of less than a fifth says nothing: more than the caches hold";
  EXPECT_EQ(prices.cold_share(4e6), 0);
}

TEST_F(MachineFile, WithoutTablesEveryPriceIsTheSameToTheLastBit) {
  const Machine box = find_machine("box", folder_.string());
  EXPECT_TRUE(box.measured.exchanges.empty());
  EXPECT_EQ(box.message_seconds(1, 12345), box.alpha(1) + 12345 * box.beta(1));
  const Operation product{.flop = 1e8, .bytes = 10, .dtype = DType::bf16, .matmul = true, .mnk = {3, 4, 5}};
  EXPECT_EQ(box.seconds(product), 1e8 / (4e12 * 0.8) + box.launch);
}

TEST_F(MachineFile, ATableThatIsNoneIsNamed) {
  const auto with = [&](const std::string& piece, const std::string& other) {
    std::string tables = kTables;
    const auto at = tables.find(piece);
    EXPECT_NE(at, tables.npos) << piece;
    return edited("\"memory_bytes\": 16e9", tables.replace(at, piece.size(), other));
  };
  expect_refused(with("\"bytes\": 4096", "\"bytes\": 3"), {"tables.exchanges[1].bytes", "not above"});
  expect_refused(with("\"seconds\": 7e-6", "\"seconds\": 0"), {"tables.exchanges[2].seconds", "implausible"});
  expect_refused(with("{\"m\": 5, \"nk\": 100", "{\"m\": 5, \"nk\": 101"), {"tables.products[2].nk", "grid"});
  expect_refused(with(", {\"m\": 1, \"nk\": 300, \"seconds\": 2e-6}", ""), {"tables.products[2].nk", "grid"});
  expect_refused(with("\"gelu\": 2e9", "\"gelu\": 0"), {"tables.operations_flop_per_second.gelu", "implausible"});
  expect_refused(with(", \"cache_bytes\": 16e6", ""), {"tables.cache_bytes is missing"});
  const std::string footprints = R"(, "footprints": [{"bytes": 8, "seconds": 1e-6}, {"bytes": 8, "seconds": 2e-6}])";
  expect_refused(with(", \"cache_bytes\"", footprints + ", \"cache_bytes\""),
                 {"tables.footprints[1].bytes", "not above"});
}

TEST_F(MachineFile, AnAbsurdNumberIsNamed) {
  expect_refused(edited("1e-6, \"bytes", "-1, \"bytes"), {"levels.socket.latency_seconds", "is -1", "0 to 1 seconds"});
  expect_refused(edited("10e9", "10"), {"levels.socket.bytes_per_second", "is 10", "PCIe 4"});
  expect_refused(edited("\"bf16\": 4e12", "\"bf16\": \"fast\""), {"peak_flop_per_second.bf16", "\"fast\"", "312e12"});
  expect_refused(edited("0.8}", "1.8}"), {"matmul_efficiency[1].fraction", "1.8", "0.8"});
  expect_refused(edited("1e8, ", "1e6, "), {"matmul_efficiency[1].flop", "not above"});
  expect_refused(edited("1e6, \"fraction\": 0.2", "1e6, \"fraction\": 0.001"),
                 {"matmul_efficiency[1].fraction", "less time"});
  expect_refused(edited("4096", "4096.5"), {"eager_bytes", "4096.5", "whole"});
  expect_refused(edited("\"ranks\": 4", "\"ranks\": 3"), {"levels.bridge.ranks", "multiple of the 2"});
  expect_refused(edited("\"ranks\": 2", "\"ranks\": 0"), {"levels.bridge.ranks", "no ranks left to join"});
  expect_refused(edited("\"shared\": false", "\"shared\": true"), {"levels.socket.shared", "innermost"});
  expect_refused(edited("16e9", "1e999"), {"not valid JSON"});
  expect_refused(edited("\"memory_bytes\": 16e9", "\"memory_bytes\": 16e9, \"memory_bytes\": 80e9"),
                 {"not valid JSON", "\"memory_bytes\" occurs twice"});
}

TEST_F(MachineFile, AMissingOrUnknownFieldIsNamed) {
  expect_refused(edited("\"memory_bytes\": 16e9, ", ""), {"memory_bytes is missing", "80e9"});
  expect_refused(edited("\"int8\": 8e12", "\"int4\": 8e12"), {"peak_flop_per_second.int4", "did you mean 'int8'"});
  expect_refused(edited("\"launch_seconds\"", "\"launch_second\""), {"did you mean 'launch_seconds'"});
  expect_refused(edited("\"name\": \"box\"", "\"name\": 3"), {"name is 3"});
  expect_refused(write("list", "[]"), {"not an object"});
  expect_refused(write("half", "{\"name\": "), {"not valid JSON", "line 1"});
  expect_refused(write("none", "{\"node\": \"bxo\", \"levels\": []}"), {"bxo", "did you mean 'box'"});
  expect_refused((folder_ / "absent.json").string(), {"cannot read", "No such file"});
}

TEST_F(MachineFile, AnUnknownNameSuggestsTheNearest) {
  EXPECT_EQ(refusal([this] { find_machine("bix", folder_.string()); }),
            "unknown machine 'bix': did you mean 'box'? Known: box.");
}

TEST_F(MachineFile, MessagesAddLatenciesAndTakeTheSmallestBandwidth) {
  Machine box = find_machine("box", folder_.string());
  EXPECT_EQ(box.level_between(0, 1), 0);
  EXPECT_EQ(box.level_between(1, 2), 1);
  EXPECT_EQ(box.alpha(1), 3e-6);
  EXPECT_EQ(box.beta(0), 1 / 10e9);
  EXPECT_EQ(box.beta(1), 1 / 8e9);
  EXPECT_THROW(box.level_between(0, 4), Error);
}

TEST_F(MachineFile, ArithmeticCostsWhatIsSlower) {
  Machine box = find_machine("box", folder_.string());
  Operation add{.name = "add", .flop = 1e3, .bytes = 12e3};
  EXPECT_DOUBLE_EQ(box.seconds(add), 12e3 / 1e11 + 3e-6);
  Operation matmul{.name = "matmul", .flop = 1e8, .bytes = 10, .dtype = DType::bf16, .matmul = true};
  EXPECT_DOUBLE_EQ(box.seconds(matmul), 1e8 / (4e12 * 0.8) + 3e-6);
}

TEST_F(MachineFile, BetweenPointsAMatmulsTimeIsLinearInItsFlop) {
  Machine box = find_machine("box", folder_.string());
  EXPECT_EQ(box.matmul_efficiency(1), 0.2);
  EXPECT_EQ(box.matmul_efficiency(1e12), 0.8);
  double before = 0;
  for (double flop = 1e5; flop < 1e9; flop *= 1.37) {
    double time = flop / box.matmul_efficiency(flop);
    EXPECT_GT(time, before) << flop;
    if (flop > 1e6 && flop < 1e8) {
      EXPECT_NEAR(time / (5e6 + (flop - 1e6) * (1.25e8 - 5e6) / 99e6), 1, 1e-14) << flop;
    }
    before = time;
  }
}

TEST(Machine, UniformCostsExactlyAlphaBetaGamma) {
  Machine machine = Machine::uniform(2e-6, 5e-10, 7e-11);
  EXPECT_EQ(machine.level_between(0, 4095), 0);
  EXPECT_EQ(machine.alpha(0), 2e-6);
  EXPECT_DOUBLE_EQ(machine.beta(0), 5e-10);
  EXPECT_DOUBLE_EQ(machine.gamma(), 7e-11);
  Operation add{.name = "add", .flop = 256, .bytes = 3 * 1024};
  EXPECT_DOUBLE_EQ(machine.seconds(add), 1024 * 7e-11);
  Machine free_add = Machine::uniform(1e-6, 1e-9, 0);
  EXPECT_EQ(free_add.seconds(add), 0);
}

// Shipped machine files ----------------------------------------------------------------------------------------------

const std::string kShipped = LOCKSTEP_SOURCE_DIR "/bench/machines";

/// Fields that hold a number or a Boolean, as "levels.NVLink.ranks".
std::vector<std::string> numeric_fields(const Json& value, const std::string& prefix) {
  std::vector<std::string> found;
  auto descend = [&](const Json& child, const std::string& name) {
    for (std::string& field : numeric_fields(child, prefix.empty() ? name : prefix + "." + name))
      found.push_back(field);
  };
  if (value.is_number()) found.push_back(prefix);
  if (value.is_object())
    for (const auto& [key, child] : value.items()) descend(child, key);
  if (value.is_array())
    for (const auto& child : value) descend(child, child.value("name", "point"));
  return found;
}

TEST(MachineFiles, LibrariesAreCheckedToo) {
  const std::string text = read_file(kShipped + "/dgx-a100.json");
  const auto error_with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return refusal([&] { (void)parse_machine(changed, "dgx-a100.json"); });
  };
  EXPECT_NE(error_with("\"matmul_seconds\"", "\"matmul_second\"").find("matmul_second"), std::string::npos);
  EXPECT_NE(error_with("{\"positions\": 1024", "{\"positions\": 512").find("not above the point before it"),
            std::string::npos);
  EXPECT_NE(error_with("{\"bytes\": 131072", "{\"bytes\": 1024").find("not above the point before it"),
            std::string::npos);
  EXPECT_NE(error_with("\"collective_blocks\": 24", "\"collective_blocks\": 108").find("leaves none to compute"),
            std::string::npos);
  EXPECT_NE(error_with("\"collective_blocks_across_nodes\": 16,", "").find("collective_blocks_across_nodes"),
            std::string::npos)
      << "both, or neither";
}

TEST(MachineFiles, HostsAreCheckedToo) {
  const std::string text = read_file(kShipped + "/dgx-a100.json");
  const auto error_with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return refusal([&] { (void)parse_machine(changed, "dgx-a100.json"); });
  };
  EXPECT_NE(error_with("\"memory_bytes\": 2e12", "\"memory_bytes\": 2000").find("a DGX A100 has 2e12"),
            std::string::npos);
  EXPECT_NE(error_with(", \"gpu_bytes_per_second\": 12e9", "").find("host.gpu_bytes_per_second is missing"),
            std::string::npos);
  EXPECT_NE(error_with("\"gpu_bytes_per_second\"", "\"gpu_bytes\"").find("did you mean"), std::string::npos);
  EXPECT_EQ(find_machine("dgx-a100-hdr", kShipped).as_library().host->memory_bytes, 2e12) << "the node's";
  EXPECT_FALSE(find_machine("pcie-box", kShipped).host);
}

TEST(MachineFiles, CollectivesHoldTheirShareWithTheLibrarysPricesAlone) {
  const Machine machine = find_machine("dgx-h100-ndr", kShipped);
  EXPECT_DOUBLE_EQ(library_share(machine.as_library(), 0), 24.0 / 132);
  EXPECT_DOUBLE_EQ(library_share(machine.as_library(), 1), 16.0 / 132);
  EXPECT_EQ(library_share(machine, 1), 0) << "the lab's prices stay";
}

TEST(ShippedMachines, AreReadableAndNamedAsTheirFiles) {
  std::vector<std::string> names = machine_names(kShipped);
  EXPECT_GE(names.size(), 10u);
  for (const std::string& name : names) {
    Machine machine = find_machine(name, kShipped);
    EXPECT_EQ(machine.name, name);
    EXPECT_LT(machine.seconds({.flop = 1e9, .bytes = 1e6, .dtype = DType::bf16, .matmul = true}), 0.1) << name;
    EXPECT_GT(machine.gamma(), 0) << name;
  }
}

TEST(ShippedMachines, EveryNumberHasItsSource) {
  for (const std::string& name : machine_names(kShipped)) {
    Json file = Json::parse(read_file(kShipped + "/" + name + ".json"));
    const Json& sources = file.at("sources");
    for (const std::string& field : numeric_fields(file, "")) {
      if (field.starts_with("sources.")) continue;
      bool found = false;
      for (const auto& [key, text] : sources.items()) {
        found = found || ((field == key || field.starts_with(key + ".")) && text.get<std::string>().size() > 10);
      }
      EXPECT_TRUE(found) << name << ".json: " << field << " has no source";
    }
    for (const auto& [key, text] : sources.items()) {
      bool used = false;
      for (const std::string& field : numeric_fields(file, ""))
        used = used || field == key || field.starts_with(key + ".");
      EXPECT_TRUE(used) << name << ".json: sources." << key << " speaks of no number in the file";
    }
  }
}

}  // namespace
}  // namespace lockstep
