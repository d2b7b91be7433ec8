// Attention on a GPU by cuDNN, through its frontend, a header-only library that builds cuDNN's graphs of operations
// (https://github.com/NVIDIA/cudnn-frontend, "SDPA"). A graph and its plan are made once per key.
//
// Deterministic: the backward requests a deterministic plan. On A100 and Hopper such a plan stores the gradient of all
// scores, B × h × T × T of 16 bits, hence the limit on a plan's workspace.
#include "common/devices/cuda/attention_cudnn.hpp"

#include <fmt/format.h>

#define CUDNN_FRONTEND_SKIP_JSON_LIB  // serialises plans, which is not needed here
#include <cudnn_frontend.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/devices/cuda/status.hpp"

namespace lockstep::cuda {

namespace {

namespace fe = cudnn_frontend;
using fe::graph::Graph;
using fe::graph::Tensor_attributes;
using Tensor = std::shared_ptr<Tensor_attributes>;

constexpr std::int64_t kMostWorkspace = std::int64_t{1} << 30;  // bytes

using Id = std::int64_t;
constexpr Id kQ = 1, kK = 2, kV = 3, kY = 4, kLogSums = 5, kDy = 6, kDq = 7, kDk = 8, kDv = 9;

std::vector<std::int64_t> list(const std::array<std::int64_t, 4>& values) { return {values.begin(), values.end()}; }

/// Adds a tensor's location to the graph. Outputs exist already; inputs are made with it.
Tensor_attributes& describe(Tensor_attributes& tensor, Id id, const TensorLayout& layout) {
  tensor.set_uid(id).set_dim(list(layout.size)).set_stride(list(layout.stride));
  if (id == kLogSums) tensor.set_data_type(fe::DataType_t::FLOAT);
  return tensor;
}
Tensor input(Graph& graph, Id id, const TensorLayout& layout) {
  Tensor_attributes tensor;
  return graph.tensor(describe(tensor, id, layout));
}
void output(const Tensor& tensor, Id id, const TensorLayout& layout) { describe(*tensor, id, layout).set_output(true); }

/// Causal mask: a query sees the keys at its own position and before.
template <class Attributes>
Attributes causal(const AttentionKey& key) {
  Attributes attributes;
  attributes.set_attn_scale(1.0f / std::sqrt(static_cast<float>(key.head_size)));
  attributes.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT).set_diagonal_band_right_bound(0);
  return attributes;
}

void describe_forward(Graph& graph, const AttentionKey& key, const AttentionLayout& at) {
  auto attributes = causal<fe::graph::SDPA_attributes>(key);
  attributes.set_name("attention").set_generate_stats(true);
  const auto [y, log_sums] =
      graph.sdpa(input(graph, kQ, at.q), input(graph, kK, at.k), input(graph, kV, at.v), std::move(attributes));
  output(y, kY, at.y);
  output(log_sums, kLogSums, at.log_sums);
}

void describe_backward(Graph& graph, const AttentionKey& key, const AttentionLayout& at) {
  auto attributes = causal<fe::graph::SDPA_backward_attributes>(key);
  attributes.set_name("attention_backward").set_deterministic_algorithm(true);
  const auto [dq, dk, dv] = graph.sdpa_backward(input(graph, kQ, at.q), input(graph, kK, at.k), input(graph, kV, at.v),
                                                input(graph, kY, at.y), input(graph, kDy, at.y),
                                                input(graph, kLogSums, at.log_sums), std::move(attributes));
  output(dq, kDq, at.q);
  output(dk, kDk, at.k);
  output(dv, kDv, at.v);
}

void describe_graph(Graph& graph, const AttentionKey& key) {
  graph.set_io_data_type(key.dtype == DType::f16 ? fe::DataType_t::HALF : fe::DataType_t::BFLOAT16)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  (key.backward ? describe_backward : describe_forward)(graph, key, layout_of(key));
}

/// Empty, or the first line of an error, which may list each kernel that was tried.
std::string words(const char* step, fe::error_t error) {
  if (error.is_good()) return "";
  std::string text = error.get_message().substr(0, 250);
  std::replace(text.begin(), text.end(), '\n', ' ');
  return fmt::format("{}: {}", step, text);
}

/// Chooses a kernel; `build_graph` is different with and without a GPU.
template <class F>
std::string choose_kernel(Graph& graph, const AttentionKey& key, F build_graph) {
  describe_graph(graph, key);
  std::string why = words("validate", graph.validate());
  if (why.empty()) why = words("build_operation_graph", build_graph());
  if (why.empty()) why = words("create_execution_plans", graph.create_execution_plans({fe::HeurMode_t::A}));
  if (!why.empty()) return why;
  graph.deselect_workspace_greater_than(kMostWorkspace);
  return words("check_support", graph.check_support());
}

struct Plan {
  Graph graph;
  std::string refusal;  // reason why it cannot be used; may be empty
  std::int64_t workspace = 0;

  void make(cudnnHandle_t handle, const AttentionKey& key) {
    refusal = choose_kernel(graph, key, [&] { return graph.build_operation_graph(handle); });
    if (refusal.empty()) refusal = words("build_plans", graph.build_plans());
    if (refusal.empty()) refusal = words("get_workspace_size", graph.get_workspace_size(workspace));
    if (refusal.empty() && workspace > kMostWorkspace)
      refusal = fmt::format("a workspace of {} bytes, above the limit of {}", workspace, kMostWorkspace);
  }
};

char* at(void* data, const TensorLayout& layout) {
  return static_cast<char*>(data) + layout.offset * bytes_of(DType::bf16);
}

std::unordered_map<std::int64_t, void*> pointers_of(const AttentionCall& call) {
  const AttentionLayout layout = layout_of(call.key);
  std::unordered_map<std::int64_t, void*> pointers = {{kQ, at(call.qkv, layout.q)},
                                                      {kK, at(call.qkv, layout.k)},
                                                      {kV, at(call.qkv, layout.v)},
                                                      {kY, call.y},
                                                      {kLogSums, call.log_sums}};
  if (call.key.backward)
    pointers.insert({{kDy, call.dy},
                     {kDq, at(call.dqkv, layout.q)},
                     {kDk, at(call.dqkv, layout.k)},
                     {kDv, at(call.dqkv, layout.v)}});
  return pointers;
}

}  // namespace

std::string cudnn_refuses(const AttentionKey& key, const std::string& properties, int capability) {
  const auto device = std::make_shared<fe::DeviceProperties>();
  const std::string why = words("deserialize", device->deserialize({properties.begin(), properties.end()}));
  if (!why.empty()) return why;
  Graph graph;
  graph.set_device_properties(device).set_sm_version(capability);
  return choose_kernel(graph, key, [&] { return graph.build_operation_graph(); });
}

std::string attention_library_name() {
  const std::size_t version = cudnnGetVersion();
  return fmt::format("cuDNN {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

struct AttentionLibrary::State {
  cudaStream_t stream;
  cudnnHandle_t handle = nullptr;
  std::string refusal;  // set if there is no handle
  std::map<AttentionKey, Plan> plans;

  explicit State(cudaStream_t of) : stream(of) {
    cudnnStatus_t status = cudnnCreate(&handle);
    if (status == CUDNN_STATUS_SUCCESS) status = cudnnSetStream(handle, stream);
    if (status != CUDNN_STATUS_SUCCESS) refusal = fmt::format("cudnnCreate: {}", cudnnGetErrorString(status));
  }
  ~State() {
    plans.clear();
    if (handle) (void)cudnnDestroy(handle);
  }
  State(const State&) = delete;
};

AttentionLibrary::AttentionLibrary(cudaStream_t stream) : state_(std::make_unique<State>(stream)) {}
AttentionLibrary::~AttentionLibrary() = default;

std::string AttentionLibrary::run(const kernels::Queue& queue, const AttentionCall& call) {
  if (!state_->refusal.empty()) return state_->refusal;
  const auto [found, is_new] = state_->plans.try_emplace(call.key);
  Plan& plan = found->second;
  if (is_new) plan.make(state_->handle, call.key);
  if (!plan.refusal.empty()) return plan.refusal;
  void* const workspace = plan.workspace > 0 ? queue.workspace.take(static_cast<std::size_t>(plan.workspace)) : nullptr;
  auto pointers = pointers_of(call);
  const fe::error_t error = plan.graph.execute(state_->handle, pointers, workspace);
  if (error.is_bad())
    throw Error(Verdict::fail, fmt::format("cuDNN's attention: {} ({})", words("execute", error), place()));
  return "";
}

}  // namespace lockstep::cuda
