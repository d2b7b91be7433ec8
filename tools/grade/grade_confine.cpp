// Landlock: docs.kernel.org/userspace-api/landlock.html. seccomp filters: seccomp(2), and seccomp_filter.rst there.
#include "tools/grade/grade_confine.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace lockstep::tools {
namespace {

[[noreturn]] void refused(std::string_view what) {
  throw std::runtime_error(fmt::format("{}: {}", what, std::strerror(errno)));
}

void set_limit(decltype(RLIMIT_AS) resource, std::uint64_t value, std::uint64_t above = 0) {
  rlimit limits{value, value + above};
  if (setrlimit(resource, &limits) != 0) refused("setrlimit");
}

/// The version of Landlock; 0 where the kernel has none.
long landlock_version() {
  long version = syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  return version < 0 ? 0 : version;
}

/// All ways to change a file system that this version can forbid.
std::uint64_t writing(long version) {
  constexpr std::uint64_t first = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
                                  LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR |
                                  LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
                                  LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |
                                  LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM;
  constexpr std::uint64_t refer = 1 << 13, truncate = 1 << 14;  // since versions 2 and 3
  return first | (version >= 2 ? refer : 0) | (version >= 3 ? truncate : 0);
}

constexpr std::uint64_t kReadingFiles = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE;
constexpr std::uint64_t kReading = kReadingFiles | LANDLOCK_ACCESS_FS_READ_DIR;

/// A path that does not exist needs no rule. Landlock wants of a plain file only what can be done to one.
void allow(long rules, const std::filesystem::path& path, std::uint64_t access, std::uint64_t access_of_file) {
  const int at = open(path.c_str(), O_PATH | O_CLOEXEC);
  if (at < 0) return;
  struct stat about {};
  if (fstat(at, &about) != 0) refused("stat");
  landlock_path_beneath_attr below{};
  below.allowed_access = S_ISDIR(about.st_mode) ? access : access_of_file, below.parent_fd = at;
  if (syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &below, 0) != 0) refused("landlock_add_rule");
  close(at);
}

void forbid_files(const Confinement& what) {
  const std::uint64_t written = writing(landlock_version()), access = written | kReading;
  const long rules = syscall(SYS_landlock_create_ruleset, &access, sizeof access, 0);  // the structure's first member
  if (rules < 0) refused("landlock_create_ruleset");
  allow(rules, what.scratch, access, kReadingFiles | LANDLOCK_ACCESS_FS_WRITE_FILE);
  allow(rules, "/dev/null", 0, kReadingFiles | LANDLOCK_ACCESS_FS_WRITE_FILE);
  for (const auto& path : system_files()) allow(rules, path, kReading, kReadingFiles);
  for (const auto& path : what.may_read) allow(rules, path, kReading, kReadingFiles);
  if (syscall(SYS_landlock_restrict_self, rules, 0) != 0) refused("landlock_restrict_self");
  close(static_cast<int>(rules));
}

/// The numbers of system calls on one kind of processor.
struct Calls {
  std::string_view machine;  ///< as uname says
  std::uint32_t architecture;
  std::uint32_t clone, clone3, signal_thread, limits;
  std::vector<std::uint32_t> forks;  ///< fork, vfork (x86 only)
  std::vector<std::uint32_t> forbidden;
};

/// socket, socketpair, ptrace, process_vm_writev, kill, tkill, rt_sigqueueinfo,
/// rt_tgsigqueueinfo, pidfd_send_signal, pidfd_getfd, setrlimit, unshare, setns, mount, bpf, io_uring_setup, setsid,
/// setpgid.
const std::array<Calls, 2>& known_calls() {
  static const std::array<Calls, 2> calls{
      Calls{"x86_64",
            AUDIT_ARCH_X86_64,
            56,
            435,
            234,
            302,
            {57, 58},
            {41, 53, 101, 311, 62, 200, 129, 297, 424, 438, 160, 272, 308, 165, 321, 425, 112, 109}},
      Calls{"aarch64",
            AUDIT_ARCH_AARCH64,
            220,
            435,
            131,
            261,
            {},
            {198, 199, 117, 271, 129, 130, 138, 240, 424, 438, 164, 97, 268, 40, 280, 425, 157, 154}}};
  return calls;
}

/// The row of this processor; null where it is unknown.
const Calls* calls_here() {
  utsname name{};
  uname(&name);
  for (const Calls& calls : known_calls()) {
    if (calls.machine == name.machine) return &calls;
  }
  return nullptr;
}

bool has_seccomp() {
  std::uint32_t action = SECCOMP_RET_ERRNO;
  return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

/// A filter in the words of the kernel's packet filter, put together step by step.
class Filter {
 public:
  void load(std::size_t offset) { add(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset)); }
  void answer(std::uint32_t what) { add(BPF_RET | BPF_K, what); }
  /// If the loaded word is `value`, answers `what`; else continues.
  void answer_if(std::uint32_t value, std::uint32_t what) {
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1));
    answer(what);
  }
  void answer_unless(std::uint32_t value, std::uint32_t what) {
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 1, 0));
    answer(what);
  }
  /// If the loaded word is not `value`, skips the next `count` instructions.
  void skip_unless(std::uint32_t value, int count) {
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, static_cast<std::uint8_t>(count)));
  }
  /// Answers `what` where none of `bits` is set in the value loaded.
  void answer_without(std::uint32_t bits, std::uint32_t what) {
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 1, 0));
    answer(what);
  }
  void at_least(std::uint32_t value, std::uint32_t what) {
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, value, 0, 1));
    answer(what);
  }
  void install() {
    sock_fprog program{static_cast<unsigned short>(code_.size()), code_.data()};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) refused("seccomp");
  }

 private:
  void add(int code, std::uint32_t value) { code_.push_back(BPF_STMT(static_cast<std::uint16_t>(code), value)); }
  std::vector<sock_filter> code_;
};

constexpr std::size_t argument(std::size_t i) { return offsetof(seccomp_data, args) + 8 * i; }  // its low half

constexpr std::uint32_t kDenied = SECCOMP_RET_ERRNO | EPERM, kAllowed = SECCOMP_RET_ALLOW;

/// With the call's number loaded; threads are fine.
void forbid_processes(const Calls& calls, Filter& filter) {
  constexpr std::uint32_t kClonesThread = 0x00010000;
  for (std::uint32_t call : calls.forks) filter.answer_if(call, kDenied);
  // clone3's flags are in memory; the C library falls back on clone.
  filter.answer_if(calls.clone3, SECCOMP_RET_ERRNO | ENOSYS);
  filter.skip_unless(calls.clone, 4);
  filter.load(argument(0));
  filter.answer_without(kClonesThread, kDenied);
  filter.answer(kAllowed);
}

void forbid_calls(const Calls& calls, bool may_start_processes) {
  constexpr std::uint32_t kSecondTable = 0x40000000;
  Filter filter;
  filter.load(offsetof(seccomp_data, arch));
  filter.answer_unless(calls.architecture, SECCOMP_RET_KILL_PROCESS);
  filter.load(offsetof(seccomp_data, nr));
  filter.at_least(kSecondTable, kDenied);  // x32
  for (std::uint32_t call : calls.forbidden) filter.answer_if(call, kDenied);
  if (!may_start_processes) forbid_processes(calls, filter);
  filter.skip_unless(calls.signal_thread, 4);  // abort and raise: to itself
  filter.load(argument(0));
  filter.answer_if(static_cast<std::uint32_t>(getpid()), kAllowed);
  filter.answer(kDenied);
  filter.skip_unless(calls.limits, 6);  // prlimit: reading is harmless
  filter.load(argument(2));
  filter.skip_unless(0, 3);
  filter.load(argument(2) + 4);
  filter.answer_if(0, kAllowed);
  filter.answer(kDenied);
  filter.answer(kAllowed);
  filter.install();
}

}  // namespace

void limit(const Limits& limits) {
  set_limit(RLIMIT_CPU, limits.cpu_seconds, 1);  // first SIGXCPU, which says why; SIGKILL could be anybody's
  if (limits.memory_bytes > 0) set_limit(RLIMIT_AS, limits.memory_bytes);
  set_limit(RLIMIT_FSIZE, limits.file_bytes);
  set_limit(RLIMIT_CORE, 0);
}

void confine(const Confinement& what) {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) refused("no_new_privs");
  if (landlock_version() > 0) forbid_files(what);
  if (const Calls* calls = calls_here(); calls && has_seccomp()) forbid_calls(*calls, what.may_start_processes);
}

std::vector<std::filesystem::path> system_files() {
  return {"/usr/bin",     "/usr/lib",       "/usr/lib64",     "/usr/libexec",       "/usr/include",
          "/usr/share",   "/usr/local/bin", "/usr/local/lib", "/usr/local/include", "/bin",
          "/lib",         "/lib64",         "/nix/store",     "/etc/ld.so.cache",   "/etc/localtime",
          "/dev/urandom", "/dev/zero",      "/proc/cpuinfo",  "/proc/meminfo",      "/sys/devices/system"};
}

std::string missing_confinement() {
  std::string missing;
  if (landlock_version() == 0) missing += "files outside the scratch folder can be read and written (no Landlock); ";
  if (!calls_here() || !has_seccomp()) missing += "processes and sockets are not forbidden (no seccomp filter); ";
  if (!missing.empty()) missing.resize(missing.size() - 2);
  return missing;
}

}  // namespace lockstep::tools
