// A file system that forwards every call to another one. Tests override the functions that must behave differently.
#pragma once

#include "common/gpt/checkpoint/files.hpp"

namespace lockstep::checkpoint {

class FilesAround : public Files {
 public:
  explicit FilesAround(Files& inside) : inside_(inside) {}
  void make_directory(const std::string& path) override { inside_.make_directory(path); }
  void write(const std::string& path, std::initializer_list<std::string_view> parts) override {
    inside_.write(path, parts);
  }
  void sync_directory(const std::string& path) override { inside_.sync_directory(path); }
  void rename(const std::string& from, const std::string& to) override { inside_.rename(from, to); }
  void remove(const std::string& path) override { inside_.remove(path); }
  bool exists(const std::string& path) override { return inside_.exists(path); }
  std::vector<std::string> list(const std::string& path) override { return inside_.list(path); }
  std::string read(const std::string& path) override { return inside_.read(path); }
  std::unique_ptr<Lock> lock(const std::string& directory) override { return inside_.lock(directory); }

 private:
  Files& inside_;
};

}  // namespace lockstep::checkpoint
