// What checkpoints ask of a file system, so that a test can stop it between any two operations, or let it be full.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::checkpoint {

/// That one run saves to a directory. Released when it dies.
class Lock {
 public:
  virtual ~Lock() = default;
  /// False once it is gone: the directory was removed, or another run has taken it.
  virtual bool held() = 0;
};

/// Paths as the system has them. Every function throws Error(fail) with one sentence that names the path and the
/// system's reason. They may be called from several threads.
class Files {
 public:
  virtual ~Files() = default;

  /// With its parents; one that is there already is fine.
  virtual void make_directory(const std::string& path) = 0;
  /// A file of all `parts`, one after the other; one that was there is replaced. On the disk when it returns, but its
  /// name is only after sync_directory of where it stands.
  virtual void write(const std::string& path, std::initializer_list<std::string_view> parts) = 0;
  /// From now on the names in a directory outlast a crash.
  virtual void sync_directory(const std::string& path) = 0;
  /// At once: nobody sees neither name, or a part of it. A file takes another's place; a directory needs a free name.
  virtual void rename(const std::string& from, const std::string& to) = 0;
  /// A file, or a directory with all that is in it; none is fine.
  virtual void remove(const std::string& path) = 0;

  virtual bool exists(const std::string& path) = 0;
  /// Names in a directory, in order; none where there is no such directory.
  virtual std::vector<std::string> list(const std::string& path) = 0;
  virtual std::string read(const std::string& path) = 0;  // Error(usage)

  /// Of a directory that is made where it is missing. Throws Error(usage) where another run has it.
  virtual std::unique_ptr<Lock> lock(const std::string& directory) = 0;
};

/// The computer's own.
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
