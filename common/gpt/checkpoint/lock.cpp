#include "common/gpt/checkpoint/lock.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <ctime>
#include <fstream>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "common/error.hpp"

namespace lockstep::checkpoint {

namespace {

using Clock = std::chrono::steady_clock;

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "this host";
}

/// Another one each time a computer starts, so that none of its processes can be older.
std::string boot_name() {
  std::string name;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> name;
  return name.empty() ? host_name() : name;
}

std::string time_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", gmtime_r(&now, &utc));
  return text.data();
}

/// The file DIR/lock, open.
class LockFile {
 public:
  LockFile(const std::string& path, bool& made) : path_(path) {
    number_ = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NONBLOCK, 0666);
    made = number_ >= 0;
    if (!made && errno == EEXIST) number_ = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (number_ < 0 && errno != ENOENT)  // removed in between: is_current() says so
      throw Error(Verdict::usage, fmt::format("cannot write {}: {}", path, std::generic_category().message(errno)));
  }
  LockFile(LockFile&& other) noexcept : path_(std::move(other.path_)), number_(std::exchange(other.number_, -1)) {}
  ~LockFile() {
    if (number_ >= 0) close(number_);
  }

  enum class Locked { yes, by_another, unknown };
  /// Unknown: this file system has no locks.
  Locked try_to_lock() {
    if (flock(number_, LOCK_EX | LOCK_NB) == 0) return Locked::yes;
    return errno == EWOULDBLOCK ? Locked::by_another : Locked::unknown;
  }
  /// The name still is this file's.
  bool is_current() const {
    struct stat mine {
    }, named{};
    return fstat(number_, &mine) == 0 && stat(path_.c_str(), &named) == 0 && mine.st_ino == named.st_ino &&
           mine.st_dev == named.st_dev;
  }
  std::string read() const {
    std::string text(1024, '\0');
    const ssize_t count = pread(number_, text.data(), text.size(), 0);
    text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    return text;
  }
  void write(const std::string& text) {
    // Where the disk is full the lock is the system's alone.
    if (pwrite(number_, text.data(), text.size(), 0) < 0) return;
    if (ftruncate(number_, static_cast<off_t>(text.size())) == 0) fsync(number_);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int number_;
};

/// What the file says: a sentence about its holder, the boot of its computer, and a number that grows.
struct Holder {
  std::string who, boot;
  long beats = 0;

  std::string text() const { return fmt::format("{}\nboot {}\nbeat {:012}\n", who, boot, beats); }
  /// Somebody else has written this.
  bool lost_to(const std::string& text) const {
    return !text.empty() && !text.starts_with(fmt::format("{}\nboot {}\n", who, boot));
  }
};

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

[[noreturn]] void in_use(const std::string& directory, const std::string& text) {
  throw Error(
      Verdict::usage,
      fmt::format("{} is in use: {} saves its checkpoints there; wait until it ends, or choose another directory",
                  directory, text.empty() ? "a run that begins just now" : first_line(text)));
}

/// Nobody writes to the file for so long. Opened anew each time, since NFS looks for what is new only then.
bool is_silent(const std::string& path, const LockOptions& o) {
  const auto read = [&] {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string before = read();
  for (const auto end = Clock::now() + o.silence; Clock::now() < end; std::this_thread::sleep_for(o.beat / 4))
    if (read() != before) return false;
  return true;
}

/// The open file, locked as well as can be.
LockFile acquire(const std::string& directory, const LockOptions& o, const Holder& me) {
  const std::string path = directory + "/lock";
  for (int tries = 0; tries < 100; ++tries) {
    bool made = false;
    LockFile file(path, made);
    const LockFile::Locked locked = file.try_to_lock();
    if (!file.is_current()) continue;  // its holder has just released it
    const std::string text = file.read();
    if (locked == LockFile::Locked::by_another) in_use(directory, text);
    const bool system_knows = locked == LockFile::Locked::yes && text.find("\nboot " + me.boot + "\n") != text.npos;
    const bool is_free = made || system_knows || (locked == LockFile::Locked::yes && text.empty());
    if (!is_free && !is_silent(path, o)) in_use(directory, file.read());
    file.write(me.text());
    if (is_free) return file;
    std::this_thread::sleep_for(o.beat);  // somebody else may have found the same
    if (file.is_current() && !me.lost_to(file.read())) return file;
  }
  in_use(directory, "");
}

class FolderLock final : public Lock {
 public:
  FolderLock(const std::string& directory, const LockOptions& o, Holder me)
      : me_(std::move(me)), file_(acquire(directory, o, me_)), beat_(o.beat), thread_([this] { beat(); }) {}
  ~FolderLock() override {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    ends_.notify_all();
    thread_.join();
    if (held()) unlink(file_.path().c_str());
  }

  bool held() override { return !lost_ && file_.is_current() && !me_.lost_to(file_.read()); }

 private:
  void beat() {
    std::unique_lock lock(mutex_);
    while (!ends_.wait_for(lock, beat_, [this] { return ended_; })) {
      lost_ = lost_ || me_.lost_to(file_.read());
      if (lost_) return;
      ++me_.beats;
      file_.write(me_.text());
    }
  }

  Holder me_;
  LockFile file_;
  std::chrono::milliseconds beat_;
  std::atomic<bool> lost_ = false;
  std::mutex mutex_;
  std::condition_variable ends_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Lock> lock_folder(const std::string& directory, const LockOptions& options) {
  LockOptions o = options;
  if (o.host.empty()) o.host = host_name();
  if (o.boot.empty()) o.boot = boot_name();
  Holder me{fmt::format("process {} on {}, since {},", getpid(), o.host, time_now()), o.boot};
  return std::make_unique<FolderLock>(directory, o, std::move(me));
}

}  // namespace lockstep::checkpoint
