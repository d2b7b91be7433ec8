#include "common/devices/cuda/tuning.hpp"

#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "common/devices/cuda/status.hpp"

namespace lockstep::cuda {

namespace {

constexpr std::string_view kFormat = "lockstep-products-1";

/// A file that is locked while it is open; several hosts may share it.
class LockedFile {
 public:
  LockedFile(const std::string& name, int flags, int lock) : descriptor_(open(name.c_str(), flags | O_CLOEXEC, 0644)) {
    while (descriptor_ >= 0 && flock(descriptor_, lock) != 0)
      if (errno != EINTR) return;  // a file system without locks
  }
  ~LockedFile() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  LockedFile(const LockedFile&) = delete;
  explicit operator bool() const { return descriptor_ >= 0; }

  std::string text() const {
    std::string all;
    char part[1 << 16];
    ssize_t got = 0;
    (void)lseek(descriptor_, 0, SEEK_SET);
    while ((got = ::read(descriptor_, part, sizeof part)) > 0) all.append(part, static_cast<std::size_t>(got));
    return all;
  }
  bool append(std::string_view text) const {
    return write(descriptor_, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  }

 private:
  int descriptor_;
};

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (std::size_t end = 0; end != std::string_view::npos; text.remove_prefix(end + 1)) {
    end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
  }
  return parts;
}

std::string text_of(const Way& way) { return fmt::format("{:016x}", fmt::join(way, " ")); }

std::optional<Way> way_of(std::string_view text) {
  Way way{};
  if (text.size() != way.size() * 17 - 1) return {};
  for (std::size_t i = 0; i < way.size(); ++i) {
    const std::string digits(text.substr(i * 17, 16));
    char* end = nullptr;
    way[i] = std::strtoull(digits.c_str(), &end, 16);
  }
  if (text_of(way) != text) return {};
  return way;
}

/// A field must not contain tabs or line ends.
std::string field(std::string text) {
  for (char& c : text)
    if (c == '\t' || c == '\n') c = ' ';
  return text;
}

std::string text_of(const ProductKey& key) {
  constexpr const char* kEpilogues[] = {"none", "gelu", "gelu_backward"};
  return fmt::format(
      "m={} n={} k={} {}→{} transposed={:d}{:d} add={:d} bias={:d} tf32={:d} epilogue={} aligned={},{},{},{}", key.m,
      key.n, key.k, to_string(key.dtype), to_string(key.c_dtype), key.a_transposed, key.b_transposed, key.accumulate,
      key.bias, key.tf32, kEpilogues[static_cast<int>(key.epilogue)], key.a_alignment, key.b_alignment, key.c_alignment,
      key.result_alignment);
}

}  // namespace

std::string tuning_file() {
  const char* asked = std::getenv("LOCKSTEP_TUNE");
  if (!asked || std::string_view(asked) == "0") return "";
  if (std::string_view(asked) != "1") return asked;
  const char* folder = std::getenv("LOCKSTEP_MACHINES");
  return fmt::format("{}/products.txt", folder ? folder : LOCKSTEP_SOURCE_DIR "/outputs/machines");
}

/// The usable content of a file.
struct Tuning::Content {
  Ways ways;
  std::size_t stale = 0, unreadable = 0;

  Content(std::string_view text, std::string_view gpu, std::string_view library) {
    for (const std::string_view line : split(text, '\n')) {
      if (line.empty()) continue;
      const std::vector<std::string_view> fields = split(line, '\t');
      const std::optional<Way> way = fields.size() == 5 && fields[0] == kFormat ? way_of(fields[4]) : std::nullopt;
      if (!way)
        ++unreadable;
      else if (fields[1] != gpu || fields[2] != library)
        ++stale;
      else
        ways[std::string(fields[3])] = *way;  // the last one counts: it replaces one that could not be used
    }
  }
};

Tuning::Tuning(std::string file, std::string gpu, std::string library)
    : file_(std::move(file)), gpu_(field(std::move(gpu))), library_(field(std::move(library))) {
  read();
}

std::unique_ptr<Tuning> Tuning::of_environment(const std::string& library) {
  const std::string file = tuning_file();
  if (file.empty()) return nullptr;
  int device = 0;
  cudaDeviceProp properties{};
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  return std::make_unique<Tuning>(file, properties.name, library);
}

bool Tuning::matters(const ProductKey& key) { return key.m * key.n * key.k > std::size_t{64} * 64 * 64; }

void Tuning::complain(const std::string& what) const {
  fmt::print(stderr, "lockstep: {}: {} (LOCKSTEP_TUNE)\n", file_, what);
}

void Tuning::say_what_is_ignored(const Content& content) {
  if (std::exchange(told_, true)) return;
  std::string what;
  if (content.stale > 0) what = fmt::format("{} of another GPU or library than {}, {}", content.stale, gpu_, library_);
  if (content.unreadable > 0)
    what += fmt::format("{}{} that cannot be read", what.empty() ? "" : ", and ", content.unreadable);
  if (!what.empty()) complain("entries that are not used: " + what);
}

void Tuning::read() {
  const LockedFile file(file_, O_RDONLY, LOCK_SH);
  if (!file) return;
  Content content(file.text(), gpu_, library_);
  say_what_is_ignored(content);
  of_file_ = std::move(content.ways);
}

Way Tuning::keep(const std::string& product, const Way& measured, const std::function<bool(const Way&)>& usable) {
  std::error_code none;
  const std::filesystem::path folder = std::filesystem::path(file_).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, none);
  const LockedFile file(file_, O_RDWR | O_APPEND | O_CREAT, LOCK_EX);
  if (!file) {
    if (!std::exchange(told_unwritable_, true))
      complain(fmt::format("what was measured is not kept, and other ranks may choose otherwise: {}", strerror(errno)));
    tuning_origins().note(product, true);
    return measured;
  }
  const std::string text = file.text();
  const Content content(text, gpu_, library_);
  if (const auto found = content.ways.find(product); found != content.ways.end() && usable(found->second)) {
    tuning_origins().note(product, false);
    return found->second;
  }
  const bool torn = !text.empty() && text.back() != '\n';  // by a process that died
  const std::string line =
      fmt::format("{}{}\t{}\t{}\t{}\t{}\n", torn ? "\n" : "", kFormat, gpu_, library_, product, text_of(measured));
  if (!file.append(line) && !std::exchange(told_unwritable_, true))
    complain(fmt::format("what was measured is not kept: {}", strerror(errno)));
  tuning_origins().note(product, true);
  return measured;
}

Way Tuning::choose(const ProductKey& key, const std::function<bool(const Way&)>& usable,
                   const std::function<Way()>& measure) {
  const std::string product = text_of(key);
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = taken_.find(product); found != taken_.end()) return found->second;
    if (!of_file_.count(product)) read();  // another rank may have added it meanwhile
    if (const auto found = of_file_.find(product); found != of_file_.end()) {
      if (usable(found->second)) {
        tuning_origins().note(product, false);
        return taken_[product] = found->second;
      }
      complain("an entry that is not used, because the library rejects its algorithm: " + product);
    }
  }
  const Way measured = measure();  // without the lock: the GPU may need the work of other threads
  const std::lock_guard lock(mutex_);
  if (const auto found = taken_.find(product); found != taken_.end()) return found->second;
  return taken_[product] = keep(product, measured, usable);
}

void TuningOrigins::note(const std::string& product, bool measured) {
  const std::lock_guard lock(mutex_);
  measured_.try_emplace(product, measured);
}

TuningOrigins::Counts TuningOrigins::counts() {
  const std::lock_guard lock(mutex_);
  Counts counts;
  for (const auto& [product, measured] : measured_) ++(measured ? counts.measured : counts.from_file);
  return counts;
}

void TuningOrigins::forget() {
  const std::lock_guard lock(mutex_);
  measured_.clear();
}

TuningOrigins& tuning_origins() {
  static TuningOrigins all;
  return all;
}

}  // namespace lockstep::cuda
