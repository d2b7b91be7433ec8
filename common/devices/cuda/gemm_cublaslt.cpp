// Matrix products on a GPU by cuBLASLt. Row-major c = a·b is column-major cᵀ = bᵀ·aᵀ, so a and b are swapped and
// nothing is copied. The library's heuristic is asked once per shape. (Timing its first 32 answers gained nothing on an
// H100: docs/results/gpus.md.)
//
// Deterministic: if k is split, the parts must be f32 and summed in a separate step.
#include <cublasLt.h>
#include <fmt/format.h>

#include <array>
#include <map>
#include <memory>
#include <utility>

#include "common/devices/cuda/gemm.hpp"
#include "common/devices/cuda/product_key.hpp"
#include "common/devices/cuda/status.hpp"

namespace lockstep::cuda {

namespace {

constexpr std::size_t kWorkspace = 32 << 20;  // bytes; the default of cuBLAS itself on Hopper
constexpr int kCandidates = 8;
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

/// Chooses the algorithm that is fastest in the library's estimate. Not possible: it has none.
void choose_algorithm(cublasLtHandle_t handle, Plan& plan, const Product& p, const ProductKey& key) {
  Preference preference;
  preference.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspace);
  preference.set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, kReductions);
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.b_alignment);
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.a_alignment);
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.c_alignment);
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.result_alignment);
  std::array<cublasLtMatmulHeuristicResult_t, kCandidates> results{};
  int found = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle, &plan.operation, &plan.first, &plan.second, &plan.result, &plan.result,
                                     preference.get(), kCandidates, results.data(), &found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return;
  // The library's answer for some types with an epilogue.
  if (status == CUBLAS_STATUS_INVALID_VALUE && epilogue_of(p) != CUBLASLT_EPILOGUE_DEFAULT) return;
  check(status, "cublasLtMatmulAlgoGetHeuristic");
  for (int i = found; i-- > 0;)
    if (results[static_cast<std::size_t>(i)].state == CUBLAS_STATUS_SUCCESS)
      plan.algorithm = results[static_cast<std::size_t>(i)].algo, plan.possible = true;
}

/// The object behind ProductLibrary's handle.
struct Library {
  cublasLtHandle_t handle = nullptr;

  Library() { check(cublasLtCreate(&handle), "cublasLtCreate"); }
  ~Library() { (void)cublasLtDestroy(handle); }
  Library(const Library&) = delete;
};

}  // namespace

struct ProductLibrary::State {
  cudaStream_t stream;
  bool tf32;
  std::shared_ptr<void> shared;
  cublasLtHandle_t handle = nullptr;  // of `shared`
  void* workspace = nullptr;
  std::map<ProductKey, Plan> plans;

  void prepare() {
    if (!shared) shared = open_product_library();
    handle = static_cast<const Library*>(shared.get())->handle;
    if (workspace) return;
    cuda::check(cudaMallocAsync(&workspace, kWorkspace, stream), "cudaMallocAsync of cuBLASLt's workspace");
  }
  /// Queues the product.
  cublasStatus_t multiply(Plan& plan, const Product& p) const {
    const float alpha = 1, beta = p.accumulate ? 1 : 0;
    return cublasLtMatmul(handle, &plan.operation, &alpha, p.b, &plan.first, p.a, &plan.second, &beta, p.c,
                          &plan.result, p.c, &plan.result, &plan.algorithm, workspace, kWorkspace, stream);
  }
  Plan& plan_of(const Product& product) {
    const auto [at, is_new] = plans.try_emplace(key_of(product, tf32));
    Plan& plan = at->second;
    if (!is_new) {
      set_pointers(plan, product);
      return plan;
    }
    describe_product(plan, product, tf32);
    choose_algorithm(handle, plan, product, at->first);
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
  const cublasStatus_t status = state_->multiply(plan, product);
  plan.possible = status != CUBLAS_STATUS_NOT_SUPPORTED;  // the heuristic may be wrong; then nothing was queued
  if (plan.possible) check(status, "cublasLtMatmul");
  return plan.possible;
}

}  // namespace lockstep::cuda
