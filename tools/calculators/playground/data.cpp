#include "tools/calculators/playground/data.hpp"

#include <algorithm>
#include <array>

#include "common/gpt/model/gpt.hpp"
#include "common/runtime/machine/machine.hpp"
#include "common/support/text/files.hpp"
#include "labs/week21_data_parallel/cost_model.hpp"
#include "labs/week22_zero/memory_calculator.hpp"
#include "tools/analyse/view/json_text.hpp"
#include "tools/calculators/playground/cluster_programs.hpp"
#include "tools/calculators/playground/planned.hpp"

namespace lockstep::playground {

namespace {

using view::list;
using view::text;

/// Activations of all blocks for one token, in 16 bits, as `./lab memory --batch` counts them. They are proportional to
/// the tokens, since flash attention keeps no scores.
double kept_bytes(GptConfig model) {
  const auto layers = static_cast<double>(model.layers);
  if (model.architecture == Architecture())
    return layers * week22::activation_bytes_per_layer({.positions = 1,
                                                        .sequences = 1,
                                                        .channels = static_cast<double>(model.d_model),
                                                        .heads = static_cast<double>(model.heads),
                                                        .dropout = false,
                                                        .flash = true});
  model.storage = DType::bf16;
  const auto of_layers = [&](std::size_t count) {
    model.layers = count;
    return static_cast<double>(activation_bytes(model, 1, 1));
  };
  return layers * (of_layers(2) - of_layers(1));
}
/// The same where a block is recomputed in the backward (22.6): every block's input, and the whole of one.
double recomputed_bytes(const GptConfig& model) {
  const auto layers = static_cast<double>(model.layers), input = 2.0 * static_cast<double>(model.d_model);
  return layers * input + kept_bytes(model) / layers - input;
}

std::string models() {
  std::vector<std::string> dense = gpt_preset_names();
  std::erase_if(dense, [](const std::string& name) { return gpt_preset(name).architecture.experts > 0; });
  return list(dense, [](const std::string& name) {
    const GptConfig model = gpt_preset(name);
    std::size_t largest = 0;
    for (const Parameter& tensor : gpt_parameter_table(model)) largest = std::max(largest, tensor.size);
    return fmt::format(R"({{"name":{},"parameters":{},"largest":{},"context":{},"kept":{},"recomputed":{}}})",
                       text(name), model.parameters(), largest, model.context, kept_bytes(model),
                       recomputed_bytes(model));
  });
}

struct Named {
  const char* name;
  const char* file;
  int ranks = 1;
};

std::string gpus() {
  constexpr std::array<Named, 6> kGpus{{{"RTX 4090", "rtx4090-pair"},
                                        {"A100, 40 GB", "hgx-a100-40gb"},
                                        {"A100, 80 GB", "dgx-a100"},
                                        {"H100", "dgx-h100"},
                                        {"H200", "dgx-h200"},
                                        {"B200", "dgx-b200"}}};
  return list(kGpus, [](const Named& gpu) {
    return fmt::format(R"({{"name":"{}","bytes":{}}})", gpu.name, planned_machine(gpu.file).memory_bytes);
  });
}

/// Machines whose links are of one kind: the costs of 21.5's table.
std::string links() {
  constexpr std::array<Named, 4> kLinks{{{"uniform, easy numbers", "uniform", 4},
                                         {"DGX A100, 8 GPUs, NVLink", "dgx-a100", 8},
                                         {"DGX H100, 8 GPUs, NVLink", "dgx-h100", 8},
                                         {"4 GPUs on PCIe", "pcie-box", 4}}};
  return list(kLinks, [](const Named& link) {
    const week21::CostModel cost = week21::cost_model(planned_machine(link.file), link.ranks);
    return fmt::format(R"({{"name":"{}","p":{},"alpha":{:.6g},"link":{:.6g},"add":{:.6g},"launch":{:.6g}}})", link.name,
                       link.ranks, cost.alpha * 1e6, 1 / cost.beta / 1e9, 1 / cost.gamma / 1e9, cost.launch * 1e6);
  });
}

/// Data of the planner: nodes and their network, and models.
std::string planned() {
  return fmt::format(R"("machines":{},"planned":{})",
                     list(kPlannedMachines,
                          [](const PlannedMachine& machine) {
                            return fmt::format(R"({{"name":"{}","file":"{}"}})", machine.name, machine.file);
                          }),
                     list(kPlannedModels, [](const char* name) { return text(name); }));
}

/// Programs of the virtual cluster, each with its text and the number of its first line.
std::string programs() {
  const std::string file = read_file(LOCKSTEP_SOURCE_DIR "/tools/calculators/playground/cluster_programs.cpp");
  return list(cluster_programs(), [&](const ClusterProgram& program) {
    const std::size_t begin = file.find(fmt::format("\nvoid {}(", program.name)) + 1, end = file.find("\n\n", begin);
    if (begin == 0) throw Error(Verdict::fail, fmt::format("cluster_programs.cpp has no function {}", program.name));
    return fmt::format(R"({{"name":"{}","title":{},"line":{},"text":{}}})", program.name, text(program.title),
                       1 + std::count(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(begin), '\n'),
                       text(file.substr(begin, end - begin)));
  });
}

}  // namespace

std::string data() {
  return fmt::format(R"({{"models":{},"gpus":{},"links":{},{},"programs":{}}})", models(), gpus(), links(), planned(),
                     programs());
}

}  // namespace lockstep::playground
