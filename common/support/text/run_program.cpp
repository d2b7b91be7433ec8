#include "common/support/text/run_program.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <system_error>

#include "common/error.hpp"

namespace lockstep {
namespace {

struct Failure {
  std::string sentence;
  int exit_code = 1;
};

/// Describes the exception that is being handled.
Failure failure() {
  try {
    throw;
  } catch (const NoDevice& error) {
    return {error.what(), NoDevice::kExitCode};
  } catch (const Error& error) {
    return {error.what(), error.verdict() == Verdict::usage ? 2 : 1};
  } catch (const std::bad_alloc&) {
    return {"out of memory: this needs more than the computer gives", 1};
  } catch (const std::length_error&) {  // thrown by a container
    return {"out of memory: this needs more than any computer has", 1};
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) == 0) return {error.what(), 1};
    return {fmt::format("cannot write to standard output: {}", error.code().message()), 2};  // thrown by fmt::print
  } catch (const std::exception& error) {
    return {error.what(), 1};
  }
}

/// Opens something in place of each closed standard stream. Otherwise a file that is opened later could get its number
/// and receive the output. The replacement cannot be written to, or read from.
void occupy_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(stream, F_GETFD) < 0) (void)!open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

}  // namespace

void flush_output() {
  if (std::fflush(stdout) != 0)
    throw Error(Verdict::usage, fmt::format("cannot write to standard output: {}", std::strerror(errno)));
  if (std::ferror(stdout) != 0) throw Error(Verdict::usage, "cannot write to standard output");
}

int run_program(const std::string& prefix, const std::function<int()>& body, const std::function<bool()>& speaks) {
  occupy_closed_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // writing beyond a file's size limit fails, and the partial file is removed
  try {
    const int code = body();
    if (code == 0) flush_output();
    return code;
  } catch (...) {
    const Failure failed = failure();
    if (!speaks || speaks()) std::fputs((prefix + failed.sentence + "\n").c_str(), stderr);  // stderr may be closed
    return failed.exit_code;
  }
}

}  // namespace lockstep
