#include "tools/plan/published_runs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "common/error.hpp"
#include "common/support/json/document.hpp"
#include "common/support/text/counted.hpp"
#include "common/support/text/files.hpp"

namespace lockstep::plan {

namespace {

/// A row's fields: those that `instead` replaces, else of its own columns, else those that hold for the file.
class Fields {
 public:
  Fields(const Json& file, const Json& row, const Json& instead = {}) : file_(file), row_(row), instead_(instead) {}

  const Json* find(const std::string& name) const {
    if (const Json* other = instead_.find(name)) return other;
    const Json& columns = file_.at("columns");
    for (std::size_t i = 0; i < columns.size(); ++i)
      if (columns[i] == name) return &row_.at(i);
    return file_.find(name);
  }
  bool has(const std::string& name) const { return find(name) != nullptr; }
  template <class T>
  T get(const std::string& name) const {
    const Json* value = find(name);
    if (!value) throw JsonError(fmt::format("has no {}", name));
    return value->get<T>();
  }
  template <class T>
  T get(const std::string& name, T otherwise) const {
    return has(name) ? get<T>(name) : otherwise;
  }
  bool is(const std::string& name, const char* word) const {
    const Json* value = find(name);
    return value && *value == word;
  }

 private:
  const Json& file_;
  const Json& row_;
  Json instead_;
};

GptConfig model_of(const Json& file, const std::string& name, std::size_t length) {
  const Json& sizes = file.at("models").at(name);
  GptConfig model{.layers = sizes.at("layers").get<std::size_t>(),
                  .heads = sizes.at("heads").get<std::size_t>(),
                  .d_model = sizes.at("d_model").get<std::size_t>(),
                  .vocabulary = sizes.at("vocabulary").get<std::size_t>(),
                  .context = length,
                  .tied_head = sizes.value("tied_head", true),
                  .storage = DType::bf16};
  if (sizes.contains("ffn"))
    model.architecture = {NormKind::rms_norm,
                          PositionKind::rotary,
                          MlpKind::swiglu,
                          false,
                          sizes.at("kv_heads").get<std::size_t>(),
                          sizes.at("ffn").get<std::size_t>(),
                          500000};
  if (sizes.contains("experts")) {
    model.architecture.experts = sizes.at("experts").get<std::size_t>();
    model.architecture.top_k = sizes.at("top_k").get<std::size_t>();
  }
  model.check();
  return model;
}

/// FLOP of a sequence with the masked half of attention, too, as Megatron-LM counts them
/// (num_floating_point_operations).
double whole_attention_flop(const GptConfig& model, std::size_t length) {
  const auto tokens = static_cast<double>(length);
  return model.step_flop(length) + static_cast<double>(model.layers * model.d_model) * 6 * tokens * tokens;
}

double seconds_of(const Fields& row, const PublishedRun& run) {
  if (row.has("seconds")) return row.get<double>("seconds");
  const double batch = run.batch, tokens = batch * static_cast<double>(run.length);
  if (row.has("tokens_per_second_per_gpu")) return tokens / run.gpus / row.get<double>("tokens_per_second_per_gpu");
  if (row.has("tflop_per_second_per_gpu"))
    return megatron_flop(run.model, run.length, batch) / run.gpus / row.get<double>("tflop_per_second_per_gpu") / 1e12;
  const double rate = row.has("mfu") ? row.get<double>("mfu") / 100 * row.get<double>("peak_tflop_per_second")
                                     : row.get<double>("megatron_tflop_per_second_per_gpu", 0);
  if (rate > 0) return whole_attention_flop(run.model, run.length) * batch / run.gpus / rate / 1e12;
  return run.model.step_flop(run.length) * batch / run.gpus / row.get<double>("model_tflop_per_second_per_gpu") / 1e12;
}

PublishedRun run_of(const Json& file, const Fields& row) {
  PublishedRun run{.machine = row.get<std::string>("machine"),
                   .length = row.get<std::size_t>("sequence"),
                   .gpus = row.get<int>("gpus")};
  const auto model = row.get<std::string>("model");
  run.model = model_of(file, model, run.length);
  run.two_gradients = row.is("gradients", "both");
  run.copied_gradients = row.is("gradients", "copied");
  run.name = fmt::format("{}, {} tokens, {}", model, run.length, counted(run.gpus, "GPU"));
  week25::Strategy& s = run.strategy;
  s.tp = row.get<int>("tp", 1);
  s.pp = row.get<int>("pp", 1);
  s.dp = run.gpus / s.tp / s.pp;
  s.ep = row.get<int>("ep", 1);
  s.cp = row.get<int>("cp", 1);
  run.imbalance = row.get<double>("imbalance", 1);
  s.zero = row.get<int>("zero");
  const bool fp32 = run.two_gradients || row.is("gradients", "fp32");
  (s.zero > 1 ? run.fp32_reduction : run.model.fp32_gradients) = fp32;
  run.copied_bytes = row.get<double>("copied_bytes", 0);
  run.unfused = row.get<std::string>("unfused", "");
  if (!row.is("fp8", "none")) run.fp8 = row.get<std::string>("fp8", "");
  run.fp8_gather = row.get<bool>("fp8_gather", false);
  run.buffer_bytes = row.get<double>("buffer_bytes", 0);
  s.sequence_parallel = row.get<bool>("sequence_parallel", false) && s.tp > 1;
  run.keeps_products = row.is("recompute", "operations");
  if (run.keeps_products && (run.model.architecture.mlp != MlpKind::swiglu || run.model.architecture.experts > 0))
    throw JsonError("says operations, which are those of a Llama block");
  s.recompute = run.keeps_products || row.is("recompute", "full");
  s.chunks = row.get<int>("chunks", 1);
  if (s.chunks > 1) s.schedule = "interleaved";
  run.selective = row.is("recompute", "selective");
  run.stops_early = run.keeps_products || row.get<bool>("stops_early", false);
  run.shards = row.get<int>("shards", 0);
  run.any_schedule = row.is("schedule", "best");
  run.any_microbatch = row.is("microbatch", "best");
  if (!run.any_microbatch) s.microbatch = row.get<int>("microbatch");
  run.batch = row.has("batch") ? row.get<int>("batch") : s.dp / s.cp * s.microbatch * row.get<int>("microbatches");
  if (row.is("attention", "materialised"))
    run.attention = run.selective ? AttentionKernel::materialised_again : AttentionKernel::materialised;
  run.kernel = row.get<std::string>("kernel", "");
  if (row.is("host", "ahead")) run.host = HostMode::ahead;
  if (row.is("host", "waits")) run.host = HostMode::waits;
  run.units = row.get<std::string>("units", "block");
  run.overlap = row.is("overlap", "assumed") || row.get<bool>("overlap", true);
  run.overlap_tensor = row.get<bool>("overlap_tensor", run.overlap);
  run.overlap_scatter = row.get<bool>("overlap_scatter", false) && s.sequence_parallel;
  run.overlap_gather = row.get<bool>("overlap_gather", false);
  run.node_ports = row.get<int>("node_ports", 0);
  const Json* memory = row.find("memory_gb");
  if (memory && memory->is_number()) run.memory_bytes = memory->get<double>() * (1 << 30);
  run.seconds = seconds_of(row, run);
  if (run.selective || run.any_microbatch || s.recompute)
    run.name += run.selective ? ", selective" : run.keeps_products ? ", operations" : s.recompute ? ", full" : "";
  return run;
}

PublishedSum sum_of(const Fields& row) {
  PublishedSum sum{.machine = row.get<std::string>("machine"),
                   .ranks = row.get<int>("ranks"),
                   .node_ports = row.get<int>("node_ports", 0),
                   .bytes = row.get<double>("bytes")};
  sum.seconds = 2.0 * (sum.ranks - 1) / sum.ranks * sum.bytes / (1e9 * row.get<double>("bus_gbytes_per_second"));
  return sum;
}

PublishedBubble bubble_of(const Fields& row) {
  return {.schedule = row.get<std::string>("schedule"),
          .shape = {row.get<int>("stages"), row.get<int>("microbatches"), row.get<int>("chunks")},
          .times = {row.get<double>("forward_ms") / 1e3, row.get<double>("input_ms") / 1e3,
                    row.get<double>("weight_ms") / 1e3, row.get<double>("hop_ms") / 1e3},
          .bubble = row.get<double>("bubble")};
}

}  // namespace

double megatron_flop(const GptConfig& model, std::size_t length, double batch) {
  const auto l = static_cast<double>(model.layers), h = static_cast<double>(model.d_model);
  const auto s = static_cast<double>(length), v = static_cast<double>(model.vocabulary);
  return 96 * batch * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
}

PublishedTable read_published(const std::string& path) {
  std::size_t number = 0;
  try {
    const Json file = Json::parse(read_file(path));
    PublishedTable table{.name = file.at("name"), .source = file.at("source"), .doubt = file.value("doubt", "")};
    table.overlap_assumed = file.contains("overlap") && file.at("overlap") == "assumed";
    const auto kind = file.at("kind").get<std::string>();
    for (const Json& row : file.at("rows")) {
      ++number;
      const Fields fields(file, row);
      if (kind == "training") {
        table.runs.push_back(run_of(file, fields));
        if (file.contains("or"))
          for (const Json& instead : file.at("or"))
            table.runs.back().others.push_back(run_of(file, Fields(file, row, instead)));
      }
      if (kind == "all_reduce") table.sums.push_back(sum_of(fields));
      if (kind == "bubble") table.bubbles.push_back(bubble_of(fields));
    }
    return table;
  } catch (const JsonError& error) {
    throw Error(Verdict::usage, fmt::format("{}: row {}: {}", path, number, error.what()));
  }
}

std::vector<PublishedTable> read_all_published(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".json") paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  std::vector<PublishedTable> tables;
  for (const std::string& path : paths) tables.push_back(read_published(path));
  return tables;
}

}  // namespace lockstep::plan
