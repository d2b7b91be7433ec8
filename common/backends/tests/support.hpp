// Shared by the tests of backends.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string_view>

#include "common/arithmetic.hpp"
#include "common/runtime/run.hpp"
#include "common/testing/cases.hpp"
#include "common/testing/options.hpp"

namespace lockstep::backend_tests {

inline constexpr auto kBuffer = Category::buffer;

inline RunOptions options_for(int ranks) {
  RunOptions options;
  options.ranks = ranks;
  options.threads = 1;
  options.timeout_seconds = 1;
  options.machine.eager_bytes = 0;
  return options;
}

#define NEED_RANKS(p) \
  if (!testing::has_ranks(p)) GTEST_SKIP() << "needs " << (p) << " ranks"

inline bool on_gpu() {
  return std::string_view(backend_name()) == "cuda" || std::string_view(backend_name()) == "nccl";
}

template <class F>
Outcome run_on(int ranks, F program) {
  return run(options_for(ranks), program);
}

inline Slice filled(Rank me, std::size_t count, float value) {
  Slice slice = me.allocate(count, DType::f32, kBuffer);
  fill(me, slice, value);
  return slice;
}
inline Slice empty_of(Rank me, std::size_t count) { return me.allocate(count, DType::f32, kBuffer); }
inline float first(Rank me, const Slice& slice) { return read(me, slice.cut(0, 1), 0); }
inline int next(Rank me) { return (me.rank() + 1) % me.size(); }
inline int previous(Rank me) { return (me.rank() + me.size() - 1) % me.size(); }

inline void expect_failure(const Outcome& outcome, Verdict verdict, std::initializer_list<const char*> words) {
  EXPECT_EQ(to_string(outcome.verdict), to_string(verdict)) << outcome.message;
  for (const char* word : words) EXPECT_NE(outcome.message.find(word), std::string::npos) << outcome.message;
}

}  // namespace lockstep::backend_tests
