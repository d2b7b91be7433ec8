// Reads a machine file. Every field is checked here, so that later code never meets an absurd number.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "common/error.hpp"
#include "common/runtime/machine/machine.hpp"
#include "common/support/json/document.hpp"
#include "common/support/text/files.hpp"
#include "common/support/text/nearest.hpp"

namespace lockstep {
namespace {

/// Range of sensible numbers, and an example for the error message.
struct Sensible {
  double least;
  double most;
  const char* unit;
  const char* example;
};
constexpr Sensible kLatency{0, 1, "seconds", "a message over NVLink takes about 3e-06"};
constexpr Sensible kBandwidth{1e6, 1e14, "bytes per second", "PCIe 4 x16 carries about 25e9"};
constexpr Sensible kPeak{1e8, 1e18, "FLOP per second", "an A100 does 312e12 in bf16"};
constexpr Sensible kFlop{1, 1e18, "FLOP", "2·m·n·k of a matmul"};
constexpr Sensible kFraction{1e-6, 1, "as a fraction of the peak", "large matmuls reach about 0.8"};
constexpr Sensible kMemory{1e6, 1e16, "bytes", "an A100 has 80e9"};
constexpr Sensible kMemoryBandwidth{1e8, 1e15, "bytes per second", "an A100 reads 2.0e12"};
constexpr Sensible kHostMemory{1e9, 1e16, "bytes", "a DGX A100 has 2e12"};
constexpr Sensible kHostBandwidth{1e9, 1e14, "bytes per second", "two sockets with 8 channels of DDR4 reach 340e9"};
constexpr Sensible kLaunch{0, 1, "seconds", "a GPU kernel costs about 1e-06"};
constexpr Sensible kEager{0, 1e12, "bytes", "MPI libraries use about 8192"};
constexpr Sensible kSize{1, 1e15, "bytes", "a message of 64 KiB has 65536"};
constexpr Sensible kSeconds{1e-12, 1e4, "seconds", "small messages between processes take about 1e-06"};
constexpr Sensible kRows{1, 1e9, "rows", "a product of 256 rows"};
constexpr Sensible kRanks{0, 1e9, "ranks", "8 GPUs in a node; 0, in the outermost level alone, for any number"};
constexpr Sensible kPositions{1, 1e9, "positions", "2048 tokens of a sequence"};
constexpr Sensible kMultiprocessors{1, 10000, "multiprocessors", "an H100 has 132"};
constexpr Sensible kBlocks{0, 10000, "multiprocessors", "NCCL's kernels hold 16 to 32"};
constexpr Sensible kCurveRanks{2, 1e6, "ranks", "8 GPUs of a node"};
constexpr Sensible kCurveBytes{1, 1e13, "bytes", "32768, of the whole array"};
constexpr Sensible kCurveSeconds{1e-9, 1e4, "seconds", "an all-reduce of 32 KiB takes about 40e-6"};

/// One JSON object of the file, and its name in messages.
class Fields {
 public:
  Fields(const Json& object, std::string file, std::string prefix)
      : object_(object), file_(std::move(file)), prefix_(std::move(prefix)) {
    if (!object_.is_object()) fail(prefix_.empty() ? "the file" : prefix_, "is not an object in braces");
  }

  [[noreturn]] void fail(const std::string& field, const std::string& why) const {
    throw Error(Verdict::usage, fmt::format("machine file {}: {} {}", file_, field, why));
  }

  void allow(const std::vector<std::string>& names) const {
    for (const auto& [key, value] : object_.items())
      if (std::find(names.begin(), names.end(), key) == names.end())
        fail(path(key), "is wrong: " + unknown_name("field", key, names));
  }

  bool has(const char* name) const { return object_.contains(name); }

  double number(const char* name, Sensible sensible) const {
    const Json& value = at(name, sensible.example);
    if (!value.is_number()) fail(path(name), fmt::format("is {}, not a number{}", value.quote(), hint(sensible)));
    double number = value.get<double>();
    if (!(number >= sensible.least && number <= sensible.most))
      fail(path(name), fmt::format("is {}, which is implausible{}", value.quote(), hint(sensible)));
    return number;
  }

  double whole_number(const char* name, Sensible sensible) const {
    double value = number(name, sensible);
    if (value != std::floor(value)) fail(path(name), fmt::format("is {}, not a whole number{}", value, hint(sensible)));
    return value;
  }

  std::string text(const char* name, const char* example) const {
    const Json& value = at(name, example);
    if (!value.is_string() || value.get<std::string>().empty())
      fail(path(name), fmt::format("is {}, not a text such as \"{}\"", value.quote(), example));
    return value.get<std::string>();
  }

  bool truth(const char* name, const char* example) const {
    const Json& value = at(name, example);
    if (!value.is_boolean()) fail(path(name), fmt::format("is {}, neither true nor false", value.quote()));
    return value.get<bool>();
  }

  Fields object(const char* name, const char* example) const { return {at(name, example), file_, path(name)}; }

  std::vector<Fields> list(const char* name, const char* example) const {
    const Json& value = at(name, example);
    if (!value.is_array() || value.empty()) fail(path(name), fmt::format("is not a list of {}", example));
    std::vector<Fields> items;
    for (const Json& item : value) {
      const Json* named = item.find("name");
      bool has_name = named && named->is_string();
      items.emplace_back(
          item, file_,
          has_name ? path(name) + "." + named->get<std::string>() : fmt::format("{}[{}]", path(name), items.size()));
    }
    return items;
  }

  std::map<std::string, double, std::less<>> numbers(Sensible sensible) const {
    std::map<std::string, double, std::less<>> all;
    for (const auto& [key, value] : object_.items()) all[key] = number(key.c_str(), sensible);
    return all;
  }

  std::string path(const std::string& name) const { return prefix_.empty() ? name : prefix_ + "." + name; }

 private:
  const Json& at(const char* name, const char* example) const {
    const Json* found = object_.find(name);
    if (!found) fail(path(name), fmt::format("is missing ({})", example));
    return *found;
  }

  static std::string hint(Sensible s) {
    return fmt::format("; give {:g} to {:g} {} ({})", s.least, s.most, s.unit, s.example);
  }

  const Json& object_;
  std::string file_;
  std::string prefix_;
};

LinkLevel read_level(const Fields& fields) {
  fields.allow({"name", "ranks", "latency_seconds", "bytes_per_second", "shared"});
  return {.name = fields.text("name", "NVLink"),
          .ranks = static_cast<int>(fields.whole_number("ranks", kRanks)),
          .latency = fields.number("latency_seconds", kLatency),
          .bytes_per_second = fields.number("bytes_per_second", kBandwidth),
          .shared = fields.truth("shared", "true where the group one level in has one port, as a node with one NIC")};
}

/// Appends the file's levels; the ranks of each must be a multiple of the ranks of the level inside it.
void read_levels(const Fields& file, Machine& machine) {
  for (const Fields& fields : file.list("levels", "link levels, innermost first")) {
    LinkLevel level = read_level(fields);
    if (machine.levels.empty() && level.shared)
      fields.fail(fields.path("shared"), "is true, but the innermost level joins single ranks, with one port each");
    if (!machine.levels.empty()) {
      int inner = machine.levels.back().ranks;
      if (inner == 0)
        fields.fail(fields.path("ranks"),
                    "has no ranks left to join: the level inside it already holds all of them (0)");
      if (level.ranks != 0 && (level.ranks <= inner || level.ranks % inner != 0))
        fields.fail(fields.path("ranks"),
                    fmt::format("is {}; give a multiple of the {} ranks of the level inside it", level.ranks, inner));
    }
    machine.levels.push_back(level);
  }
}

void read_peaks(const Fields& fields, Machine& machine) {
  fields.allow({"fp32", "bf16", "fp16", "int32", "int8"});
  for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::i32, DType::i8})
    machine.peak_flop_per_second[static_cast<std::size_t>(dtype)] =
        fields.number(std::string(to_string(dtype)).c_str(), kPeak);
}

/// Rejects a point whose `value` is not above that of the point before.
void rising(const Fields& point, const char* name, double value, double before) {
  if (value <= before) point.fail(point.path(name), fmt::format("is {:g}, not above the point before it", value));
}

void read_efficiency(const Fields& file, Machine& machine) {
  for (const Fields& fields : file.list("matmul_efficiency", "points {\"flop\": …, \"fraction\": …}")) {
    fields.allow({"flop", "fraction"});
    EfficiencyPoint point{fields.number("flop", kFlop), fields.number("fraction", kFraction)};
    if (!machine.efficiency.empty()) rising(fields, "flop", point.flop, machine.efficiency.back().flop);
    if (!machine.efficiency.empty() &&
        point.flop / point.fraction < machine.efficiency.back().flop / machine.efficiency.back().fraction)
      fields.fail(fields.path("fraction"),
                  fmt::format("is {:g}, so high that this matmul takes less time than the smaller one before it",
                              point.fraction));
    machine.efficiency.push_back(point);
  }
}

void read_blocks(const Fields& fields, LibraryPrices& prices) {
  prices.multiprocessors = static_cast<int>(fields.whole_number("multiprocessors", kMultiprocessors));
  for (const auto& [name, blocks] :
       {std::pair{"collective_blocks", &prices.collective_blocks},
        std::pair{"collective_blocks_across_nodes", &prices.collective_blocks_across_nodes}}) {
    *blocks = static_cast<int>(fields.whole_number(name, kBlocks));
    if (*blocks >= prices.multiprocessors)
      fields.fail(fields.path(name), fmt::format("is {} of {} multiprocessors, which leaves none to compute", *blocks,
                                                 prices.multiprocessors));
  }
}

LibraryPrices read_library(const Fields& fields) {
  fields.allow({"matmul_flop_per_second", "matmul_seconds", "memory_bytes_per_second", "attention", "all_reduce_ranks",
                "all_reduce", "multiprocessors", "collective_blocks", "collective_blocks_across_nodes", "host_seconds",
                "tree_bytes_per_second", "write_bytes_per_second", "fp8_flop_per_second"});
  LibraryPrices prices{.matmul_flop_per_second = fields.number("matmul_flop_per_second", kPeak),
                       .matmul_seconds = fields.number("matmul_seconds", kLaunch),
                       .memory_bytes_per_second = fields.number("memory_bytes_per_second", kMemoryBandwidth)};
  for (const Fields& kernel : fields.list("attention", "kernels {\"name\": …, \"points\": …}")) {
    kernel.allow({"name", "points"});
    FlashKernel& flash = prices.flash.emplace_back(FlashKernel{kernel.text("name", "FlashAttention-2"), {}});
    for (const Fields& at : kernel.list("points", "points {\"positions\": …, \"forward\": …, \"backward\": …}")) {
      at.allow({"positions", "forward", "backward"});
      const AttentionPoint point{at.whole_number("positions", kPositions), at.number("forward", kPeak),
                                 at.number("backward", kPeak)};
      if (!flash.points.empty()) rising(at, "positions", point.positions, flash.points.back().positions);
      flash.points.push_back(point);
    }
  }
  if (fields.has("write_bytes_per_second"))
    prices.write_bytes_per_second = fields.number("write_bytes_per_second", kMemoryBandwidth);
  if (fields.has("fp8_flop_per_second")) prices.fp8_flop_per_second = fields.number("fp8_flop_per_second", kPeak);
  if (fields.has("host_seconds")) prices.host_seconds = fields.number("host_seconds", kLaunch);
  if (fields.has("tree_bytes_per_second"))
    prices.tree_bytes_per_second = fields.number("tree_bytes_per_second", kBandwidth);
  if (fields.has("multiprocessors")) read_blocks(fields, prices);
  if (!fields.has("all_reduce")) return prices;
  prices.all_reduce_ranks = static_cast<int>(fields.whole_number("all_reduce_ranks", kCurveRanks));
  for (const Fields& point : fields.list("all_reduce", "points {\"bytes\": …, \"seconds\": …}")) {
    point.allow({"bytes", "seconds"});
    prices.all_reduce.push_back({point.number("bytes", kCurveBytes), point.number("seconds", kCurveSeconds)});
    if (prices.all_reduce.size() > 1)
      rising(point, "bytes", prices.all_reduce.back().bytes, (prices.all_reduce.end() - 2)->bytes);
  }
  return prices;
}

HostMemory read_host_memory(const Fields& fields) {
  fields.allow({"memory_bytes", "memory_bytes_per_second", "gpu_bytes_per_second"});
  return {.memory_bytes = fields.number("memory_bytes", kHostMemory),
          .memory_bytes_per_second = fields.number("memory_bytes_per_second", kHostBandwidth),
          .gpu_bytes_per_second = fields.number("gpu_bytes_per_second", kBandwidth)};
}

std::vector<SizePrice> read_sizes(const Fields& tables, const char* name) {
  std::vector<SizePrice> points;
  for (const Fields& fields : tables.list(name, "points {\"bytes\": …, \"seconds\": …, \"cold_seconds\": …}")) {
    fields.allow({"bytes", "seconds", "cold_seconds"});
    points.push_back(
        {fields.number("bytes", kSize), fields.number("seconds", kSeconds), fields.number("cold_seconds", kSeconds)});
    if (points.size() > 1) rising(fields, "bytes", points.back().bytes, (points.end() - 2)->bytes);
  }
  return points;
}

std::vector<FootprintPrice> read_footprints(const Fields& tables) {
  std::vector<FootprintPrice> points;
  if (!tables.has("footprints")) return points;
  for (const Fields& fields : tables.list("footprints", "points {\"bytes\": …, \"seconds\": …}")) {
    fields.allow({"bytes", "seconds"});
    points.push_back({fields.number("bytes", kSize), fields.number("seconds", kSeconds)});
    if (points.size() > 1) rising(fields, "bytes", points.back().bytes, (points.end() - 2)->bytes);
  }
  return points;
}

/// The grid, row by row; every row has the sizes of the first.
std::vector<ProductPrice> read_products(const Fields& tables) {
  std::vector<ProductPrice> points;
  std::size_t width = 0;
  for (const Fields& fields : tables.list("products", "points {\"m\": …, \"nk\": …, \"seconds\": …}")) {
    fields.allow({"m", "nk", "seconds"});
    points.push_back({fields.number("m", kRows), fields.number("nk", kFlop), fields.number("seconds", kSeconds)});
    const std::size_t i = points.size() - 1;
    if (width == 0 && points[i].m != points[0].m) width = i;
    const bool begins = width > 0 && i % width == 0, first_row = width == 0;
    const bool rises = i == 0 || (begins ? points[i].m > points[i - 1].m
                                         : points[i].m == points[i - 1].m && points[i].nk > points[i - 1].nk);
    if (!rises || (!first_row && points[i].nk != points[i % width].nk))
      fields.fail(fields.path("nk"), "is not the next point of a grid: for each m, rising, the same nk, rising");
  }
  if (width > 0 && points.size() % width != 0)
    tables.fail(tables.path("products"), "is not a complete grid: its last m has fewer points than the others");
  return points;
}

MeasuredPrices read_tables(const Fields& tables) {
  tables.allow(
      {"exchanges", "one_way", "additions", "products", "operations_flop_per_second", "footprints", "cache_bytes"});
  MeasuredPrices measured{.exchanges = read_sizes(tables, "exchanges"),
                          .one_way = read_sizes(tables, "one_way"),
                          .additions = read_sizes(tables, "additions"),
                          .products = read_products(tables),
                          .footprints = read_footprints(tables),
                          .cache_bytes = tables.number("cache_bytes", kSize)};
  if (tables.has("operations_flop_per_second"))
    measured.operations = tables.object("operations_flop_per_second", "FLOP per second by operation").numbers(kPeak);
  return measured;
}

Json parse(const std::string& text, const std::string& path) {
  try {
    return Json::parse(text);
  } catch (const JsonError& error) {
    throw Error(Verdict::usage, fmt::format("machine file {}: is not valid JSON: {}", path, error.what()));
  }
}

/// A cluster: a node, named from the same folder, and the levels that join nodes.
Machine read_cluster(const Fields& file, const std::string& path) {
  file.allow({"name", "description", "node", "levels", "eager_bytes", "sources"});
  std::string node = file.text("node", "dgx-a100");
  std::string folder = std::filesystem::path(path).parent_path().string();
  std::string node_path = (std::filesystem::path(folder) / (node + ".json")).string();
  if (!std::filesystem::exists(node_path))
    file.fail("node", "is wrong: " + unknown_name("machine", node, machine_names(folder.empty() ? "." : folder)));
  if (parse(read_file(node_path), node_path).contains("node"))
    file.fail("node", fmt::format("is \"{}\", itself a cluster", node));
  Machine machine = read_machine(node_path);
  if (file.has("eager_bytes"))
    machine.eager_bytes = static_cast<std::uint64_t>(file.whole_number("eager_bytes", kEager));
  read_levels(file, machine);
  return machine;
}

Machine read_single(const Fields& file) {
  file.allow({"name", "description", "levels", "peak_flop_per_second", "matmul_efficiency", "memory_bytes",
              "memory_bytes_per_second", "launch_seconds", "eager_bytes", "sources", "node", "measured", "library",
              "tables", "host"});
  Machine machine;
  read_levels(file, machine);
  read_peaks(file.object("peak_flop_per_second", "FLOP per second by dtype"), machine);
  read_efficiency(file, machine);
  machine.memory_bytes = file.number("memory_bytes", kMemory);
  machine.memory_bytes_per_second = file.number("memory_bytes_per_second", kMemoryBandwidth);
  machine.launch = file.number("launch_seconds", kLaunch);
  machine.eager_bytes = static_cast<std::uint64_t>(file.whole_number("eager_bytes", kEager));
  if (file.has("host")) machine.host = read_host_memory(file.object("host", "memory of a node's host, and its links"));
  if (file.has("library")) machine.library = read_library(file.object("library", "costs of the vendor's libraries"));
  if (file.has("tables")) machine.measured = read_tables(file.object("tables", "what ./lab calibrate measured"));
  return machine;
}

}  // namespace

Machine read_machine(const std::string& path) { return parse_machine(read_file(path), path); }

Machine parse_machine(const std::string& text, const std::string& path) {
  Json document = parse(text, path);
  Fields file(document, path, "");
  Machine machine = file.has("node") ? read_cluster(file, path) : read_single(file);
  machine.name = file.text("name", "my-cluster");
  machine.description = file.text("description", "what it is, in a few words");
  return machine;
}

std::vector<std::string> machine_names(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none))
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

Machine find_machine(const std::string& name, const std::string& folder) {
  if (name.ends_with(".json")) return read_machine(name);
  std::vector<std::string> names = machine_names(folder);
  if (names.empty()) throw Error(Verdict::usage, fmt::format("no machine files in {}", folder));
  check_known("machine", name, names);
  return read_machine((std::filesystem::path(folder) / (name + ".json")).string());
}

}  // namespace lockstep
