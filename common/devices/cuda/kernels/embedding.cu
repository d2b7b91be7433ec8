// Rows of a table by token, one warp per row. The backward sorts tokens with their positions, so that equal ones are
// adjacent, and splits them into pieces of equal length, however often a token occurs. A block sums the runs of its
// piece, in order, in float. A run inside one piece is added to the table at once. For a run across pieces, each piece
// stores its part, and the block of the piece where the run begins adds them up.
#include "common/devices/cuda/kernels/faults.cuh"
#include "common/devices/cuda/kernels/operations.hpp"
#include "common/devices/cuda/kernels/reduce.cuh"
#include "common/devices/cuda/kernels/sort.cuh"

namespace lockstep::kernels {

namespace {

constexpr std::int32_t kElsewhere = -1;  // row in another shard of the table
constexpr int kRowsOfBlock = kThreads / kWarp;
constexpr Index kPiece = 32;  // sorted tokens per block
constexpr int kAhead = 4;     // rows loading from memory at once

template <class T>
__global__ void __launch_bounds__(kThreads)
    embedding_kernel(T* y, const std::int32_t* tokens, Array table, Array positions, Index rows, Index columns,
                     Index sequence, IndexCheck check) {
  const Index row = static_cast<Index>(blockIdx.x) * kRowsOfBlock + threadIdx.y;
  if (row >= rows) return;
  const std::int32_t token = tokens[row];
  const bool here = token != kElsewhere && check(token, row);
  for (Index i = threadIdx.x * static_cast<Index>(kPack); i < columns; i += kWarp * kPack) {
    float values[kPack] = {}, position[kPack];
    if (here) load_floats(values, row_of(table, token, columns), i, columns);
    if (positions.size != 0) {
      load_floats(position, row_of(positions, row % sequence, columns), i, columns);
#pragma unroll
      for (int j = 0; j < kPack; ++j) values[j] += position[j];
    }
    store_floats(y + row * columns, i, columns, values);
  }
}

/// Makes the sort keys; tokens without a row here sort last, as `check.limit`.
__global__ void __launch_bounds__(kThreads)
    make_keys_kernel(std::int32_t* keys, const std::int32_t* tokens, Index n, IndexCheck check) {
  const Index i = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  const std::int32_t token = tokens[i];
  keys[i] = token != kElsewhere && check(token, i) ? token : static_cast<std::int32_t>(check.limit);
}

struct Runs {
  Sorted sorted;
  Index n;
  std::int32_t none;  // key of tokens without a row

  __device__ bool joins(Index i) const {  // true if i − 1 and i belong to one run
    return i > 0 && i < n && sorted.keys[i - 1] == sorted.keys[i];
  }
};

__device__ inline void add_to(float (&sum)[kPack], const float (&values)[kPack]) {
#pragma unroll
  for (int j = 0; j < kPack; ++j) sum[j] += values[j];
}

/// target[row] += sum, for the columns of a pack.
__device__ inline void add_to_row(const Array& target, Index row, Index i, Index columns, const float (&sum)[kPack]) {
  float values[kPack];
  const Array at = row_of(target, row, columns);
  load_floats(values, at, i, columns);
  add_to(values, sum);
  store_floats(at, i, columns, values);
}

/// parts: for each piece, its parts of the run that began in the piece before and of the run that continues after it.
template <class T>
__global__ void __launch_bounds__(kThreads)
    sum_runs_kernel(Array dtable, float* parts, const T* dy, Runs runs, Index columns) {
  const Index first = blockIdx.x * kPiece, last = min(runs.n, first + kPiece);
  const Index i = (blockIdx.y * static_cast<Index>(blockDim.x) + threadIdx.x) * kPack;
  if (i >= columns) return;
  float* from_before = parts + blockIdx.x * 2 * columns;
  float* to_after = from_before + columns;
  float sum[kPack] = {};
  bool came = runs.joins(first);
  const auto add_row = [&](Index k, const Pack<T>& row) {
    const std::int32_t token = runs.sorted.keys[k];
    if (token == runs.none) return;  // these are the last
#pragma unroll
    for (int j = 0; j < kPack; ++j) sum[j] += widen(row.at[j]);
    if (k + 1 < last && runs.joins(k + 1)) return;
    if (came)
      store_floats(from_before, i, columns, sum);
    else if (runs.joins(k + 1))
      store_floats(to_after, i, columns, sum);
    else
      add_to_row(dtable, token, i, columns, sum);
    came = false;
#pragma unroll
    for (int j = 0; j < kPack; ++j) sum[j] = 0;
  };
  for (Index k = first; k < last; k += kAhead) {
    Pack<T> rows[kAhead];
#pragma unroll
    for (int a = 0; a < kAhead; ++a)
      if (k + a < last) rows[a] = load(dy + runs.sorted.places[k + a] * columns, i, columns);
#pragma unroll
    for (int a = 0; a < kAhead; ++a)
      if (k + a < last) add_row(k + a, rows[a]);
  }
}

/// Adds up the run that begins in this block's piece and continues after it, if there is one.
__global__ void __launch_bounds__(kThreads)
    join_runs_kernel(Array dtable, const float* parts, Runs runs, Index columns) {
  const Index first = blockIdx.x * kPiece, last = min(runs.n, first + kPiece);
  const Index i = (blockIdx.y * static_cast<Index>(blockDim.x) + threadIdx.x) * kPack;
  if (i >= columns || !runs.joins(last)) return;
  const std::int32_t token = runs.sorted.keys[last];
  if (token == runs.none || (runs.joins(first) && runs.sorted.keys[first] == token)) return;  // it began before
  float sum[kPack], part[kPack];
  load_floats(sum, parts + (blockIdx.x * 2 + 1) * columns, i, columns);
  for (Index piece = blockIdx.x + 1; runs.joins(piece * kPiece) && runs.sorted.keys[piece * kPiece] == token; ++piece) {
    load_floats(part, parts + piece * 2 * columns, i, columns);
    add_to(sum, part);
  }
  add_to_row(dtable, token, i, columns, sum);
}

/// One warp per position: the sum over the sequences, in order.
template <class T>
__global__ void __launch_bounds__(kThreads)
    position_sums_kernel(Array dpositions, const T* dy, Index sequences, Index sequence, Index columns) {
  const Index position = static_cast<Index>(blockIdx.x) * kRowsOfBlock + threadIdx.y;
  if (position >= sequence) return;
  for (Index i = threadIdx.x * static_cast<Index>(kPack); i < columns; i += kWarp * kPack) {
    float sum[kPack] = {}, values[kPack];
    for (Index s = 0; s < sequences; ++s) {
      load_floats(values, dy + (s * sequence + position) * columns, i, columns);
      add_to(sum, values);
    }
    add_to_row(dpositions, position, i, columns, sum);
  }
}

dim3 grid_of_rows(Index rows) { return dim3(static_cast<unsigned>(divide_up(rows, kRowsOfBlock))); }

template <class T>
void add_token_gradients(const Queue& queue, Array dtable, const T* dy, Array tokens, Index columns) {
  const Index n = size_of(tokens), vocabulary = size_of(dtable) / columns, pieces = divide_up(n, kPiece);
  const std::size_t sorting = sort_bytes(tokens.size);
  auto* memory = static_cast<char*>(
      queue.workspace.take(sorting + static_cast<std::size_t>(pieces * 2 * columns) * sizeof(float)));
  auto* parts = reinterpret_cast<float*>(memory + sorting);
  launch(
      make_keys_kernel, dim3(static_cast<unsigned>(divide_up(n, kThreads))), dim3(kThreads), 0, queue.stream,
      keys_to_sort(memory), tokens.as<const std::int32_t>(), n,
      IndexCheck{queue.fault, "embedding_backward: token {} at position {} is outside a vocabulary of {}", vocabulary});
  const Runs runs{sort_keys(queue.stream, memory, tokens.size, vocabulary), n, static_cast<std::int32_t>(vocabulary)};
  const Index packs = divide_up(columns, kPack);
  const dim3 block = block_for(packs, kThreads);
  const dim3 grid(static_cast<unsigned>(pieces), static_cast<unsigned>(divide_up(packs, block.x)));
  launch(sum_runs_kernel<T>, grid, block, 0, queue.stream, dtable, parts, dy, runs, columns);
  launch(join_runs_kernel, grid, block, 0, queue.stream, dtable, parts, runs, columns);
}

}  // namespace

void embedding(const Queue& queue, Array y, Array tokens, Array table, Array positions, std::size_t sequence) {
  if (y.size == 0) return;
  const Index rows = size_of(tokens), columns = size_of(y) / rows;
  const IndexCheck check{queue.fault, "embedding: token {} at position {} is outside a vocabulary of {}",
                         size_of(table) / columns};
  with_type(y.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    launch(embedding_kernel<T>, grid_of_rows(rows), dim3(kWarp, kRowsOfBlock), 0, queue.stream, y.as<T>(),
           tokens.as<const std::int32_t>(), table, positions, rows, columns, static_cast<Index>(sequence), check);
  });
}

void embedding_backward(const Queue& queue, Array dtable, Array dpositions, Array dy, Array tokens,
                        std::size_t sequence) {
  if (dy.size == 0) return;
  const Index rows = size_of(tokens), columns = size_of(dy) / rows, positions = static_cast<Index>(sequence);
  with_type(dy.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    const T* gradient = dy.as<const T>();
    if (dtable.size != 0) add_token_gradients(queue, dtable, gradient, tokens, columns);
    if (dpositions.size != 0)
      launch(position_sums_kernel<T>, grid_of_rows(positions), dim3(kWarp, kRowsOfBlock), 0, queue.stream, dpositions,
             gradient, rows / positions, positions, columns);
  });
}

}  // namespace lockstep::kernels
