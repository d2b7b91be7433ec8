#include "common/support/text/files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "common/error.hpp"

namespace lockstep {
namespace {

[[noreturn]] void cannot(const char* doing, const std::string& path, const std::string& why) {
  throw Error(Verdict::usage, fmt::format("cannot {} {}: {}", doing, path, why));
}
[[noreturn]] void cannot(const char* doing, const std::string& path, int code) {
  cannot(doing, path, std::strerror(code));
}

/// Describes a file that is not a regular file.
const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "it is a folder";
  if (S_ISFIFO(mode)) return "it is a pipe (FIFO), not a file";
  return S_ISSOCK(mode) ? "it is a socket, not a file" : "it is a device, not a file";
}

/// An open file. `path` is for messages.
class OpenFile {
 public:
  OpenFile(const char* doing, std::string path, int number) : doing_(doing), path_(std::move(path)), number_(number) {
    if (number_ < 0) cannot(doing_, path_, errno);
  }
  ~OpenFile() {
    if (number_ >= 0) ::close(number_);
  }
  OpenFile(OpenFile&& other) noexcept
      : doing_(other.doing_), path_(std::move(other.path_)), number_(std::exchange(other.number_, -1)) {}

  struct stat about() const {
    struct stat about {};
    if (fstat(number_, &about) != 0) cannot(doing_, path_, errno);
    return about;
  }
  /// Maps the first `size` bytes of the file.
  const char* map(std::size_t size) const {
    void* at = mmap(nullptr, size, PROT_READ, MAP_SHARED, number_, 0);
    if (at == MAP_FAILED) cannot(doing_, path_, errno);
    return static_cast<const char*>(at);
  }
  std::string read() {
    std::string text(static_cast<std::size_t>(about().st_size) + 1, '\0');  // one more byte, to see the end of the file
    std::size_t done = 0;
    for (ssize_t count = 1; count != 0; done += static_cast<std::size_t>(std::max<ssize_t>(count, 0))) {
      if (done == text.size()) text.resize(2 * done + 4096);  // the file grew meanwhile, or is in /proc
      count = ::read(number_, text.data() + done, text.size() - done);
      if (count < 0 && errno != EINTR) cannot(doing_, path_, errno);
    }
    text.resize(done);
    return text;
  }
  /// Makes writing wait if a pipe is full, instead of failing.
  void wait_for_room() { fcntl(number_, F_SETFL, fcntl(number_, F_GETFL) & ~O_NONBLOCK); }
  void write(std::string_view text) {
    while (!text.empty()) {
      const ssize_t written = ::write(number_, text.data(), text.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) cannot(doing_, path_, errno);
      text.remove_prefix(static_cast<std::size_t>(written));
    }
  }
  /// Some file systems report failed writes only here.
  void close() {
    if (::close(std::exchange(number_, -1)) != 0) cannot(doing_, path_, errno);
  }

 private:
  const char* doing_;
  std::string path_;
  int number_;
};

/// Destination of a write.
struct Target {
  std::string place;     // `path`, with links resolved
  bool through = false;  // write into an existing device, pipe or open file
};

Target target_of(const std::string& path) {
  namespace fs = std::filesystem;
  struct stat about {};
  const bool exists = stat(path.c_str(), &about) == 0;
  if (!exists && errno != ENOENT) cannot("write", path, errno);
  if (exists && S_ISDIR(about.st_mode)) cannot("write", path, kind_of(about.st_mode));
  if (exists && !S_ISREG(about.st_mode)) return {path, true};
  std::error_code none;
  fs::path place = path;
  for (int links = 0; links < 40 && fs::is_symlink(place, none); ++links) {
    if (fs::canonical(place.parent_path(), none).string().starts_with("/proc/")) return {path, true};  // /dev/stdout
    place = place.parent_path() / fs::read_symlink(place, none);
  }
  return {place.string(), false};
}

void write_through(const std::string& path, const std::string& text) {
  const int file = open(path.c_str(), O_WRONLY | O_APPEND | O_NONBLOCK | O_CLOEXEC);  // would otherwise wait for a
                                                                                      // pipe's reader
  if (file < 0 && errno == ENXIO) cannot("write", path, "no process reads from this pipe");
  OpenFile opened("write", path, file);
  opened.wait_for_room();
  opened.write(text);
  opened.close();
}

/// A temporary file next to `place`, removed by the destructor unless it was renamed.
class PartFile {
 public:
  PartFile(const std::string& path, const std::string& place)
      : path_(path),
        name_(fmt::format("{}.{}.part", place, getpid())),
        file_("write", path, open(name_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {}
  ~PartFile() {
    if (!name_.empty()) unlink(name_.c_str());
  }
  PartFile(const PartFile&) = delete;

  void write(std::string_view text) { file_.write(text); }
  void rename_to(const std::string& place) {
    file_.close();
    if (rename(name_.c_str(), place.c_str()) != 0) cannot("write", path_, errno);
    name_.clear();
  }

 private:
  std::string path_, name_;
  OpenFile file_;
};

OpenFile open_to_read(const std::string& path) {
  const int number = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);  // would otherwise wait for a pipe's writer
  OpenFile file("read", path, number);
  if (const mode_t mode = file.about().st_mode; !S_ISREG(mode)) cannot("read", path, kind_of(mode));
  return file;
}

}  // namespace

std::string read_file(const std::string& path) { return open_to_read(path).read(); }

MappedFile::MappedFile(const std::string& path) {
  OpenFile file = open_to_read(path);
  size_ = static_cast<std::size_t>(file.about().st_size);
  if (size_ > 0)
    mapped_ = file.map(size_);
  else
    text_ = file.read();
}

void MappedFile::expect_no_order() const {
  if (mapped_) madvise(const_cast<char*>(mapped_), size_, MADV_RANDOM);  // only a hint; failure is harmless
}

MappedFile::~MappedFile() {
  if (mapped_) munmap(const_cast<char*>(mapped_), size_);
}

std::string temporary_folder() {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  if (!error) return folder.string();
  const char* named = std::getenv("TMPDIR");
  throw Error(Verdict::usage, fmt::format("TMPDIR is {}, and there is no such folder: make it, or unset TMPDIR.",
                                          named ? named : "not set, and /tmp is missing"));
}

void make_folders_of(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) cannot("write", path, error.message());
}

void check_writable(const std::string& path) {
  for (const std::filesystem::path& part : std::filesystem::path(path).parent_path())
    if (part == "outputs") make_folders_of(path);  // only for outputs; another missing folder may be a typo
  const Target target = target_of(path);
  if (!target.through)
    PartFile(path, target.place);
  else if (access(path.c_str(), W_OK) != 0)
    cannot("write", path, errno);
}

void write_atomically(const std::string& path, const std::string& text) {
  const Target target = target_of(path);
  if (target.through) return write_through(path, text);
  PartFile file(path, target.place);
  file.write(text);
  file.rename_to(target.place);
}

}  // namespace lockstep
