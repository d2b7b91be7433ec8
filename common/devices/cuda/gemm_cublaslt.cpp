// Matrix products on a GPU by cuBLASLt. Row-major c = a·b is column-major cᵀ = bᵀ·aᵀ, so a and b are swapped and
// nothing is copied. The library's heuristic is asked once per shape. With LOCKSTEP_TUNE in the environment, its first
// answers are timed, unless the file of tuning.hpp already has the fastest.
//
// Deterministic: if k is split, the parts must be f32 and summed in a separate step.
#include <cublasLt.h>
#include <fmt/format.h>

#include <bit>
#include <limits>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "common/devices/cuda/event.hpp"
#include "common/devices/cuda/gemm.hpp"
#include "common/devices/cuda/product_key.hpp"
#include "common/devices/cuda/status.hpp"
#include "common/devices/cuda/tuning.hpp"

namespace lockstep::cuda {

namespace {

constexpr std::size_t kWorkspace = 32 << 20;  // bytes; the default of cuBLAS itself on Hopper
constexpr std::size_t kTuningWorkspace = 64 << 20;
constexpr int kCandidates = 8, kTuningCandidates = 32;
constexpr std::uint32_t kReductions =
    std::uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE};

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

/// A product ready to run. The opaque structures hold no pointers except those of set_pointers.
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

/// A row-major matrix with rows of `length` elements is a column-major one with that leading dimension.
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
  set_pointers(plan, p);  // the heuristic takes their alignment into account
  if (p.bias) plan.set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(p.c_dtype));
  if (p.inner) plan.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, static_cast<std::int64_t>(p.n));
  describe_matrix(plan.first, p.dtype, p.b_transposed ? p.n : p.k, p.b_transposed ? p.k : p.n);
  describe_matrix(plan.second, p.dtype, p.a_transposed ? p.k : p.m, p.a_transposed ? p.m : p.k);
  describe_matrix(plan.result, p.c_dtype, p.m, p.n);
}

/// Up to `most` algorithms for a product, best first in the library's estimate; may be empty.
std::vector<cublasLtMatmulAlgo_t> ways_of(cublasLtHandle_t handle, Plan& plan, const Product& p, const ProductKey& key,
                                          std::size_t workspace, int most) {
  Preference preference;
  preference.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace);
  preference.set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, kReductions);
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.b_alignment);
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.a_alignment);
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.c_alignment);
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.result_alignment);
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(most));
  int found = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle, &plan.operation, &plan.first, &plan.second, &plan.result, &plan.result,
                                     preference.get(), most, results.data(), &found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
  // The library's answer for some types with an epilogue.
  if (status == CUBLAS_STATUS_INVALID_VALUE && epilogue_of(p) != CUBLASLT_EPILOGUE_DEFAULT) return {};
  check(status, "cublasLtMatmulAlgoGetHeuristic");
  std::vector<cublasLtMatmulAlgo_t> ways;
  results.resize(static_cast<std::size_t>(found));
  for (const cublasLtMatmulHeuristicResult_t& result : results)
    if (result.state == CUBLAS_STATUS_SUCCESS) ways.push_back(result.algo);
  return ways;
}

/// The object behind ProductLibrary's handle.
struct Library {
  cublasLtHandle_t handle = nullptr;
  std::unique_ptr<Tuning> tuning;

  Library() {
    check(cublasLtCreate(&handle), "cublasLtCreate");
    tuning = Tuning::of_environment(fmt::format("cuBLASLt {}", cublasLtGetVersion()));
  }
  ~Library() { (void)cublasLtDestroy(handle); }
  Library(const Library&) = delete;
};

static_assert(sizeof(Way) == sizeof(cublasLtMatmulAlgo_t));

/// True if this library has the algorithm `way` for the product, with sums that are bit-identical on every rerun.
bool usable(cublasLtHandle_t handle, Plan& plan, const Way& way, std::size_t workspace) {
  const auto algorithm = std::bit_cast<cublasLtMatmulAlgo_t>(way);
  std::uint32_t reduction = 0;
  std::size_t written = 0;
  if (cublasLtMatmulAlgoConfigGetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &reduction,
                                           sizeof reduction, &written) != CUBLAS_STATUS_SUCCESS ||
      (reduction & ~kReductions) != 0)
    return false;
  cublasLtMatmulHeuristicResult_t result{};
  return cublasLtMatmulAlgoCheck(handle, &plan.operation, &plan.first, &plan.second, &plan.result, &plan.result,
                                 &algorithm, &result) == CUBLAS_STATUS_SUCCESS &&
         result.state == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= workspace;
}

}  // namespace

struct ProductLibrary::State {
  cudaStream_t stream;
  bool tf32;
  std::shared_ptr<void> shared;
  cublasLtHandle_t handle = nullptr;  // of `shared`
  Tuning* tuning = nullptr;           // likewise
  void* workspace = nullptr;
  std::size_t workspace_bytes = kWorkspace;
  std::map<ProductKey, Plan> plans;

  void prepare() {
    if (!shared) shared = open_product_library();
    const auto* library = static_cast<const Library*>(shared.get());
    handle = library->handle;
    tuning = library->tuning.get();
    if (workspace) return;
    if (tuning) workspace_bytes = kTuningWorkspace;
    cuda::check(cudaMallocAsync(&workspace, workspace_bytes, stream), "cudaMallocAsync of cuBLASLt's workspace");
  }
  /// Queues the product, with its result at `c`.
  cublasStatus_t multiply(Plan& plan, const cublasLtMatmulAlgo_t& way, const Product& p, void* c) const {
    const float alpha = 1, beta = p.accumulate ? 1 : 0;
    return cublasLtMatmul(handle, &plan.operation, &alpha, p.b, &plan.first, p.a, &plan.second, &beta, p.c,
                          &plan.result, c, &plan.result, &way, workspace, workspace_bytes, stream);
  }
  /// The algorithm that takes the least GPU time. Results go to separate memory, since p's may be accumulated into.
  cublasLtMatmulAlgo_t fastest(Plan& plan, const Product& p, const std::vector<cublasLtMatmulAlgo_t>& ways) {
    constexpr int kTimes = 3;
    void* c = nullptr;
    cuda::check(cudaMallocAsync(&c, p.m * p.n * bytes_of(p.c_dtype), stream), "cudaMallocAsync to time products");
    EventPool events;
    float least = std::numeric_limits<float>::infinity();
    cublasLtMatmulAlgo_t best = ways.front();
    for (const cublasLtMatmulAlgo_t& way : ways) {
      if (multiply(plan, way, p, c) != CUBLAS_STATUS_SUCCESS) continue;  // the first run is not timed
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
    const auto [at, is_new] = plans.try_emplace(key_of(product, tf32));
    Plan& plan = at->second;
    if (!is_new) {
      set_pointers(plan, product);
      return plan;
    }
    describe_product(plan, product, tf32);
    const ProductKey& key = at->first;
    const bool tunes = tuning && Tuning::matters(key);
    const std::vector<cublasLtMatmulAlgo_t> ways =
        ways_of(handle, plan, product, key, workspace_bytes, tunes ? kTuningCandidates : kCandidates);
    plan.possible = !ways.empty();
    if (!plan.possible) return plan;
    plan.algorithm = ways.front();
    if (tunes)
      plan.algorithm = std::bit_cast<cublasLtMatmulAlgo_t>(tuning->choose(
          key, [&](const Way& way) { return usable(handle, plan, way, workspace_bytes); },
          [&] { return std::bit_cast<Way>(fastest(plan, product, ways)); }));
    return plan;
  }
  ~State() {  // errors would show at the stream's next call
    if (workspace) cudaFreeAsync(workspace, stream);
  }
};

std::shared_ptr<void> open_product_library() { return std::make_shared<Library>(); }

ProductLibrary::ProductLibrary(cudaStream_t stream, bool tf32, std::shared_ptr<void> handle)
    : state_(new State{.stream = stream, .tf32 = tf32, .shared = std::move(handle)}) {}
ProductLibrary::~ProductLibrary() = default;

bool ProductLibrary::run(const Product& product) {
  state_->prepare();
  Plan& plan = state_->plan_of(product);
  if (!plan.possible) return false;
  const cublasStatus_t status = state_->multiply(plan, plan.algorithm, product, product.c);
  plan.possible = status != CUBLAS_STATUS_NOT_SUPPORTED;  // the heuristic may be wrong; then nothing was queued
  if (plan.possible) check(status, "cublasLtMatmul");
  return plan.possible;
}

}  // namespace lockstep::cuda
