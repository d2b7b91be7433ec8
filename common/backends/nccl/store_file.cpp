// A folder that all processes see, one file a value: on one host, or on a file system that hosts share.
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "common/backends/nccl/bootstrap.hpp"
#include "common/error.hpp"

namespace lockstep::nccl {

namespace {

namespace fs = std::filesystem;

class FileStore final : public Store {
 public:
  FileStore(std::string folder, int rank, int ranks) : folder_(std::move(folder)), rank_(rank), ranks_(ranks) {
    std::error_code error;
    fs::create_directories(folder_, error);
    if (!fs::is_directory(folder_))
      throw Error(Verdict::usage,
                  fmt::format("LOCKSTEP_STORE: cannot make the folder {}: {}", folder_.string(), error.message()));
    if (fs::exists(file(kCame + std::to_string(rank))))
      throw Error(Verdict::usage, fmt::format("LOCKSTEP_STORE: {} was used before: remove it, or name another folder",
                                              folder_.string()));
    set(kCame + std::to_string(rank), "");
  }

  /// Whoever leaves last removes the folder, also when not everybody came. One that was killed never left: then it
  /// stays, and the next run in it says what to do.
  ~FileStore() override {
    try {
      set(kLeft + std::to_string(rank_), "");
      for (int rank = 0; rank < ranks_; ++rank) {
        const std::string number = std::to_string(rank);
        if (fs::exists(file(kCame + number)) && !fs::exists(file(kLeft + number))) return;
      }
      fs::remove_all(folder_);
    } catch (const std::exception&) {
      // Another one removes it at this moment.
    }
  }

  void set(const std::string& key, const std::string& value) override {
    const fs::path whole = file(key), part = file(key + ".part");
    std::ofstream out(part, std::ios::binary);
    out << value;
    out.close();
    if (!out) throw Error(Verdict::fail, fmt::format("LOCKSTEP_STORE: cannot write {}", part.string()));
    fs::rename(part, whole);
  }

  bool get(const std::string& key, std::string& value, double seconds) override {
    using Clock = std::chrono::steady_clock;
    const auto until = Clock::now() + std::chrono::duration<double>(seconds);
    while (true) {
      std::ifstream in(file(key), std::ios::binary);
      if (in) {
        value.assign(std::istreambuf_iterator<char>(in), {});
        return true;
      }
      if (Clock::now() > until) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

 private:
  fs::path file(const std::string& key) const { return folder_ / key; }

  static constexpr const char *kCame = "came.", *kLeft = "left.";
  fs::path folder_;
  int rank_, ranks_;
};

}  // namespace

std::unique_ptr<Store> make_file_store(const std::string& folder, int rank, int ranks) {
  return std::make_unique<FileStore>(folder, rank, ranks);
}

}  // namespace lockstep::nccl
