#include "common/gpt/checkpoint/lock.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <ctime>
#include <system_error>
#include <utility>

#include "common/error.hpp"

namespace lockstep::checkpoint {

namespace {

/// Describes the lock's holder; written into the lock file.
std::string holder() {
  std::array<char, 256> host{"this host"};
  gethostname(host.data(), host.size() - 1);
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  std::array<char, 32> since{};
  std::strftime(since.data(), since.size(), "%Y-%m-%d %H:%M:%S UTC", gmtime_r(&now, &utc));
  return fmt::format("process {} on {}, since {},", getpid(), host.data(), since.data());
}

class FolderLock final : public Lock {
 public:
  explicit FolderLock(const std::string& directory) : path_(directory + "/lock") {
    // A holder removes the file when it ends. A lock on a file without a name protects nothing, so try again.
    do open_file();
    while (!take(directory) || !is_current());
    const std::string text = holder();
    // On a full disk the lock is held, but its file does not name the holder.
    if (pwrite(file_, text.data(), text.size(), 0) >= 0 && ftruncate(file_, static_cast<off_t>(text.size())) == 0)
      fsync(file_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock() override {
    if (is_current()) unlink(path_.c_str());
    close(file_);
  }

  bool held() override { return is_current(); }

 private:
  void open_file() {
    if (file_ >= 0) close(file_);
    file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NONBLOCK, 0666);
    made_ = file_ >= 0;
    if (!made_ && errno == EEXIST) file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    if (file_ < 0)
      throw Error(Verdict::usage, fmt::format("cannot write {}: {}", path_, std::generic_category().message(errno)));
  }

  /// Takes the lock. Throws if another run holds it. On a file system without locks, the run that created the file
  /// holds it.
  bool take(const std::string& directory) {
    if (flock(file_, LOCK_EX | LOCK_NB) == 0) return true;
    const bool has_locks = errno == EWOULDBLOCK;
    if (!has_locks && made_) return true;
    std::string who = read();
    if (who.empty()) who = "a run that begins just now";
    close(std::exchange(file_, -1));
    const std::string else_do = has_locks ? "" : fmt::format("; if it has ended, remove {}", path_);
    throw Error(Verdict::usage,
                fmt::format("{} is in use: {} saves its checkpoints there; wait until it ends, or choose another "
                            "directory{}",
                            directory, who, else_do));
  }

  /// True if the name still refers to this file.
  bool is_current() const {
    struct stat mine {
    }, named{};
    return fstat(file_, &mine) == 0 && stat(path_.c_str(), &named) == 0 && mine.st_ino == named.st_ino &&
           mine.st_dev == named.st_dev;
  }

  std::string read() const {
    std::string text(1024, '\0');
    const ssize_t count = pread(file_, text.data(), text.size(), 0);
    text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    return text;
  }

  std::string path_;
  int file_ = -1;
  bool made_ = false;
};

}  // namespace

std::unique_ptr<Lock> lock_folder(const std::string& directory) { return std::make_unique<FolderLock>(directory); }

}  // namespace lockstep::checkpoint
