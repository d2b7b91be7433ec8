// Files that a user names: texts read whole, results written whole or not at all. Every refusal is one sentence.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

/// All bytes of a file. Throws Error(usage), "cannot read PATH: …", where there is none, it may not be read, or it is a
/// folder, a pipe (FIFO), a socket or a device: reading those may never end.
std::string read_file(const std::string& path);

/// A file as memory: what is looked at is read, and nothing else; processes share what one of them has read.
class MappedFile {
 public:
  /// Throws Error(usage) as read_file() does.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;

  /// What is looked at next is anywhere: nothing is read ahead.
  void expect_no_order() const;
  /// Whoever makes the file shorter meanwhile ends this process when it looks there (SIGBUS).
  std::string_view bytes() const { return mapped_ ? std::string_view(mapped_, size_) : std::string_view(text_); }

 private:
  const char* mapped_ = nullptr;
  std::size_t size_ = 0;
  std::string text_;  // of what has no length before it is read: an empty file, or one of /proc
};

/// Where temporary files go: TMPDIR, or /tmp. Throws Error(usage) where there is no such folder.
std::string temporary_folder();

/// Makes the folders that `path` is in, where they are missing. Throws Error(usage), "cannot write PATH: …".
void make_folders_of(const std::string& path);

/// Throws Error(usage), "cannot write PATH: …": call before measuring for an hour. Makes the folders that `path` is in
/// where one of them is called outputs.
void check_writable(const std::string& path);

/// `text` to `path`, whole or not at all: to a file beside it, which is then renamed. Links are followed; what is no
/// regular file (a device, a pipe) is written to and stays what it is. Throws Error(usage) as check_writable().
void write_atomically(const std::string& path, const std::string& text);

}  // namespace lockstep
