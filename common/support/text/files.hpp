// Files that a user names: texts are read whole, and results written whole or not at all. Every error is one sentence.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

/// Returns all bytes of a file. Throws Error(usage), "cannot read PATH: …", if it does not exist, is not readable, or
/// is a folder, a pipe (FIFO), a socket or a device: reading those may never end.
std::string read_file(const std::string& path);

/// A file mapped into memory. Only the pages that are used are read, and processes share them.
class MappedFile {
 public:
  /// Throws Error(usage) like read_file().
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;

  /// Announces random access: nothing is read ahead.
  void expect_no_order() const;
  /// If another process truncates the file, an access beyond its new end ends this process (SIGBUS).
  std::string_view bytes() const { return mapped_ ? std::string_view(mapped_, size_) : std::string_view(text_); }

 private:
  const char* mapped_ = nullptr;
  std::size_t size_ = 0;
  std::string text_;  // for files whose length is unknown before reading: empty files, or those in /proc
};

/// Returns the folder for temporary files: TMPDIR, or /tmp. Throws Error(usage) if it does not exist.
std::string temporary_folder();

/// Creates the missing folders of `path`. Throws Error(usage), "cannot write PATH: …".
void make_folders_of(const std::string& path);

/// Throws Error(usage), "cannot write PATH: …". Call it before measuring for an hour. Creates the folders of `path` if
/// one of them is called outputs.
void check_writable(const std::string& path);

/// Writes `text` to `path`, whole or not at all: to a temporary file next to it, which is then renamed. Follows links.
/// A file that is not regular (a device, a pipe) is written to and not replaced. Throws Error(usage) like
/// check_writable().
void write_atomically(const std::string& path, const std::string& text);

}  // namespace lockstep
