// Files that a user names: texts read whole, results written whole or not at all. Every refusal is one sentence.
#pragma once

#include <string>

namespace lockstep {

/// All bytes of a file. Throws Error(usage), "cannot read PATH: …", where there is none, it may not be read, or it is a
/// folder, a pipe (FIFO), a socket or a device: reading those may never end.
std::string read_file(const std::string& path);

/// Makes the folders that `path` is in, where they are missing. Throws Error(usage), "cannot write PATH: …".
void make_folders_of(const std::string& path);

/// Throws Error(usage), "cannot write PATH: …": call before measuring for an hour. Makes the folders that `path` is in
/// where one of them is called outputs.
void check_writable(const std::string& path);

/// `text` to `path`, whole or not at all: to a file beside it, which is then renamed. Links are followed; what is no
/// regular file (a device, a pipe) is written to and stays what it is. Throws Error(usage) as check_writable().
void write_atomically(const std::string& path, const std::string& text);

}  // namespace lockstep
