// The model that ddp.cpp trains, on a processor: the next byte of a text from the eight before it. Each byte is looked
// up in an embedding, then comes a layer with tanh and a layer with softmax. model.cuh has the same names on a GPU.
#pragma once
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

constexpr int kContext = 8, kEmbedding = 16, kIn = kContext * kEmbedding, kHidden = 64, kBytes = 256;

// All parameters are one array, as are their gradients: the embedding and the first layer are bucket 0, the second
// layer is bucket 1, whose gradients are ready first.
constexpr long kFirst = kBytes * kEmbedding + (kIn + 1) * kHidden, kSecond = (kHidden + 1) * kBytes;
constexpr long kParameters = kFirst + kSecond, kBucketBegin[] = {0, kFirst}, kBucketSize[] = {kFirst, kSecond};

#ifndef __CUDACC__

inline float* allocate(long n) { return static_cast<float*>(std::calloc(n, sizeof(float))); }
inline void release(float* data) { std::free(data); }
inline void fill_zero(float* data, long n) { std::memset(data, 0, n * sizeof(float)); }
inline void copy(float* to, const float* from, long n) { std::memcpy(to, from, n * sizeof(float)); }

/// Adds `weight` times the gradient of each sample's loss to `gradients`, and returns the sum of the losses. A sample
/// is the place in `text` of the byte to be predicted. Calls ready(bucket) when no more is added to a bucket.
inline double add_gradients(const float* parameters, float* gradients, const std::string& text,
                            const std::vector<long>& samples, float weight, const std::function<void(int)>& ready) {
  const float *embedding = parameters, *first = embedding + kBytes * kEmbedding, *second = parameters + kFirst;
  float *d_embedding = gradients, *d_first = d_embedding + kBytes * kEmbedding, *d_second = gradients + kFirst;
  const long rows = static_cast<long>(samples.size());
  const auto byte = [&](long place) { return static_cast<unsigned char>(text[place]); };
  std::vector<float> hidden(rows * kHidden), d_hidden(rows * kHidden), input(rows * kIn);
  double loss = 0;
  for (long row = 0; row < rows; ++row) {
    float *x = &input[row * kIn], *h = &hidden[row * kHidden], logits[kBytes], largest = -INFINITY, sum = 0;
    for (int i = 0; i < kIn; ++i)
      x[i] = embedding[byte(samples[row] - kContext + i / kEmbedding) * kEmbedding + i % kEmbedding];
    for (int j = 0; j < kHidden; ++j) {
      float z = first[kIn * kHidden + j];
      for (int i = 0; i < kIn; ++i) z += x[i] * first[i * kHidden + j];
      h[j] = std::tanh(z);
    }
    for (int v = 0; v < kBytes; ++v) {
      logits[v] = second[kHidden * kBytes + v];
      for (int j = 0; j < kHidden; ++j) logits[v] += h[j] * second[j * kBytes + v];
      largest = std::max(largest, logits[v]);
    }
    for (int v = 0; v < kBytes; ++v) sum += std::exp(logits[v] - largest);
    const unsigned char target = byte(samples[row]);
    loss += largest + std::log(sum) - logits[target];
    for (int v = 0; v < kBytes; ++v) {
      const float d = weight * (std::exp(logits[v] - largest) / sum - (v == target));
      for (int j = 0; j < kHidden; ++j) {
        d_second[j * kBytes + v] += d * h[j];
        d_hidden[row * kHidden + j] += d * second[j * kBytes + v];
      }
      d_second[kHidden * kBytes + v] += d;
    }
  }
  ready(1);
  for (long row = 0; row < rows; ++row)
    for (int j = 0; j < kHidden; ++j) {
      const float h = hidden[row * kHidden + j], d = d_hidden[row * kHidden + j] * (1 - h * h);
      for (int i = 0; i < kIn; ++i) {
        d_first[i * kHidden + j] += d * input[row * kIn + i];
        d_embedding[byte(samples[row] - kContext + i / kEmbedding) * kEmbedding + i % kEmbedding] +=
            d * first[i * kHidden + j];
      }
      d_first[kIn * kHidden + j] += d;
    }
  ready(0);
  return loss;
}

inline double norm(const float* gradients) {
  double sum = 0;
  for (long i = 0; i < kParameters; ++i) sum += double(gradients[i]) * gradients[i];
  return std::sqrt(sum);
}

/// SGD with momentum 0.9, of gradients times `scale`.
inline void update(float* parameters, float* momentum, const float* gradients, float rate, float scale) {
  for (long i = 0; i < kParameters; ++i) {
    momentum[i] = 0.9f * momentum[i] + scale * gradients[i];
    parameters[i] -= rate * momentum[i];
  }
}

#endif
