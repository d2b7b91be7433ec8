// Error messages of usage errors.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "common/error.hpp"

namespace lockstep {

/// Returns the message of the usage error that `wrong` throws; empty if it throws none.
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
