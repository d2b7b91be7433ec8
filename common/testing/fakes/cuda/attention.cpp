// The attention library on the fake GPU: loops in f32, queued on the stream like a kernel. Available only if the
// settings say so. It finds tensors by the same layout that cuDNN is given, and has no plan for shapes that cuDNN
// rejects.
#include <fmt/format.h>

#include <cmath>
#include <set>
#include <stdexcept>
#include <vector>

#include "common/devices/cuda/attention_library.hpp"
#include "common/devices/cuda/status.hpp"
#include "common/runtime/convert.hpp"
#include "common/testing/fakes/cuda/fake.hpp"

namespace lockstep::cuda {

namespace {

/// A tensor of 16-bit elements, or of floats.
struct View {
  void* data;
  DType dtype;
  TensorLayout at;

  std::size_t place(std::size_t batch, std::size_t head, std::size_t position, std::size_t channel) const {
    const auto n = [](std::int64_t x) { return static_cast<std::size_t>(x); };
    return at.offset + batch * n(at.stride[0]) + head * n(at.stride[1]) + position * n(at.stride[2]) +
           channel * n(at.stride[3]);
  }
  float get(std::size_t i) const { return load_as_float(data, i, dtype); }
  void set(std::size_t i, float value) const {
    if (dtype == DType::f32)
      static_cast<float*>(data)[i] = value;
    else
      static_cast<std::uint16_t*>(data)[i] = dtype == DType::bf16 ? to_bf16(value) : to_f16(value);
  }
};

/// One head of one sequence: T × d of a tensor as floats, and back.
using Rows = std::vector<std::vector<float>>;
Rows rows(const View& x, std::size_t batch, std::size_t head) {
  Rows result(static_cast<std::size_t>(x.at.size[2]), std::vector<float>(static_cast<std::size_t>(x.at.size[3])));
  for (std::size_t t = 0; t < result.size(); ++t)
    for (std::size_t c = 0; c < result[t].size(); ++c) result[t][c] = x.get(x.place(batch, head, t, c));
  return result;
}
void store(const View& x, std::size_t batch, std::size_t head, const Rows& values) {
  for (std::size_t t = 0; t < values.size(); ++t)
    for (std::size_t c = 0; c < values[t].size(); ++c) x.set(x.place(batch, head, t, c), values[t][c]);
}

float dot(const std::vector<float>& a, const std::vector<float>& b) {
  float sum = 0;
  for (std::size_t c = 0; c < a.size(); ++c) sum += a[c] * b[c];
  return sum;
}
void add(std::vector<float>& to, float factor, const std::vector<float>& x) {
  for (std::size_t c = 0; c < x.size(); ++c) to[c] += factor * x[c];
}

struct Queued {
  AttentionCall call;
  AttentionLayout layout = layout_of(call.key);
  float scale = 1 / std::sqrt(static_cast<float>(call.key.head_size));

  View of(void* data, const TensorLayout& at) const { return {data, call.key.dtype, at}; }
  View log_sums() const { return {call.log_sums, DType::f32, layout.log_sums}; }
  std::size_t group() const { return call.key.heads / call.key.kv_heads; }
  Rows zeros() const { return Rows(call.key.positions, std::vector<float>(call.key.head_size)); }

  void forward(std::size_t batch, std::size_t head) const {
    const Rows q = rows(of(call.qkv, layout.q), batch, head), k = rows(of(call.qkv, layout.k), batch, head / group()),
               v = rows(of(call.qkv, layout.v), batch, head / group());
    Rows y = zeros();
    for (std::size_t t = 0; t < q.size(); ++t) {
      std::vector<float> scores;
      for (std::size_t u = 0; u <= t; ++u) scores.push_back(scale * dot(q[t], k[u]));
      float maximum = scores.front(), sum = 0;
      for (const float score : scores) maximum = std::fmax(maximum, score);
      for (const float score : scores) sum += std::exp(score - maximum);
      for (std::size_t u = 0; u <= t; ++u) add(y[t], std::exp(scores[u] - maximum) / sum, v[u]);
      const View sums = log_sums();
      sums.set(sums.place(batch, head, t, 0), maximum + std::log(sum));
    }
    store(of(call.y, layout.y), batch, head, y);
  }

  /// Adds the contribution of query head `head`; the heads of its group follow one another.
  void backward(std::size_t batch, std::size_t head, Rows& dk, Rows& dv) const {
    const Rows q = rows(of(call.qkv, layout.q), batch, head), k = rows(of(call.qkv, layout.k), batch, head / group()),
               v = rows(of(call.qkv, layout.v), batch, head / group()), y = rows(of(call.y, layout.y), batch, head),
               dy = rows(of(call.dy, layout.y), batch, head);
    Rows dq = zeros();
    const View sums = log_sums();
    for (std::size_t t = 0; t < q.size(); ++t) {
      const float of_row = dot(dy[t], y[t]), log_sum = sums.get(sums.place(batch, head, t, 0));
      for (std::size_t u = 0; u <= t; ++u) {
        const float p = std::exp(scale * dot(q[t], k[u]) - log_sum), ds = p * (dot(dy[t], v[u]) - of_row) * scale;
        add(dq[t], ds, k[u]);
        add(dk[u], ds, q[t]);
        add(dv[u], p, dy[t]);
      }
    }
    store(of(call.dqkv, layout.q), batch, head, dq);
  }

  void run() const {
    for (std::size_t batch = 0; batch < call.key.batch; ++batch)
      for (std::size_t kv = 0; kv < call.key.kv_heads; ++kv) {
        Rows dk = zeros(), dv = zeros();
        for (std::size_t head = kv * group(); head < (kv + 1) * group(); ++head)
          call.key.backward ? backward(batch, head, dk, dv) : forward(batch, head);
        if (!call.key.backward) continue;
        store(of(call.dqkv, layout.k), batch, kv, dk);
        store(of(call.dqkv, layout.v), batch, kv, dv);
      }
  }
};

void CUDART_CB run_queued(void* data) {
  const std::unique_ptr<const Queued> queued(static_cast<const Queued*>(data));
  queued->run();
}

/// Returns cuDNN 9.19's reason for rejecting a key on an H100.
std::string refusal(const AttentionKey& key) {
  if (fake::settings().cudnn == 2) return "the fake cuDNN has a plan for nothing";
  if (key.head_size > 256) return "heads above 256";
  if (key.backward && key.positions == 1) return "s_q = s_kv = 1 is not supported.";
  return "";
}

}  // namespace

struct AttentionLibrary::State {
  cudaStream_t stream;
  std::set<AttentionKey> plans;
};

std::string attention_library_name() { return fake::settings().cudnn == 0 ? "" : "fake cuDNN"; }

AttentionLibrary::AttentionLibrary(cudaStream_t stream) : state_(new State{stream, {}}) {
  fake::comes_when_idle("the library of attention is opened");
}
AttentionLibrary::~AttentionLibrary() = default;

std::string AttentionLibrary::run(const kernels::Queue&, const AttentionCall& call) {
  const AttentionKey& key = call.key;
  if (!unsuitable(call).empty() || key.kv_heads == 0 || key.heads % key.kv_heads != 0)
    throw std::logic_error("the library of attention was asked for what it is not for");
  if (const std::string why = refusal(key); !why.empty()) return why;
  if (state_->plans.insert(key).second) fake::comes_when_idle("a plan of attention is loaded");
  check(cudaLaunchHostFunc(state_->stream, run_queued, new Queued{call}), "cudaLaunchHostFunc");
  fake::count_launch();
  return "";
}

}  // namespace lockstep::cuda
