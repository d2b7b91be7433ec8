// Output files: the same numbers when read back, and never half-written.
#include "common/support/json/results.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <iterator>
#include <limits>

#include "common/error.hpp"
#include "common/support/tests/program_testing.hpp"
#include "common/support/tests/refusal_testing.hpp"

namespace lockstep {
namespace {

class Output : public TestFolder {};

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
  for (const char* name :
       {"machine", "cores", "hardware_threads", "compiler", "build", "versions", "commit", "date", "code"})
    EXPECT_TRUE(about.contains(name)) << name;
  EXPECT_GE(about.at("cores"), 1);
  EXPECT_EQ(about.at("versions").at("blas"), "OpenBLAS 0.3.21");
  EXPECT_EQ(about.at("date").get<std::string>().size(), 20u);
  EXPECT_GE(about.at("commit").get<std::string>().size(), 7u);
  expect_documented(about);
}

TEST_F(Output, FoldersBelowOutputsAreMadeAndNoOthers) {
  check_writable(folder_ / "outputs" / "week21" / "x.json");
  write_atomically(folder_ / "outputs" / "week21" / "x.json", "new");
  EXPECT_THROW(check_writable(folder_ / "absent" / "x.json"), Error);
  EXPECT_FALSE(fs::exists(folder_ / "absent"));
}

TEST_F(Output, AFailedWriteLeavesTheOldFileAndNothingElse) {
  put("old.json", "old");
  fs::create_directories(folder_ / "folder.json" / "full");
  EXPECT_THROW(write_atomically(folder_ / "folder.json", "new"), Error);  // there is a folder of that name
  EXPECT_THROW(write_atomically(folder_ / "absent" / "x.json", "new"), Error);
  EXPECT_THROW(check_writable(folder_ / "absent" / "x.json"), Error);
  check_writable(folder_ / "old.json");
  EXPECT_EQ(read(folder_ / "old.json"), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 2);
  write_atomically(folder_ / "old.json", "new");
  EXPECT_EQ(read(folder_ / "old.json"), "new");
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
  EXPECT_EQ(refusal([&] { write_atomically(pipe, "x"); }),
            "cannot write " + pipe + ": no process reads from this pipe");
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

// ./lab … --json /dev/stdout > FILE: FILE contains both outputs.
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

}  // namespace
}  // namespace lockstep
