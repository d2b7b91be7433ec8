// Operations for ./lab calibrate that are neither bound by memory nor a single product.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/rank.hpp"

namespace lockstep::bench {

struct NamedAct {
  std::string name;  // the operation's
  std::function<void()> act;
};

/// Returns each operation once, on a few hundred rows of a few hundred floats.
std::vector<NamedAct> calibrated_operations(Rank me);

}  // namespace lockstep::bench
