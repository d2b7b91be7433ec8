// gpt.py: the model and the text that the printed programs train, so that they run as they are.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "common/support/json/document.hpp"
#include "tools/train/explain_parts.hpp"

namespace lockstep::train {

extern const char* const kGpt;  // gpt.py here, as CMake put it into the program

namespace {

const char* python_truth(bool so) { return so ? "True" : "False"; }

}  // namespace

std::string text_file(const TrainPlan& plan) {
  return plan.request.data.empty() ? "data/austen.txt" : plan.request.data;
}

Explanation::File gpt_file(const TrainPlan& plan) {
  const Facts f = facts_of(plan);
  const GptConfig& m = f.o.model;
  const Architecture& a = m.architecture;
  std::string text =
      fmt::format("TEXT = {}  # or what the variable TEXT says\n", Json::of(std::string_view(text_file(plan))).dump());
  text += fmt::format("LAYERS, HEADS, KEY_HEADS, WIDTH, MLP_WIDTH = {}, {}, {}, {}, {}\n", m.layers, m.heads,
                      a.key_value_heads(m.heads), m.d_model, m.mlp_width());
  text +=
      fmt::format("VOCABULARY, CONTEXT, SEQUENCE, TIED = {}, {}, {}, {}\n", std::max<std::size_t>(256, m.vocabulary),
                  std::max(m.context, f.o.sequence), f.o.sequence, python_truth(m.tied_head && f.o.mesh.pp == 1));
  text += fmt::format("RMS_NORM, SWIGLU, BIAS, ROPE_BASE = {}, {}, {}, {:g}\n",
                      python_truth(a.norm == NormKind::rms_norm), python_truth(a.mlp == MlpKind::swiglu),
                      python_truth(a.biases), a.positions == PositionKind::rotary ? a.rope_base : 0);
  text += fmt::format("STEPS, WARMUP, WEIGHT_DECAY, SEED = {}, {}, {:g}, {}\n", f.r.steps, f.r.warmup, f.weight_decay,
                      f.o.seed);
  const std::string_view program = kGpt;  // with the constants of `tiny`
  return {"gpt.py", std::string(program.substr(0, program.find("TEXT = "))) + text +
                        std::string(program.substr(program.find("\npositions = ")))};
}

std::vector<std::string> differences_of_gpt(const Facts& f) {
  std::vector<std::string> all = common_differences(f);
  if (f.r.dropout > 0)
    all.insert(all.begin(),
               fmt::format("--dropout {}: gpt.py drops nothing. Put nn.Dropout behind the embedding and the "
                           "layers projection and down, with other seeds on other replicas, and on ranks "
                           "that share a layer the same.",
                           f.r.dropout));
  return all;
}

std::string optimizer_call(const Facts& f, const char* parameters) {
  return f.adamw
             ? fmt::format("torch.optim.AdamW({}, lr={}, betas=(0.9, 0.95), eps=1e-8", parameters, f.r.learning_rate)
             : fmt::format("torch.optim.SGD({}, lr={}, momentum=0.9", parameters, f.r.learning_rate);
}

std::string place_lines() {
  return R"py(kind = "cuda" if torch.cuda.is_available() else "cpu"
device = torch.device(f"cuda:{os.environ['LOCAL_RANK']}" if kind == "cuda" else "cpu")
if kind == "cuda":
    torch.cuda.set_device(device)
)py";
}

std::string if_it_saves(const Facts& f) {
  return f.r.checkpoint_every > 0
             ? fmt::format("    if (step + 1) % {} == 0 or step + 1 == gpt.STEPS:\n", f.r.checkpoint_every)
             : "    if step + 1 == gpt.STEPS:\n";
}

}  // namespace lockstep::train
