// model.hpp's functions on a GPU. Kernels as plain as their loops: each thread computes one number, adds in a fixed order,
// and so gives the same sum in every run. Fast kernels are another subject.
#pragma once
#include <cuda_runtime.h>

#include <stdexcept>

#include "model.hpp"

inline void check(cudaError_t status) { if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status)); }

inline float* allocate(long n) {
  float* data;
  check(cudaMalloc(&data, n * sizeof(float)));
  check(cudaMemset(data, 0, n * sizeof(float)));
  return data;
}
inline void release(float* data) { cudaFree(data); }
inline void fill_zero(float* data, long n) { check(cudaMemsetAsync(data, 0, n * sizeof(float), 0)); }
inline void copy(float* to, const float* from, long n) { check(cudaMemcpy(to, from, n * sizeof(float), cudaMemcpyDefault)); }

/// Runs f(i) for i in [0, n), one thread each, on the compute stream.
template <class F>
__global__ void each(long n, F f) {
  const long i = blockIdx.x * long(blockDim.x) + threadIdx.x;
  if (i < n) f(i);
}
template <class F>
void launch(long n, F f) {
  if (n == 0) return;
  each<<<(n + 127) / 128, 128>>>(n, f);
  check(cudaGetLastError());
}

inline double add_gradients(const float* parameters, float* gradients, const std::string& text,
                            const std::vector<long>& samples, float weight, const std::function<void(int)>& ready) {
  const float *embedding = parameters, *first = embedding + kBytes * kEmbedding, *second = parameters + kFirst;
  float *d_embedding = gradients, *d_first = d_embedding + kBytes * kEmbedding, *d_second = gradients + kFirst;
  const long rows = static_cast<long>(samples.size()), window = kContext + 1;
  static std::vector<unsigned char> host;  // each row's context, then its target
  host.clear();
  for (const long sample : samples)
    for (long i = sample - kContext; i <= sample; ++i) host.push_back(text[i]);
  static long room = 0;
  static unsigned char* bytes;
  static float *hidden, *d_hidden, *d_logits, *losses;
  if (room < rows) {
    room = rows;  // only grows, and microbatches are of one size
    check(cudaMalloc(&bytes, rows * window));
    hidden = allocate(rows * kHidden), d_hidden = allocate(rows * kHidden);
    d_logits = allocate(rows * kBytes), losses = allocate(rows);
  }
  unsigned char* const in = bytes;
  float *const h = hidden, *const dh = d_hidden, *const dz = d_logits, *const l = losses;
  check(cudaMemcpyAsync(in, host.data(), host.size(), cudaMemcpyHostToDevice, 0));

  launch(rows * kHidden, [=] __device__(long k) {
    const long row = k / kHidden, j = k % kHidden;
    float z = first[kIn * kHidden + j];
    for (int i = 0; i < kIn; ++i)
      z += embedding[in[row * window + i / kEmbedding] * kEmbedding + i % kEmbedding] * first[i * kHidden + j];
    h[k] = tanhf(z);
  });
  launch(rows * kBytes, [=] __device__(long k) {
    const long row = k / kBytes, v = k % kBytes;
    float z = second[kHidden * kBytes + v];
    for (int j = 0; j < kHidden; ++j) z += h[row * kHidden + j] * second[j * kBytes + v];
    dz[k] = z;
  });
  launch(rows, [=] __device__(long row) {
    float *z = dz + row * kBytes, largest = z[0], sum = 0;
    const int target = in[row * window + kContext];
    for (int v = 1; v < kBytes; ++v) largest = fmaxf(largest, z[v]);
    for (int v = 0; v < kBytes; ++v) sum += expf(z[v] - largest);
    l[row] = largest + logf(sum) - z[target];
    for (int v = 0; v < kBytes; ++v) z[v] = weight * (expf(z[v] - largest) / sum - (v == target));
  });
  launch(kSecond, [=] __device__(long k) {
    const long j = k / kBytes, v = k % kBytes;
    for (long row = 0; row < rows; ++row) d_second[k] += dz[row * kBytes + v] * (j < kHidden ? h[row * kHidden + j] : 1);
  });
  ready(1);
  launch(rows * kHidden, [=] __device__(long k) {
    const long row = k / kHidden, j = k % kHidden;
    float d = 0;
    for (int v = 0; v < kBytes; ++v) d += dz[row * kBytes + v] * second[j * kBytes + v];
    dh[k] = d * (1 - h[k] * h[k]);
  });
  launch((kIn + 1) * kHidden, [=] __device__(long k) {
    const long i = k / kHidden, j = k % kHidden;
    for (long row = 0; row < rows; ++row) {
      const float x = i < kIn ? embedding[in[row * window + i / kEmbedding] * kEmbedding + i % kEmbedding] : 1;
      d_first[k] += dh[row * kHidden + j] * x;
    }
  });
  launch(kBytes * kEmbedding, [=] __device__(long k) {
    for (long row = 0; row < rows; ++row)
      for (int c = 0; c < kContext; ++c)
        if (in[row * window + c] == k / kEmbedding)
          for (int j = 0; j < kHidden; ++j)
            d_embedding[k] += dh[row * kHidden + j] * first[(c * kEmbedding + k % kEmbedding) * kHidden + j];
  });
  ready(0);
  std::vector<float> each_loss(rows);
  copy(each_loss.data(), l, rows);
  double loss = 0;
  for (const float one : each_loss) loss += one;
  return loss;
}

inline double norm(const float* gradients) {
  std::vector<float> host(kParameters);
  copy(host.data(), gradients, kParameters);
  double sum = 0;
  for (const float g : host) sum += double(g) * g;
  return std::sqrt(sum);
}

inline void update(float* parameters, float* momentum, const float* gradients, float rate, float scale) {
  launch(kParameters, [=] __device__(long i) {
    momentum[i] = 0.9f * momentum[i] + scale * gradients[i];
    parameters[i] -= rate * momentum[i];
  });
}
