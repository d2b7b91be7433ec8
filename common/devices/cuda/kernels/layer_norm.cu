// Layer normalisation (arXiv 1607.06450). Forward: one block per row. Backward: a block takes several rows one after
// another, and its threads, which keep their columns, sum dweight and dbias over them; a second kernel adds the blocks'
// sums in order.
#include "common/devices/cuda/kernels/column_sums.cuh"
#include "common/devices/cuda/kernels/operations.hpp"
#include "common/devices/cuda/kernels/rows.cuh"

namespace lockstep::kernels {

namespace {

constexpr float kEpsilon = 1e-5f;
constexpr int kForwardThreads = 512, kForwardKept = 2;  // rows of 8,192 elements are read once
constexpr Index kFewestRows = 4;        // per block in the backward: fewer would leave more sums than elements
constexpr Index kBackwardAtOnce = 512;  // threads per multiprocessor, limited by their 125 registers
constexpr int kBackwardThreads = 512;   // in the backward, a thread keeps the sums of its first pack

template <class T>
__global__ void __launch_bounds__(kForwardThreads)
    layer_norm_kernel(T* y, float* statistics, const T* x, Array weight, Array bias, Index rows, Index columns) {
  __shared__ float scratch[kWarp];
  const Index row = blockIdx.x;
  x += row * columns;
  y += row * columns;
  const Packs packs(x, columns);
  const auto kept = keep<kForwardKept>(x, packs);
  const float count = static_cast<float>(columns);

  float sum = 0;
  for_row(kept, x, packs, [&](const Pack<T>& pack, Index) {
#pragma unroll
    for (int j = 0; j < kPack; ++j) sum += widen(pack.at[j]);  // 0 outside the row
  });
  const float mean = block_sum(sum, scratch) / count;

  float squares = 0;
  for_row(kept, x, packs, [&](const Pack<T>& pack, Index i) {
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      const float difference = is_inside(i + j, columns) ? widen(pack.at[j]) - mean : 0.0f;
      squares += difference * difference;
    }
  });
  const float reciprocal = 1.0f / sqrtf(block_sum(squares, scratch) / count + kEpsilon);

  for_row(kept, x, packs, [&](const Pack<T>& pack, Index i) {
    float w[kPack], b[kPack];
    load_floats(w, weight, i, columns);
    load_floats(b, bias, i, columns);
#pragma unroll
    for (int j = 0; j < kPack; ++j) b[j] += (widen(pack.at[j]) - mean) * reciprocal * w[j];
    store_floats(y, i, columns, b);
  });
  if (threadIdx.x == 0) {
    statistics[row] = mean;
    statistics[rows + row] = reciprocal;
  }
}

/// Statistics of a row, and a thread's eight columns of it.
struct Row {
  float mean, reciprocal;
};
struct Columns {
  float norm[kPack];  // normalised x
  float dy[kPack];
  float g[kPack];  // dy · weight
};

/// A thread's elements of a row.
template <class T>
struct Loaded {
  Pack<T> x, dy, dx;  // dx: if accumulating
};

template <class T>
__device__ inline Loaded<T> load_row(const T* x, const T* dy, const T* dx, Index i, Index columns, bool accumulate) {
  Loaded<T> loaded{load(x, i, columns), load(dy, i, columns), {}};
  if (accumulate) loaded.dx = load(dx, i, columns);
  return loaded;
}

template <class T>
__device__ inline Columns columns_of(const Loaded<T>& loaded, const Array& weight, Row row, Index i, Index columns) {
  const Pack<T>&in = loaded.x, &gradient = loaded.dy;
  Columns c;
  load_floats(c.g, weight, i, columns);
#pragma unroll
  for (int j = 0; j < kPack; ++j) {
    c.norm[j] = (widen(in.at[j]) - row.mean) * row.reciprocal;
    c.dy[j] = widen(gradient.at[j]);  // 0 outside the row
    c.g[j] *= c.dy[j];
  }
  return c;
}

/// Writes dx = before + …
template <class T>
__device__ inline void write_dx(T* dx, const Columns& c, Row row, float2 means, const Pack<T>& before, bool accumulate,
                                Index i, Index columns) {
  float out[kPack];
#pragma unroll
  for (int j = 0; j < kPack; ++j)
    out[j] = (accumulate ? widen(before.at[j]) : 0.0f) + row.reciprocal * (c.g[j] - means.x - c.norm[j] * means.y);
  store_floats(dx, i, columns, out);
}

/// partials: each block's sums for dweight, then for dbias. dx may be dy or x.
template <class T>
__global__ void __launch_bounds__(kBackwardThreads)
    layer_norm_backward_kernel(T* dx, float* partials, const T* dy, const T* x, Array weight, const float* statistics,
                               Index rows, Index columns, Index rows_of_block, bool accumulate) {
  __shared__ float2 scratch[kWarp];
  const Index first = blockIdx.x * rows_of_block, last = min(rows, first + rows_of_block);
  const Index packs = divide_up(columns, kPack), mine = threadIdx.x, step = blockDim.x;
  float* dweight = partials + blockIdx.x * 2 * columns;
  float* dbias = dweight + columns;
  float dweight_kept[kPack] = {}, dbias_kept[kPack] = {};

  const auto mine_of = [&](Index n) {
    return load_row(x + n * columns, dy + n * columns, dx + n * columns, mine * kPack, columns, accumulate);
  };
  Loaded<T> next{};
  if (mine < packs && first < last) next = mine_of(first);
  for (Index n = first; n < last; ++n) {
    const T* x_row = x + n * columns;
    const T* dy_row = dy + n * columns;
    const Row row{statistics[n], statistics[rows + n]};
    T* dx_row = dx + n * columns;
    float2 sums = make_float2(0.0f, 0.0f);  // of g, and of g · norm
    const auto add_sums = [&](const Columns& c) {
#pragma unroll
      for (int j = 0; j < kPack; ++j) {
        sums.x += c.g[j];
        sums.y += c.g[j] * c.norm[j];
      }
    };
    const Loaded<T> loaded = next;
    if (mine < packs && n + 1 < last) next = mine_of(n + 1);  // is read while this row's sums are computed
    Columns kept;
    if (mine < packs) {
      kept = columns_of(loaded, weight, row, mine * kPack, columns);
      add_sums(kept);
#pragma unroll
      for (int j = 0; j < kPack; ++j) {
        dweight_kept[j] += kept.dy[j] * kept.norm[j];
        dbias_kept[j] += kept.dy[j];
      }
    }
    for (Index p = mine + step; p < packs; p += step) {
      const Columns c =
          columns_of(load_row(x_row, dy_row, dx_row, p * kPack, columns, false), weight, row, p * kPack, columns);
      add_sums(c);
      float w[kPack] = {}, b[kPack] = {};
      if (n > first) {
        load_floats(w, dweight, p * kPack, columns);
        load_floats(b, dbias, p * kPack, columns);
      }
#pragma unroll
      for (int j = 0; j < kPack; ++j) {
        w[j] += c.dy[j] * c.norm[j];
        b[j] += c.dy[j];
      }
      store_floats(dweight, p * kPack, columns, w);
      store_floats(dbias, p * kPack, columns, b);
    }
    sums = block_sum(sums, scratch);
    const float2 means = make_float2(sums.x / static_cast<float>(columns), sums.y / static_cast<float>(columns));
    if (mine < packs) write_dx(dx_row, kept, row, means, loaded.dx, accumulate, mine * kPack, columns);
    for (Index p = mine + step; p < packs; p += step) {
      const Loaded<T> more = load_row(x_row, dy_row, dx_row, p * kPack, columns, accumulate);
      write_dx(dx_row, columns_of(more, weight, row, p * kPack, columns), row, means, more.dx, accumulate, p * kPack,
               columns);
    }
  }
  if (mine < packs) {
    store_floats(dweight, mine * kPack, columns, dweight_kept);
    store_floats(dbias, mine * kPack, columns, dbias_kept);
  }
}

}  // namespace

void layer_norm(const Queue& queue, Array y, Array statistics, Array x, Array weight, Array bias) {
  if (x.size == 0) return;
  const Index columns = size_of(weight), rows = size_of(x) / columns;
  const dim3 block = block_for(divide_up(columns, kPack), kForwardThreads);
  with_type(x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    launch(layer_norm_kernel<T>, dim3(static_cast<unsigned>(rows)), block, 0, queue.stream, y.as<T>(),
           statistics.as<float>(), x.as<const T>(), weight, bias, rows, columns);
  });
}

void layer_norm_backward(const Queue& queue, Array dx, Array dweight, Array dbias, Array dy, Array x, Array weight,
                         Array statistics, bool accumulate) {
  if (x.size == 0) return;
  const Index columns = size_of(weight), rows = size_of(x) / columns;
  const dim3 block = block_for(divide_up(columns, kPack), kBackwardThreads);
  // Number of blocks that a GPU holds at once: other blocks' rows hide a row's latency.
  const Index at_once = kProcessors * max(Index{2}, kBackwardAtOnce / static_cast<Index>(block.x));
  const Index rows_of_block = max(divide_up(rows, at_once), min(rows, kFewestRows));
  const Index blocks = divide_up(rows, rows_of_block);
  auto* partials =
      static_cast<float*>(queue.workspace.take(static_cast<std::size_t>(blocks * 2 * columns) * sizeof(float)));
  with_type(x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    launch(layer_norm_backward_kernel<T>, dim3(static_cast<unsigned>(blocks)), block, 0, queue.stream, dx.as<T>(),
           partials, dy.as<const T>(), x.as<const T>(), weight, statistics.as<const float>(), rows, columns,
           rows_of_block, accumulate);
  });
  add_columns(queue, dweight, dbias, partials, blocks);
}

}  // namespace lockstep::kernels
