// Shared by the tests of checkpoints: a model of four tensors, random layouts, and the expected contents of the files.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "common/error.hpp"
#include "common/gpt/checkpoint/reader.hpp"

namespace lockstep::checkpoint {

inline const std::string kDirectory = "/out";

inline std::vector<Tensor> some_tensors() {
  return {{"embedding", 7, 5}, {"bias", 1, 11}, {"up", 12, 4}, {"down", 4, 9}};
}

/// The elements of the model on each rank, in order: sharded by columns, by rows, or arbitrarily, at random.
using Layout = std::vector<std::vector<Run>>;

inline Layout random_layout(const std::vector<Tensor>& tensors, std::size_t ranks, std::mt19937& random) {
  Layout layout(ranks);
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const std::size_t rows = tensors[t].rows, columns = tensors[t].columns;
    const auto add = [&](std::size_t rank, std::size_t first, std::size_t count) {
      if (count > 0) layout[rank].push_back({t, first, 0, count});
    };
    std::vector<Run> runs;
    switch (random() % 4) {
      case 0:  // columns
        for (std::size_t row = 0; row < rows; ++row)
          for (std::size_t r = 0; r < ranks; ++r) {
            const std::size_t begin = columns * r / ranks;
            add(r, row * columns + begin, columns * (r + 1) / ranks - begin);
          }
        break;
      case 1:  // whole rows, to any rank
        for (std::size_t row = 0; row < rows; ++row) add(random() % ranks, row * columns, columns);
        break;
      case 2:  // arbitrary stretches, also across rows, in any order
        for (std::size_t first = 0, count = 0; first < rows * columns; first += count) {
          count = std::min(rows * columns - first, random() % 2 ? columns * (random() % 3) : 1 + random() % columns);
          runs.push_back({t, first, 0, count});
        }
        std::shuffle(runs.begin(), runs.end(), random);
        for (const Run& run : runs) add(random() % ranks, run.first, run.count);
        break;
      default:  // chunks
        for (std::size_t r = 0; r < ranks; ++r) {
          const std::size_t begin = rows * columns * r / ranks;
          add(r, begin, rows * columns * (r + 1) / ranks - begin);
        }
    }
  }
  for (auto& runs : layout) runs = packed(std::move(runs));
  return layout;
}

/// Array k of element i of tensor t at step s: a different number for each.
inline float value_of(int step, std::size_t tensor, std::size_t element, std::size_t k) {
  return static_cast<float>(step * 1000 + static_cast<int>(tensor * 200 + element)) + 0.25f * static_cast<float>(k);
}

inline Share share_of(const std::vector<Tensor>& tensors, const std::vector<Run>& runs, int step) {
  Share share{pieces_of(tensors, runs), {}};
  for (const Run& run : runs)
    for (std::size_t i = 0; i < run.count; ++i)
      for (std::size_t k = 0; k < kArrays; ++k) share.arrays[k].push_back(value_of(step, run.tensor, run.first + i, k));
  return share;
}

inline Manifest head_of(int step) {
  return {step, {{"model", "four tensors"}, {"loss_scale", "65536"}}, some_tensors(), {}};
}

/// Runs every rank's part of a save, one after the other.
inline void save(Files& files, const Layout& layout, int step, unsigned attempt, int keep = 2) {
  const std::string path = begin(files, kDirectory, step, attempt);
  const int ranks = static_cast<int>(layout.size());
  for (int rank = 0; rank < ranks; ++rank)
    write_share(files, path, rank, share_of(some_tensors(), layout[static_cast<std::size_t>(rank)], step));
  EXPECT_EQ(ranks_written(files, path, ranks), ranks);
  commit(files, kDirectory, path, head_of(step), ranks);
  prune(files, kDirectory, step, keep);
}

/// Reads a whole checkpoint in a layout, and compares.
inline void expect_step(Files& files, int step, const Layout& layout) {
  const std::string path = step_path(kDirectory, step);
  const Manifest manifest = read_manifest(files, path);
  EXPECT_EQ(manifest.step, step);
  EXPECT_EQ(manifest.facts, head_of(step).facts);
  EXPECT_EQ(manifest.tensors, some_tensors());
  for (const auto& runs : layout) {
    const Share expected = share_of(some_tensors(), runs, step);
    Share seen{expected.pieces, {}};
    read_share(files, path, manifest, elements_of(runs), seen);
    for (std::size_t k = 0; k < kArrays; ++k) EXPECT_EQ(seen.arrays[k], expected.arrays[k]);
  }
}

inline std::vector<int> good_steps(Files& files, const Layout& layout) {
  std::vector<int> good;
  for (const int step : steps_in(files, kDirectory)) {
    try {
      expect_step(files, step, layout);
      good.push_back(step);
    } catch (const Error& error) {
      ADD_FAILURE() << "a checkpoint that is there cannot be read: " << error.what();
    }
  }
  return good;
}

}  // namespace lockstep::checkpoint
