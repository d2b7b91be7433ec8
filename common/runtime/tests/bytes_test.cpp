// Tests that values sent between processes as bytes arrive, and that damaged bytes are refused.
#include "common/runtime/processes/bytes.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/runtime/processes/results.hpp"

namespace lockstep::processes {
namespace {

struct Part {
  std::string name;
  std::optional<double> seconds;
  std::vector<std::uint64_t> bytes;
  bool operator==(const Part&) const = default;
};

const std::vector<Part> kSent = {
    {"gather", 0.25, {8, 0, 1}}, {"", std::nullopt, {}}, {std::string("a\0b", 3), -0.0, {~0ull}}};

std::string words(const std::string& bytes) {
  std::vector<Part> received;
  bool last = false;
  try {
    from_bytes(bytes, received, last);
  } catch (const Error& error) {
    return error.what();
  }
  return received == kSent && last ? "the same" : "others";
}

TEST(Bytes, AreTheSameValuesAgain) { EXPECT_EQ(words(to_bytes(kSent, true)), "the same"); }

TEST(Bytes, DamagedOnesAreRefused) {
  const std::string bytes = to_bytes(kSent, true);
  for (std::size_t count = 0; count < bytes.size(); ++count)
    EXPECT_EQ(words(bytes.substr(0, count)), "what was sent ends too early") << count << " of " << bytes.size();
  EXPECT_EQ(words(bytes + '\0'), "what was sent ends too late");
  std::string flag = bytes;
  flag.back() = 2;
  EXPECT_EQ(words(flag), "what was sent is damaged");
  std::string endless = bytes;
  endless.replace(0, 8, 8, '\xff');  // the number of parts
  EXPECT_EQ(words(endless), "what was sent ends too early");
}

/// The trace of a stopped run, recorded by a rank in a process of its own.
TEST(Bytes, ATraceHasItsQueuesAndSaysWhatWasCut) {
  Trace all, mine;
  all.queues = {"main", "backward"};
  mine.queues = {"main", "comm"};
  mine.events = {{.what = TraceRegion{.cut = true}, .rank = 1, .queue = 1, .name = "all_reduce"}};
  unpack_into(all, pack(mine, mine.queues));
  ASSERT_EQ(all.events.size(), 1u);
  EXPECT_EQ(all.queues.at(static_cast<std::size_t>(all.events[0].queue)), "comm");
  EXPECT_EQ(all.events[0].name, "all_reduce");
  ASSERT_TRUE(all.events[0].region());
  EXPECT_TRUE(all.events[0].region()->cut);
}

}  // namespace
}  // namespace lockstep::processes
