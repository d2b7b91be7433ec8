// The library of matrix products on a GPU: cuBLASLt. Row-major c = a·b is column-major cᵀ = bᵀ·aᵀ, so a and b change
// places and nothing is copied. For each shape the library's heuristic is asked once; with LOCKSTEP_TUNE in the
// environment its first answers are timed, and the fastest is kept, which another run need not choose.
//
// Deterministic: of the ways to split k only those are allowed whose parts are f32 and are summed in a separate step.
#include <cublasLt.h>
#include <fmt/format.h>

#include <algorithm>
#include <compare>
#include <cstdlib>
#include <limits>
#include <map>
#include <vector>

#include "common/devices/cuda/event.hpp"
#include "common/devices/cuda/gemm.hpp"
#include "common/devices/cuda/status.hpp"

namespace lockstep::cuda {

namespace {

constexpr std::size_t kWorkspace = 32 << 20;  // bytes; what cuBLAS itself takes on Hopper
constexpr int kCandidates = 8;

void check(cublasStatus_t status, const char* call, Location where = Location::current()) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(Verdict::fail,
              fmt::format("{}: {} ({}, at {})", call, cublasLtGetStatusString(status), place(), describe(where)));
}

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::bf16: return CUDA_R_16BF;
    case DType::f16: return CUDA_R_16F;
    default: return CUDA_R_32F;
  }
}

/// The largest power of two up to 16 that divides an address: what a kernel may rely on. Tensor cores ask for no more
/// (cuBLAS's documentation, "Tensor Core Usage"); and a product gives the same bits wherever its matrices lie, if that
/// is at multiples of 16 bytes: a model cut into stages or shards adds in the order of the whole one.
std::uint32_t alignment_of(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data) | 16u;
  return static_cast<std::uint32_t>(address & (~address + 1));
}

/// Bias and GELU's argument count with the result: a kernel may write and read all of them with accesses of one width.
std::uint32_t result_alignment(const Product& p) {
  std::uint32_t least = alignment_of(p.c);
  for (const void* beside : {p.bias, static_cast<const void*>(p.inner)})
    if (beside) least = std::min(least, alignment_of(beside));
  return least;
}

/// Everything that the choice of a kernel may depend on.
struct Key {
  std::size_t m, n, k;
  DType dtype, c_dtype;
  bool a_transposed, b_transposed, accumulate, bias;
  Epilogue epilogue;
  std::uint32_t a_alignment, b_alignment, c_alignment, result_alignment;
  auto operator<=>(const Key&) const = default;  // NOLINT(modernize-use-nullptr): of clang-tidy 14
};

Key key_of(const Product& p) {
  return {p.m,
          p.n,
          p.k,
          p.dtype,
          p.c_dtype,
          p.a_transposed,
          p.b_transposed,
          p.accumulate,
          p.bias != nullptr,
          p.epilogue,
          alignment_of(p.a),
          alignment_of(p.b),
          alignment_of(p.c),
          result_alignment(p)};
}

class Preference {
 public:
  Preference() { check(cublasLtMatmulPreferenceCreate(&preference_), "cublasLtMatmulPreferenceCreate"); }
  ~Preference() { cublasLtMatmulPreferenceDestroy(preference_); }
  Preference(const Preference&) = delete;
  template <class T>
  void set(cublasLtMatmulPreferenceAttributes_t attribute, T value) {
    check(cublasLtMatmulPreferenceSetAttribute(preference_, attribute, &value, sizeof value),
          "cublasLtMatmulPreferenceSetAttribute");
  }
  cublasLtMatmulPreference_t get() const { return preference_; }

 private:
  cublasLtMatmulPreference_t preference_ = nullptr;
};

/// A product ready to run: the opaque structures hold no pointers but those of set_pointers.
struct Plan {
  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t first, second, result;  // in cuBLASLt's order: b, a, c
  cublasLtMatmulAlgo_t algorithm;
  bool possible = false;

  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, T value) {
    check(cublasLtMatmulDescSetAttribute(&operation, attribute, &value, sizeof value),
          "cublasLtMatmulDescSetAttribute");
  }
};

/// A row-major matrix whose rows are `length` long is a column-major one with that leading dimension.
void describe_matrix(cublasLtMatrixLayoutOpaque_t& layout, DType dtype, std::size_t rows, std::size_t length) {
  check(cublasLtMatrixLayoutInit(&layout, type_of(dtype), length, rows, static_cast<std::int64_t>(length)),
        "cublasLtMatrixLayoutInit");
}

cublasLtEpilogue_t epilogue_of(const Product& p) {
  switch (p.epilogue) {
    case Epilogue::gelu: return p.bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    case Epilogue::gelu_backward: return CUBLASLT_EPILOGUE_DGELU;
    default: return p.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  }
}

void set_pointers(Plan& plan, const Product& p) {
  if (p.bias) plan.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  if (p.inner) plan.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p.inner);
}

void describe_product(Plan& plan, const Product& p, bool tf32) {
  const auto compute = tf32 && p.dtype == DType::f32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  check(cublasLtMatmulDescInit(&plan.operation, compute, CUDA_R_32F), "cublasLtMatmulDescInit");
  plan.set(CUBLASLT_MATMUL_DESC_TRANSA, p.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  plan.set(CUBLASLT_MATMUL_DESC_TRANSB, p.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  plan.set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(p));
  set_pointers(plan, p);  // the heuristic looks at their alignment
  if (p.bias) plan.set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(p.c_dtype));
  if (p.inner) plan.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, static_cast<std::int64_t>(p.n));
  describe_matrix(plan.first, p.dtype, p.b_transposed ? p.n : p.k, p.b_transposed ? p.k : p.n);
  describe_matrix(plan.second, p.dtype, p.a_transposed ? p.k : p.m, p.a_transposed ? p.m : p.k);
  describe_matrix(plan.result, p.c_dtype, p.m, p.n);
}

/// Ways to do a product, the one first that the library thinks fastest; none where it has none.
std::vector<cublasLtMatmulAlgo_t> ways_of(cublasLtHandle_t handle, Plan& plan, const Product& p) {
  Preference preference;
  preference.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspace);
  preference.set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                 std::uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(p.b));
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(p.a));
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(p.c));
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, result_alignment(p));
  cublasLtMatmulHeuristicResult_t results[kCandidates];
  int found = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle, &plan.operation, &plan.first, &plan.second, &plan.result, &plan.result,
                                     preference.get(), kCandidates, results, &found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
  // So it says of some types with an epilogue.
  if (status == CUBLAS_STATUS_INVALID_VALUE && epilogue_of(p) != CUBLASLT_EPILOGUE_DEFAULT) return {};
  check(status, "cublasLtMatmulAlgoGetHeuristic");
  std::vector<cublasLtMatmulAlgo_t> ways;
  for (int i = 0; i < found; ++i)
    if (results[i].state == CUBLAS_STATUS_SUCCESS) ways.push_back(results[i].algo);
  return ways;
}

}  // namespace

struct ProductLibrary::State {
  cudaStream_t stream;
  bool tf32;
  bool tune = std::getenv("LOCKSTEP_TUNE") != nullptr;
  cublasLtHandle_t handle = nullptr;  // made by the first product: queues that only add never need one
  void* workspace = nullptr;
  std::map<Key, Plan> plans;

  void prepare() {
    if (!handle) check(cublasLtCreate(&handle), "cublasLtCreate");
    if (!workspace)
      cuda::check(cudaMallocAsync(&workspace, kWorkspace, stream),
                  "cudaMallocAsync of 32 MiB for cuBLASLt's workspace");
  }
  /// Queues the product, with its result at `c`.
  cublasStatus_t multiply(Plan& plan, const cublasLtMatmulAlgo_t& way, const Product& p, void* c) const {
    const float alpha = 1, beta = p.accumulate ? 1 : 0;
    return cublasLtMatmul(handle, &plan.operation, &alpha, p.b, &plan.first, p.a, &plan.second, &beta, p.c,
                          &plan.result, c, &plan.result, &way, workspace, kWorkspace, stream);
  }
  /// The way that takes the GPU the least time. Results go to memory of their own: p's may be one that is added to.
  cublasLtMatmulAlgo_t fastest(Plan& plan, const Product& p, const std::vector<cublasLtMatmulAlgo_t>& ways) {
    constexpr int kTimes = 3;
    void* c = nullptr;
    cuda::check(cudaMallocAsync(&c, p.m * p.n * bytes_of(p.c_dtype), stream), "cudaMallocAsync to time products");
    EventPool events;
    float least = std::numeric_limits<float>::infinity();
    cublasLtMatmulAlgo_t best = ways.front();
    for (const cublasLtMatmulAlgo_t& way : ways) {
      if (multiply(plan, way, p, c) != CUBLAS_STATUS_SUCCESS) continue;  // this first time is not timed
      const Event begin = events.record(stream);
      for (int i = 0; i < kTimes; ++i) check(multiply(plan, way, p, c), "cublasLtMatmul");
      const Event end = events.record(stream);
      end.synchronize();
      float milliseconds = 0;
      cuda::check(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "cudaEventElapsedTime");
      if (milliseconds >= least) continue;
      least = milliseconds;
      best = way;
    }
    cuda::check(cudaFreeAsync(c, stream), "cudaFreeAsync");
    return best;
  }
  Plan& plan_of(const Product& product) {
    const auto [at, is_new] = plans.try_emplace(key_of(product));
    Plan& plan = at->second;
    if (!is_new) {
      set_pointers(plan, product);
      return plan;
    }
    describe_product(plan, product, tf32);
    const std::vector<cublasLtMatmulAlgo_t> ways = ways_of(handle, plan, product);
    plan.possible = !ways.empty();
    if (plan.possible) plan.algorithm = tune && ways.size() > 1 ? fastest(plan, product, ways) : ways.front();
    return plan;
  }
  ~State() {  // errors would show at the stream's next call
    if (workspace) cudaFreeAsync(workspace, stream);
    if (handle) cublasLtDestroy(handle);
  }
};

ProductLibrary::ProductLibrary(cudaStream_t stream, bool tf32) : state_(new State{stream, tf32}) {}
ProductLibrary::~ProductLibrary() = default;

bool ProductLibrary::run(const Product& product) {
  state_->prepare();
  Plan& plan = state_->plan_of(product);
  if (!plan.possible) return false;
  const cublasStatus_t status = state_->multiply(plan, plan.algorithm, product, product.c);
  plan.possible = status != CUBLAS_STATUS_NOT_SUPPORTED;  // the heuristic may be wrong; nothing was queued then
  if (plan.possible) check(status, "cublasLtMatmul");
  return plan.possible;
}

}  // namespace lockstep::cuda
