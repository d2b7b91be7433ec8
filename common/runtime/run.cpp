#include "common/runtime/run.hpp"

namespace lockstep {

const Outcome& Outcome::check() const {
  if (!passed()) throw Error(verdict, message);
  return *this;
}

}  // namespace lockstep
