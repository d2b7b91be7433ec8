// Output files: read back to the same numbers, never half-written; and the host they speak of.
#include "common/support/json/results.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>

#include "common/error.hpp"
#include "common/runtime/processes/wait_table.hpp"
#include "common/support/host/host.hpp"
#include "common/support/json/document.hpp"
#include "common/support/json/escape.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A folder of the test's own, gone afterwards.
class Output : public testing::Test {
 protected:
  Output()
      : folder_(fs::temp_directory_path() /
                ("lockstep_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) +
                 std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~Output() override { fs::remove_all(folder_); }
  void put(const std::string& path, const std::string& text) {
    fs::create_directories((folder_ / path).parent_path());
    std::ofstream(folder_ / path) << text;
  }
  fs::path folder_;
};

TEST_F(Output, IsReadBackToTheSameNumbers) {
  Row row;
  row.set("seconds", 0.1 + 0.2)
      .set("bytes", std::uint64_t(18446744073709551615u))
      .set("ranks", -3)
      .set("verified", true);
  row.set("algorithm", "ring \"α\"\n").set("busbw_gb_per_s", std::numeric_limits<double>::quiet_NaN());
  row.set("bound", -std::numeric_limits<double>::infinity());
  row.set("ranks", 4);  // replaces
  fs::path path = folder_ / "out.json";
  write_results(path, Context::here(), std::vector{row, row});
  Json document = Json::parse(read(path));
  ASSERT_EQ(document.at("rows").size(), 2u);
  const Json& back = document.at("rows")[1];
  EXPECT_EQ(back.at("seconds").get<double>(), 0.1 + 0.2);
  EXPECT_EQ(back.at("bytes").get<std::uint64_t>(), 18446744073709551615u);
  EXPECT_EQ(back.at("ranks"), 4);
  EXPECT_EQ(back.at("verified"), true);
  EXPECT_EQ(back.at("algorithm"), "ring \"α\"\n");
  EXPECT_TRUE(back.at("busbw_gb_per_s").is_null());
  EXPECT_TRUE(back.at("bound").is_null());
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1) << "left something beside it";
}

TEST_F(Output, ContextSaysWhereItComesFromAndIsDocumented) {
  Context context = Context::here();
  context.versions.push_back({"blas", "OpenBLAS 0.3.21"});
  Json about = Json::parse(results_json(context, {})).at("context");
  for (const char* name : {"machine", "cores", "hardware_threads", "compiler", "build", "versions", "commit", "date"})
    EXPECT_TRUE(about.contains(name)) << name;
  EXPECT_GE(about.at("cores"), 1);
  EXPECT_EQ(about.at("versions").at("blas"), "OpenBLAS 0.3.21");
  EXPECT_EQ(about.at("date").get<std::string>().size(), 20u);
  EXPECT_GE(about.at("commit").get<std::string>().size(), 7u);
  std::string documentation = read(LOCKSTEP_SOURCE_DIR "/docs/output.md");
  for (const auto& [name, value] : about.items())
    EXPECT_NE(documentation.find("`" + name + "`"), std::string::npos) << name << " is not in docs/output.md";
}

TEST_F(Output, AFailedWriteLeavesTheOldFileAndNothingElse) {
  put("old.json", "old");
  fs::create_directories(folder_ / "folder.json" / "full");
  EXPECT_THROW(write_atomically(folder_ / "folder.json", "new"), Error);  // a folder of that name
  EXPECT_THROW(write_atomically(folder_ / "absent" / "x.json", "new"), Error);
  EXPECT_THROW(check_writable(folder_ / "absent" / "x.json"), Error);
  check_writable(folder_ / "old.json");
  EXPECT_EQ(read(folder_ / "old.json"), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 2);
  write_atomically(folder_ / "old.json", "new");
  EXPECT_EQ(read(folder_ / "old.json"), "new");
}

std::string refusal(const std::function<void()>& wrong) {
  try {
    wrong();
  } catch (const Error& error) {
    EXPECT_EQ(error.verdict(), Verdict::usage);
    return error.what();
  }
  return "";
}

TEST_F(Output, LinksAreFollowed) {
  const std::string link = folder_ / "link", second = folder_ / "second", nowhere = folder_ / "nowhere";
  put("far/file", "old");
  fs::create_symlink("far/file", link);
  fs::create_symlink("link", second);
  check_writable(second);
  write_atomically(second, "new");
  EXPECT_TRUE(fs::is_symlink(second) && fs::is_symlink(link));
  EXPECT_EQ(read(folder_ / "far" / "file"), "new");
  fs::create_symlink("far/fresh", nowhere);
  write_atomically(nowhere, "first");
  EXPECT_EQ(read(folder_ / "far" / "fresh"), "first");
  fs::create_symlink("round", folder_ / "round");
  EXPECT_NE(refusal([&] { write_atomically(folder_ / "round", "x"); }), "");
}

TEST_F(Output, WhatIsNoRegularFileIsWrittenThrough) {
  const std::string pipe = folder_ / "pipe", full = folder_ / "full";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(refusal([&] { write_atomically(pipe, "x"); }), "cannot write " + pipe + ": nobody reads from this pipe");
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  check_writable(pipe);
  write_atomically(pipe, "text");
  std::string received(10, ' ');
  EXPECT_EQ(::read(reader, received.data(), received.size()), 4);
  close(reader);
  EXPECT_TRUE(fs::is_fifo(pipe));
  fs::create_symlink("/dev/full", full);
  check_writable(full);
  EXPECT_EQ(refusal([&] { write_atomically(full, "x"); }), "cannot write " + full + ": No space left on device");
  EXPECT_EQ(refusal([&] { write_atomically("/dev/full", "x"); }), "cannot write /dev/full: No space left on device");
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
  EXPECT_EQ(refusal([&] { check_writable(folder_); }), "cannot write " + folder_.string() + ": it is a folder");
}

// ./lab … --json /dev/stdout > FILE: both stand in FILE.
TEST_F(Output, AnOpenFileIsAppendedTo) {
  put("out", "a table\n");
  const int file = open((folder_ / "out").c_str(), O_WRONLY | O_APPEND);
  write_atomically("/dev/fd/" + std::to_string(file), "rows\n");
  close(file);
  EXPECT_EQ(read(folder_ / "out"), "a table\nrows\n");
}

TEST_F(Output, OnlyRegularFilesAreRead) {
  put("file", std::string(10'000, 'x'));
  EXPECT_EQ(read_file(folder_ / "file"), std::string(10'000, 'x'));
  EXPECT_NE(read_file("/proc/self/status"), "") << "whose size is said to be 0";
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(refusal([&] { read_file(pipe); }), "cannot read " + pipe + ": it is a pipe (FIFO), not a file");
  EXPECT_EQ(refusal([&] { read_file("/dev/zero"); }), "cannot read /dev/zero: it is a device, not a file");
  EXPECT_EQ(refusal([&] { read_file(folder_); }), "cannot read " + folder_.string() + ": it is a folder");
  EXPECT_EQ(refusal([&] { read_file("/nowhere/x"); }), "cannot read /nowhere/x: No such file or directory");
}

TEST_F(Output, CsvHasTheColumnsOfAllRows) {
  Row a, b;
  a.set("ranks", 2).set("name", "ring, \"flat\"").set("seconds", 1e-6);
  b.set("ranks", 4).set("error", std::numeric_limits<double>::quiet_NaN()).set("seconds", 2.0);
  EXPECT_EQ(results_csv(std::vector{a, b}), "ranks,name,seconds,error\n2,\"ring, \"\"flat\"\"\",1e-06,\n4,,2,\n");
}

TEST_F(Output, AFieldMayBeAList) {
  Row row;
  row.set("stage_seconds", std::vector<double>{0.5, std::numeric_limits<double>::quiet_NaN(), 2})
      .set("nothing", std::vector<double>());
  const Json back = Json::parse(results_json(Context::here(), std::vector{row})).at("rows")[0];
  EXPECT_EQ(back.at("stage_seconds"), Json::parse("[0.5, null, 2.0]"));
  EXPECT_EQ(back.at("nothing"), Json::parse("[]"));
  EXPECT_EQ(results_csv(std::vector{row}), "stage_seconds,nothing\n0.5 null 2,\n");
}

TEST(JsonDocument, IsReadAsItStands) {
  const Json json = Json::parse(R"({"text": "α\n\u00e9", "list": [1, -2, 2.5, 1e-06], "yes": true, "no": null})");
  EXPECT_EQ(json.at("text"), "α\né");
  EXPECT_EQ(json.at("list")[1].get<int>(), -2);
  EXPECT_EQ(json.at("list").get<std::vector<double>>(), (std::vector<double>{1, -2, 2.5, 1e-6}));
  EXPECT_GT(json.at("list")[2], 2);
  EXPECT_EQ(json.value("yes", false), true);
  EXPECT_EQ(json.value("absent", 7), 7);
  EXPECT_TRUE(json.at("no").is_null());
  EXPECT_EQ(json.items()[0].name, "text");
  EXPECT_EQ(json.dump(), "{\"text\":\"α\\né\",\"list\":[1,-2,2.5,1e-06],\"yes\":true,\"no\":null}");
  EXPECT_EQ(Json::parse(json.dump()), json);
  EXPECT_EQ(Json::parse(R"({"b": 1, "a": 2})"), Json::parse(R"({"a": 2, "b": 1})"));
  EXPECT_FALSE(Json::parse("1") == Json::parse("true"));
}

TEST(JsonDocument, AWrongQuestionIsAnError) {
  const Json json = Json::parse(R"({"list": [1], "text": "x"})");
  EXPECT_THROW(json.at("absent"), JsonError);
  EXPECT_THROW(json.at("list").at(1), JsonError);
  EXPECT_THROW(json.at("list").at("name"), JsonError);
  EXPECT_THROW(json.at("text").get<int>(), JsonError);
  EXPECT_THROW(json.at("text").begin(), JsonError);
  EXPECT_THROW(json.at("list").items(), JsonError);
  EXPECT_THROW(json.at("list")[0].get<bool>(), JsonError);
  for (const char* text : {"", "{", "[1,]", "{\"a\" 1}", "1 2", "\"\xff\"", "// no\n1"})
    EXPECT_THROW(Json::parse(text), JsonError) << text;
  EXPECT_FALSE(Json::parse_if_valid("[1,]"));
  EXPECT_EQ(Json::parse_if_valid("[1] // one").value(), Json::parse("[1]"));
}

std::string json_error(const std::function<void()>& wrong) {
  try {
    wrong();
  } catch (const JsonError& error) {
    return error.what();
  }
  return "";
}

TEST(JsonDocument, AMemberThatIsThereTwiceIsNamedWithItsPlace) {
  EXPECT_EQ(json_error([] { Json::parse("{\"a\": 1,\n \"b\": {\"c\": 2, \"c\": 3}}"); }),
            "parse error at line 2, column 18: \"c\" is there twice");
  std::string many = "{";
  for (int i = 0; i < 100; ++i) many += "\"x" + std::to_string(i) + "\": 0, ";
  EXPECT_EQ(Json::parse(many + "\"y\": 1}").size(), 101u);
  EXPECT_NE(json_error([&] { Json::parse(many + "\"x99\": 1}"); }), "");
  EXPECT_NE(json_error([&] { Json::parse(many + "\"x0\": 1}"); }), "");
  EXPECT_EQ(Json::parse(R"([{"a": 1}, {"a": 1}])").size(), 2u);
}

TEST(JsonDocument, NestingHasALimit) {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_EQ(Json::parse(nested(Json::kMostNested)).size(), 1u);
  EXPECT_EQ(json_error([&] { Json::parse(nested(60'000)); }),
            "parse error at line 1, column 101: more than 100 lists and objects, one in the other");
  EXPECT_FALSE(Json::parse_if_valid(nested(60'000)));
}

TEST(JsonDocument, AWholeNumberIsReadWholeOrNotAtAll) {
  const auto as_int = [](const char* text) { return Json::parse(text).get<int>(); };
  EXPECT_EQ(as_int("-2147483648"), std::numeric_limits<int>::min());
  EXPECT_EQ(as_int("1e3"), 1000);
  EXPECT_EQ(Json::parse("18446744073709551615").get<std::uint64_t>(), 18446744073709551615u);
  for (const char* text : {"2147483648", "4294967296", "-2147483649", "1.5", "1e30", "-1e30", "18446744073709551615"})
    EXPECT_EQ(json_error([&] { as_int(text); }),
              Json::parse(text).dump() + " is not a whole number from -2147483648 to 2147483647");
  EXPECT_NE(json_error([] { (void)Json::parse("-1").get<unsigned>(); }), "");
  EXPECT_NE(json_error([] { (void)Json::parse("18446744073709551616").get<std::uint64_t>(); }), "");
  EXPECT_LT(json_error([] { (void)Json::parse("\"" + std::string(1000, 'x') + "\"").get<int>(); }).size(), 100u);
}

TEST(JsonDocument, ALargeListIsTakenOneAtATime) {
  const std::string text = R"({"events": [{"n": 1}, {"n": 2, "in": {"n": 9}}, 5], "other": {"n": 7}})";
  std::vector<int> taken;
  const Json rest = Json::parse(text, 2, [&](const Json& event) { taken.push_back(event.at("n")); });
  EXPECT_EQ(taken, (std::vector<int>{1, 2}));
  EXPECT_EQ(rest, Json::parse(R"({"events": [5], "other": {"n": 7}})"));
}

TEST(JsonDocument, WhatIsWrittenIsReadBack) {
  const Json document =
      Json::object({{"name", Json::of("a \"b\"\n\xff")},
                    {"whole", Json::list({Json::of(-3), Json::of(std::uint64_t{18446744073709551615u}), Json::of(0)})},
                    {"real", Json::list({Json::of(0.1), Json::of(2.0), Json::of(-1e300), Json::of(std::nan(""))})},
                    {"truth", Json::of(true)},
                    {"none", Json::object({})},
                    {"in", Json::object({{"empty", Json::list({})}, {"null", Json()}})}});
  EXPECT_EQ(document.dump(),
            "{\"name\":\"a \\\"b\\\"\\n\uFFFD\",\"whole\":[-3,18446744073709551615,0],\"real\":[0.1,2.0,-1e+300,null],"
            "\"truth\":true,\"none\":{},\"in\":{\"empty\":[],\"null\":null}}");
  EXPECT_EQ(document.at("in").dump(2), "{\n  \"empty\": [],\n  \"null\": null\n}");
  const Json again = Json::parse(document.dump(1));
  EXPECT_EQ(again.dump(), document.dump());
  EXPECT_EQ(again.at("whole").at(1).get<std::uint64_t>(), 18446744073709551615u);
}

TEST(JsonText, BytesThatAreNotUtf8AreReplaced) {
  EXPECT_EQ(utf8("plain, α, €, 😀"), "plain, α, €, 😀");
  EXPECT_EQ(utf8("a\xff b"), "a\uFFFD b");
  EXPECT_EQ(utf8("\xc0\xaf"), "\uFFFD\uFFFD");                 // longer than need be
  EXPECT_EQ(utf8("\xed\xa0\x80"), "\uFFFD\uFFFD\uFFFD");       // a surrogate
  EXPECT_EQ(utf8("\xf4\x90\x80\x80").substr(0, 3), "\uFFFD");  // above U+10FFFF
  EXPECT_EQ(utf8("cut \xe2\x82"), "cut \uFFFD\uFFFD");
  std::string any;
  for (int byte = 0; byte < 256; ++byte) any += {static_cast<char>(byte), static_cast<char>(255 - byte), 'x'};
  EXPECT_EQ(Json::parse(lockstep::quoted(utf8(any))), utf8(any));
}

class HostFiles : public Output {};

TEST_F(HostFiles, TwoThreadsOfOneCoreCountOnce) {
  for (int thread = 0; thread < 8; ++thread)
    put("sys/devices/system/cpu/cpu" + std::to_string(thread) + "/topology/thread_siblings_list",
        std::to_string(thread % 4) + "," + std::to_string(thread % 4 + 4) + "\n");
  put("proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU @ 3 GHz\n");
  Host all = read_host(folder_, {0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(all.processor, "Some CPU @ 3 GHz");
  EXPECT_EQ(all.hardware_threads, 8);
  EXPECT_EQ(all.cores_in_affinity, 4);
  EXPECT_EQ(all.usable_cores, 4);
  EXPECT_EQ(read_host(folder_, {0, 4, 1}).usable_cores, 2);
}

TEST_F(HostFiles, ACgroupsQuotaLimits) {
  put("proc/self/cgroup", "0::/user/app\n");
  put("sys/fs/cgroup/user/app/cpu.max", "max 100000\n");
  put("sys/fs/cgroup/user/cpu.max", "250000 100000\n");
  put("sys/fs/cgroup/user/app/memory.max", "1000000\n");
  put("proc/meminfo", "MemTotal:       16000 kB\n");
  Host host = read_host(folder_, {0, 1, 2, 3});
  EXPECT_EQ(host.quota_cores, 2.5);
  EXPECT_EQ(host.usable_cores, 2);
  EXPECT_EQ(host.memory_bytes, 1000000);
}

TEST_F(HostFiles, AVersion1QuotaLimitsAndBelowOneCoreIsOne) {
  put("proc/self/cgroup", "4:memory:/x\n3:cpu,cpuacct:/docker/abc\n");
  put("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "50000\n");
  put("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us", "100000\n");
  put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  Host host = read_host(folder_, {0, 1, 2, 3});
  EXPECT_EQ(host.quota_cores, 0.5);
  EXPECT_EQ(host.usable_cores, 1);
}

TEST_F(HostFiles, ArmsProcessorsHaveNumbers) {
  put("proc/cpuinfo", "processor\t: 0\nBogoMIPS\t: 2100.00\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n");
  EXPECT_EQ(read_host(folder_, {0}).processor, "Arm processor, implementer 0x41, part 0xd40");
}

TEST_F(HostFiles, NothingToReadMeansNoLimit) {
  Host host = read_host(folder_, {0, 1, 2});
  EXPECT_EQ(host.processor, "unknown");
  EXPECT_EQ(host.quota_cores, 0);
  EXPECT_EQ(host.usable_cores, 3);
}

// Which ranks are stuck, from what each has begun (common/runtime/processes/wait_table.hpp)
// -----------------------------------

using processes::Row;
using processes::Unfinished;

constexpr std::uint64_t kLane = 1, kOther = 2;

Row waits(std::vector<Unfinished> unfinished, std::vector<processes::Begun> begun) {
  return {.state = Row::State::waiting, .counted = true, .begun = begun, .unfinished = unfinished};
}
Unfinished receives(int peer, std::uint64_t number = 1, std::uint64_t endpoint = kLane) {
  return {endpoint, peer, Unfinished::Kind::receive, number};
}
/// Has begun one receive from `peer`, and waits for it.
Row receives_first(int peer) { return waits({receives(peer)}, {{kLane, peer, 0, 1}}); }
Row in_state(Row::State state) { return {.state = state, .counted = true}; }

using Ranks = std::vector<int>;

TEST(WaitTable, ACycleOfReceivesIsStuck) {
  std::vector<Row> rows{receives_first(1), receives_first(2), receives_first(0)};
  const Ranks stuck = processes::deadlocked(rows);
  EXPECT_EQ(stuck, (Ranks{0, 1, 2}));
  processes::explain_deadlock(rows, stuck);
  EXPECT_EQ(processes::who_waits(rows), "3 ranks wait for each other in a cycle: 0 → 1 → 2 → 0.");
  EXPECT_NE(rows[2].words.find("rank 0 has not started the send"), std::string::npos);
}

TEST(WaitTable, AMessageOnItsWayFreesAll) {
  std::vector<Row> rows{receives_first(1), receives_first(2), receives_first(0)};
  rows[0].begun.push_back({kLane, 2, 1, 0});  // rank 0 has sent what rank 2 waits for, and nobody else does
  EXPECT_EQ(processes::deadlocked(rows), Ranks{});
  rows[2].unfinished[0].number = rows[2].begun[0].receives = 2;  // rank 2 has that one, and waits for one more
  EXPECT_EQ(processes::deadlocked(rows), (Ranks{0, 1, 2}));
}

TEST(WaitTable, WhoWaitsForABusyRankIsNotStuck) {
  for (const Row::State state : {Row::State::working, Row::State::no_answer})
    EXPECT_EQ(processes::deadlocked(std::vector{receives_first(1), receives_first(2), in_state(state)}), Ranks{});
  Row uncounted = receives_first(0);
  uncounted.counted = false;
  EXPECT_EQ(processes::deadlocked(std::vector{receives_first(1), uncounted}), Ranks{});
}

TEST(WaitTable, TwoOfThreeMayBeStuck) {
  EXPECT_EQ(processes::deadlocked(
                std::vector{receives_first(2), receives_first(0), receives_first(0), in_state(Row::State::working)}),
            (Ranks{0, 1, 2}));
}

TEST(WaitTable, ARankThatHasFinishedSendsNoMore) {
  std::vector<Row> rows{receives_first(1), in_state(Row::State::finished)};
  const Ranks stuck = processes::deadlocked(rows);
  EXPECT_EQ(stuck, Ranks{0});
  processes::explain_deadlock(rows, stuck);
  EXPECT_EQ(processes::who_waits(rows), "rank 0 waits for rank 1, whose program has ended.");
  rows[1].begun = {{kLane, 0, 1, 0}};  // unless it has before
  EXPECT_EQ(processes::deadlocked(rows), Ranks{});
}

TEST(WaitTable, ALaneThatMovesMayFreeItsRank) {
  // Rank 0 waits on one endpoint; on the other its transfer has met its half, and the next batch may be what rank 1
  // needs.
  Row two_lanes = waits({receives(1), receives(2, 1, kOther)}, {{kLane, 1, 0, 1}, {kOther, 2, 0, 1}});
  Row sender = in_state(Row::State::working);
  sender.begun = {{kOther, 0, 1, 0}};
  EXPECT_EQ(processes::deadlocked(std::vector{two_lanes, receives_first(0), sender}), Ranks{});
  sender.state = Row::State::finished;
  sender.begun.clear();
  EXPECT_EQ(processes::deadlocked(std::vector{two_lanes, receives_first(0), sender}), (Ranks{0, 1}));
}

TEST(WaitTable, ASetUpCallThatARankNeverMakes) {
  const Unfinished call{kLane, 1, Unfinished::Kind::set_up, 2};
  Row calls = waits({call}, {{kLane, -1, 2, 2}}), other = receives_first(0);
  other.begun.push_back({kLane, -1, 1, 1});
  other.begun[0].endpoint = other.unfinished[0].endpoint = kOther;
  EXPECT_EQ(processes::deadlocked(std::vector{calls, other}), (Ranks{0, 1}));
  other.begun[1] = {kLane, -1, 2, 2};
  EXPECT_EQ(processes::deadlocked(std::vector{calls, other}), Ranks{});
}

}  // namespace
}  // namespace lockstep
