// Numbers in docs/theory.
#include <gtest/gtest.h>

#include "tools/tests/numbers/computed.hpp"
#include "tools/tests/numbers/page.hpp"

namespace lockstep::numbers {
namespace {

class Theory : public Programs {};

TEST_F(Theory, Week25) {
  Page page("docs/theory/week25.md");
  const plan::Task task = plan::preset_task("gpt3-175b", "dgx-a100x128", 1536, kMachines);
  page.says("For 1,024 GPUs and a batch of 1,536 there are {} of them",
            {fixed(static_cast<double>(strategies(task).size()))});
}

}  // namespace
}  // namespace lockstep::numbers
