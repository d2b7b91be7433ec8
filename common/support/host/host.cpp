#include "common/support/host/host.hpp"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

namespace lockstep {

std::vector<int> allowed_threads() {
  std::vector<int> threads;
  for (int capacity = CPU_SETSIZE; capacity <= (1 << 20); capacity *= 2) {  // the kernel's mask may be larger
    cpu_set_t* mask = CPU_ALLOC(capacity);
    std::size_t bytes = CPU_ALLOC_SIZE(capacity);
    bool read = sched_getaffinity(0, bytes, mask) == 0;
    for (int thread = 0; read && thread < capacity; ++thread)
      if (CPU_ISSET_S(thread, bytes, mask)) threads.push_back(thread);
    CPU_FREE(mask);
    if (read) return threads;
  }
  for (unsigned thread = 0; thread < std::max(1u, std::thread::hardware_concurrency()); ++thread)
    threads.push_back(static_cast<int>(thread));
  return threads;
}

namespace {

/// Returns the first line of a file; "" if it cannot be read.
std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

/// Returns the value of the first line "key : value" (or "key: value") of a file such as /proc/cpuinfo.
std::string value_of(const std::string& path, const std::string& key) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    auto colon = line.find(':');
    if (colon == line.npos || !line.starts_with(key)) continue;
    auto begin = line.find_first_not_of(" \t", colon + 1);
    return begin == line.npos ? "" : line.substr(begin);
  }
  return "";
}

/// Names an Arm processor, which reports numbers instead of a name.
std::string arm_processor(const std::string& root) {
  const std::string implementer = value_of(root + "/proc/cpuinfo", "CPU implementer"),
                    part = value_of(root + "/proc/cpuinfo", "CPU part");
  return part.empty() ? "unknown" : "Arm processor, implementer " + implementer + ", part " + part;
}

int distinct_cores(const std::string& root, const std::vector<int>& threads) {
  std::set<std::string> cores;
  for (int thread : threads) {
    std::string siblings =
        first_line(root + "/sys/devices/system/cpu/cpu" + std::to_string(thread) + "/topology/thread_siblings_list");
    cores.insert(siblings.empty() ? "thread " + std::to_string(thread) : siblings);
  }
  return static_cast<int>(cores.size());
}

/// Returns this process's cgroup and its ancestors, innermost first, as folders under /sys/fs/cgroup: version 2
/// ("0::/path") or the controller of version 1 ("3:cpu,cpuacct:/path").
std::vector<std::string> cgroups(const std::string& root, const std::string& controller) {
  std::vector<std::string> folders;
  std::ifstream in(root + "/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    bool version2 = controllers == ",,";
    if (!version2 && controllers.find("," + controller + ",") == controllers.npos) continue;
    std::string base = root + "/sys/fs/cgroup" + (version2 ? "" : "/" + controller);
    for (std::string path = line.substr(second + 1);; path.erase(path.rfind('/'))) {
      folders.push_back(base + (path == "/" ? "" : path));
      if (path.find('/') == path.npos) break;
    }
  }
  return folders;
}

/// CPU time allowed by the tightest cgroup, in processors; 0 without a limit.
double quota(const std::string& root) {
  double tightest = 0;
  for (const std::string& folder : cgroups(root, "cpu")) {
    double time = -1, period = 0;  // microseconds
    std::istringstream version2(first_line(folder + "/cpu.max"));
    if (!(version2 >> time >> period)) {  // reading "max 100000" fails: no limit
      std::istringstream(first_line(folder + "/cpu.cfs_quota_us")) >> time;
      std::istringstream(first_line(folder + "/cpu.cfs_period_us")) >> period;
    }
    if (time > 0 && period > 0) tightest = tightest > 0 ? std::min(tightest, time / period) : time / period;
  }
  return tightest;
}

/// Size of the cache with the highest index, whose file says "32768K".
double last_cache(const std::string& root, int thread) {
  double bytes = 0;
  for (int index = 0;; ++index) {
    std::istringstream size(first_line(root + "/sys/devices/system/cpu/cpu" + std::to_string(thread) + "/cache/index" +
                                       std::to_string(index) + "/size"));
    double number = 0;
    char unit = ' ';
    if (!(size >> number)) return bytes;
    size >> unit;
    bytes = number * (unit == 'K' ? 1024 : unit == 'M' ? 1048576 : 1);
  }
}

double memory(const std::string& root) {
  double least = 0;
  std::istringstream(value_of(root + "/proc/meminfo", "MemTotal")) >> least;
  least *= 1024;  // kB
  for (const std::string& folder : cgroups(root, "memory")) {
    for (const char* file : {"/memory.max", "/memory.limit_in_bytes"}) {
      double limit = 0;
      std::istringstream(first_line(folder + file)) >> limit;
      if (limit > 0 && (least == 0 || limit < least)) least = limit;
    }
  }
  return least;
}

}  // namespace

Host read_host(const std::string& root, std::vector<int> threads) {
  if (threads.empty()) threads = allowed_threads();
  Host host{.processor = value_of(root + "/proc/cpuinfo", "model name"),
            .hardware_threads = static_cast<int>(threads.size()),
            .cores_in_affinity = distinct_cores(root, threads),
            .quota_cores = quota(root),
            .last_cache_bytes = last_cache(root, threads.empty() ? 0 : threads.front()),
            .memory_bytes = memory(root)};
  if (host.processor.empty()) host.processor = arm_processor(root);
  host.usable_cores = host.cores_in_affinity;
  if (host.quota_cores > 0) host.usable_cores = std::min(host.usable_cores, static_cast<int>(host.quota_cores));
  host.usable_cores = std::max(1, host.usable_cores);
  return host;
}

std::string machine_file_of_host(const std::string& source, const std::string& backend) {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) name = {"host"};
  std::string host = name.data();
  host.erase(std::min(host.find('.'), host.size()));
  for (char& letter : host)
    if (!std::isalnum(static_cast<unsigned char>(letter)) && letter != '-' && letter != '_') letter = '_';
  const char* folder = std::getenv("LOCKSTEP_MACHINES");
  return (folder ? folder : source + "/outputs/machines") + "/" + (host.empty() ? "host" : host) +
         (backend == "mpi" ? "" : "-" + backend) + ".json";
}

void die_with_parent() {
  const pid_t parent = getppid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) std::_Exit(1);
}

}  // namespace lockstep
