// The file-system operations that checkpoints use. A test implements them to crash between any two operations or to
// fill the disk.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::checkpoint {

/// The right of one run to save to a directory. Released by the destructor.
class Lock {
 public:
  virtual ~Lock() = default;
  /// False if the lock is lost: the directory was removed, or another run has taken it.
  virtual bool held() = 0;
};

/// A file system. Paths are the operating system's. Every function throws Error(fail) with one sentence that names the
/// path and the system's reason. Functions may be called from several threads.
class Files {
 public:
  virtual ~Files() = default;

  /// Creates a directory and its parents. Does nothing if it exists.
  virtual void make_directory(const std::string& path) = 0;
  /// Writes a file of all `parts`, one after the other, and replaces an existing one. The contents are on disk when it
  /// returns; the name is only after sync_directory of the parent directory.
  virtual void write(const std::string& path, std::initializer_list<std::string_view> parts) = 0;
  /// Makes the current names in a directory survive a crash.
  virtual void sync_directory(const std::string& path) = 0;
  /// Renames atomically: nobody sees neither name, or half of the contents. Replaces an existing file; a directory
  /// needs an unused name.
  virtual void rename(const std::string& from, const std::string& to) = 0;
  /// Removes a file, or a directory with its contents. Does nothing if there is none.
  virtual void remove(const std::string& path) = 0;

  virtual bool exists(const std::string& path) = 0;
  /// Returns the names in a directory, sorted; empty if there is no such directory.
  virtual std::vector<std::string> list(const std::string& path) = 0;
  virtual std::string read(const std::string& path) = 0;  // throws Error(usage)

  /// Locks a directory, which is created if missing. Throws Error(usage) if another run holds the lock.
  virtual std::unique_ptr<Lock> lock(const std::string& directory) = 0;
};

/// The file system of this computer.
class Disk final : public Files {
 public:
  void make_directory(const std::string& path) override;
  void write(const std::string& path, std::initializer_list<std::string_view> parts) override;
  void sync_directory(const std::string& path) override;
  void rename(const std::string& from, const std::string& to) override;
  void remove(const std::string& path) override;
  bool exists(const std::string& path) override;
  std::vector<std::string> list(const std::string& path) override;
  std::string read(const std::string& path) override;
  std::unique_ptr<Lock> lock(const std::string& directory) override;
};

}  // namespace lockstep::checkpoint
