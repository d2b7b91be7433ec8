// What a wrong use is answered with.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "common/error.hpp"

namespace lockstep {

/// The sentence of the usage error that `wrong` ends with; empty where it is accepted.
template <class F>
std::string refusal(const F& wrong) {
  try {
    wrong();
  } catch (const Error& error) {
    EXPECT_EQ(error.verdict(), Verdict::usage) << error.what();
    return error.what();
  }
  return "";
}

}  // namespace lockstep
