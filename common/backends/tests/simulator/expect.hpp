// Runs programs on the simulator and checks how they end.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>

#include "common/arithmetic.hpp"
#include "common/runtime/run.hpp"

namespace lockstep::simulator_tests {

inline RunOptions ranks(int p) {
  RunOptions options;
  options.ranks = p;
  options.threads = 1;
  return options;
}

inline Slice buffer(Rank me, std::size_t count = 16) { return me.allocate(count, DType::f32, Category::buffer); }

/// Runs and expects `verdict`, and every one of `words` in the message.
inline void expect(const RunOptions& options, const std::function<void(Rank)>& program, Verdict verdict,
                   std::initializer_list<const char*> words) {
  const Outcome outcome = run(options, program);
  EXPECT_EQ(to_string(outcome.verdict), to_string(verdict)) << outcome.message;
  for (const char* word : words)
    EXPECT_NE(outcome.message.find(word), std::string::npos) << "no \"" << word << "\" in:\n" << outcome.message;
}

inline void receive_first(Rank me) {
  Slice x = buffer(me);
  me.exchange({receive((me.rank() + 1) % me.size(), x)});
  me.exchange({send((me.rank() + me.size() - 1) % me.size(), x)});
}

}  // namespace lockstep::simulator_tests
