// Strings, vectors of numbers, and GoogleTest's comparisons of the two: what all tests use, compiled once instead of
// once in each of them, where it would be a tenth of their compilation (without optimisation, all of it is code). Part
// of the tests' precompiled headers (cmake/LockstepPrecompile.cmake); nothing includes it, and nothing needs it.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "common/runtime/run.hpp"

// LOCKSTEP_ONCE is `extern template` for who uses them, `template` in instantiations.cpp.
#ifndef LOCKSTEP_ONCE
#define LOCKSTEP_ONCE extern template
#endif

LOCKSTEP_ONCE class std::basic_string<char>;
LOCKSTEP_ONCE class std::vector<int>;
LOCKSTEP_ONCE class std::vector<float>;
LOCKSTEP_ONCE class std::vector<double>;
LOCKSTEP_ONCE class std::vector<std::size_t>;
LOCKSTEP_ONCE class std::vector<std::string>;
LOCKSTEP_ONCE class std::vector<lockstep::Slice>;
LOCKSTEP_ONCE class std::vector<lockstep::Transfer>;
LOCKSTEP_ONCE class std::vector<lockstep::LinkLevel>;
LOCKSTEP_ONCE class std::vector<lockstep::EfficiencyPoint>;
LOCKSTEP_ONCE class std::vector<lockstep::TraceEvent>;

#define LOCKSTEP_EQUAL_ONCE(A, B)                                                                                      \
  LOCKSTEP_ONCE testing::AssertionResult testing::internal::CmpHelperEQ(const char*, const char*, const A&, const B&); \
  LOCKSTEP_ONCE testing::AssertionResult testing::internal::CmpHelperEQFailure(const char*, const char*, const A&,     \
                                                                               const B&);
LOCKSTEP_EQUAL_ONCE(int, int)
LOCKSTEP_EQUAL_ONCE(double, double)
LOCKSTEP_EQUAL_ONCE(double, int)
LOCKSTEP_EQUAL_ONCE(std::size_t, std::size_t)
LOCKSTEP_EQUAL_ONCE(std::size_t, int)
LOCKSTEP_EQUAL_ONCE(std::size_t, unsigned)
LOCKSTEP_EQUAL_ONCE(std::string, std::string)
LOCKSTEP_EQUAL_ONCE(std::vector<double>, std::vector<double>)
#undef LOCKSTEP_EQUAL_ONCE

#define LOCKSTEP_COMPARE_ONCE(A, B)                                                                                \
  LOCKSTEP_ONCE testing::AssertionResult testing::internal::CmpHelperOpFailure(const char*, const char*, const A&, \
                                                                               const B&, const char*);
LOCKSTEP_COMPARE_ONCE(double, double)
LOCKSTEP_COMPARE_ONCE(std::size_t, std::size_t)
#undef LOCKSTEP_COMPARE_ONCE

LOCKSTEP_ONCE std::string testing::PrintToString(const int&);
LOCKSTEP_ONCE std::string testing::PrintToString(const double&);
LOCKSTEP_ONCE std::string testing::PrintToString(const std::size_t&);
LOCKSTEP_ONCE std::string testing::PrintToString(const std::string&);
