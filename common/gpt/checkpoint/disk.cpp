#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/error.hpp"
#include "common/gpt/checkpoint/files.hpp"
#include "common/gpt/checkpoint/lock.hpp"
#include "common/support/text/files.hpp"

namespace lockstep::checkpoint {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const char* doing, const std::string& path, const std::error_code& why) {
  throw Error(Verdict::fail, fmt::format("cannot {} {}: {}", doing, path, why.message()));
}
std::error_code last_error() { return {errno, std::generic_category()}; }

/// A file descriptor that its destructor closes.
class Descriptor {
 public:
  Descriptor(const char* doing, const std::string& path, int flags)
      : path_(path), number_(open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    if (number_ < 0) fail(doing, path, last_error());
  }
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;

  void write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(number_, bytes.data(), std::min(bytes.size(), std::size_t{1} << 30));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail("write", path_, last_error());
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
  }
  void sync() {
    if (fsync(number_) != 0) fail("write", path_, last_error());
  }
  /// Some file systems report failed writes only here.
  void close() {
    if (::close(std::exchange(number_, -1)) != 0) fail("write", path_, last_error());
  }

 private:
  std::string path_;
  int number_;
};

}  // namespace

void Disk::make_directory(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) fail("make the directory", path, error);
}

void Disk::write(const std::string& path, std::initializer_list<std::string_view> parts) {
  Descriptor file("write", path, O_WRONLY | O_CREAT | O_TRUNC);
  for (const std::string_view part : parts) file.write(part);
  file.sync();
  file.close();
}

void Disk::sync_directory(const std::string& path) { Descriptor("write", path, O_RDONLY | O_DIRECTORY).sync(); }

void Disk::rename(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) fail("rename to", to, last_error());
}

void Disk::remove(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) fail("remove", path, error);
}

bool Disk::exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

std::vector<std::string> Disk::list(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error))
    names.push_back(entry->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string Disk::read(const std::string& path) { return read_file(path); }

std::unique_ptr<Lock> Disk::lock(const std::string& directory) {
  make_directory(directory);
  return lock_folder(directory);
}

}  // namespace lockstep::checkpoint
