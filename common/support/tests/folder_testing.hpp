// A test fixture with a temporary folder.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace lockstep {

namespace fs = std::filesystem;

/// The folder is removed after the test.
class TestFolder : public ::testing::Test {
 public:
  static std::string read(const fs::path& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }

 protected:
  TestFolder()
      : folder_(fs::temp_directory_path() /
                ("lockstep_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()) +
                 std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~TestFolder() override { fs::remove_all(folder_); }
  void put(const fs::path& path, const std::string& text) const {
    fs::create_directories((folder_ / path).parent_path());
    std::ofstream(folder_ / path) << text;
  }
  /// A program that everybody may run: lines of a shell.
  fs::path script(const fs::path& path, const std::string& lines) const {
    put(path, "#!/bin/sh\n" + lines);
    fs::permissions(folder_ / path, fs::perms::owner_all);
    return folder_ / path;
  }
  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  fs::path folder_;
};

}  // namespace lockstep
