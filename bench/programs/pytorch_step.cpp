#include "bench/programs/pytorch_step.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>

#include "bench/programs/child_process.hpp"
#include "common/arithmetic.hpp"
#include "common/chunk.hpp"
#include "common/support/json/document.hpp"
#include "common/support/text/files.hpp"

namespace lockstep::bench {
namespace {

constexpr const char* kScript = LOCKSTEP_SOURCE_DIR "/bench/programs/pytorch_step.py";

/// A process whose output is written to a file.
class Child : public ChildProcess {
 public:
  Child(const std::vector<std::string>& words, const std::string& output)
      : ChildProcess(words, [&](posix_spawn_file_actions_t* actions) {
          posix_spawn_file_actions_addopen(actions, 1, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
          posix_spawn_file_actions_adddup2(actions, 1, 2);
        }) {}
};

/// A temporary folder, removed by the destructor.
class Scratch {
 public:
  Scratch() : path_(temporary_folder() + "/lockstep_pytorch.XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) throw Error(Verdict::fail, fmt::format("cannot make {}", path_));
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

/// Returns an unused port of this computer, chosen by rank 0 and known to all; a float represents it exactly.
int common_port(Rank me) {
  Slice port = me.allocate(1, DType::f32, Category::buffer);
  if (me.rank() == 0) {
    const int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    socklen_t size = sizeof address;
    const bool bound = bind(probe, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                       getsockname(probe, reinterpret_cast<sockaddr*>(&address), &size) == 0;
    close(probe);
    if (!bound) throw Error(Verdict::fail, "no port of this computer is free");
    fill(me, port, static_cast<float>(ntohs(address.sin_port)));
    for (int to = 1; to < me.size(); ++to) me.exchange({send(to, port)});
  } else {
    me.exchange({receive(0, port)});
  }
  return static_cast<int>(read(me, port, 0));
}

Apart measure_pytorch(Rank me, const PyTorch& pytorch, const std::string& model, const StepShape& shape,
                      const std::string& how, const Plan& plan) {
  const Scratch scratch;
  const ChunkRange mine = chunk_range(shape.sequences, me.rank(), me.size());
  std::vector<std::string> words = {"setpriv", "--pdeathsig", "KILL", "env"};
  if (me.size() > 1) {
    words.push_back(fmt::format("RANK={}", me.rank()));
    words.push_back(fmt::format("WORLD_SIZE={}", me.size()));
    words.push_back("MASTER_ADDR=127.0.0.1");
    words.push_back(fmt::format("MASTER_PORT={}", common_port(me)));
  }
  words.insert(words.end(), {pytorch.python,
                             "-B",
                             kScript,
                             "--model",
                             model,
                             "--batch",
                             std::to_string(mine.size),
                             "--sequence",
                             std::to_string(shape.length),
                             "--vocabulary",
                             std::to_string(shape.model.vocabulary),
                             "--threads",
                             "1",
                             "--samples",
                             std::to_string(plan.samples),
                             "--budget",
                             fmt::format("{}", plan.budget_seconds),
                             "--compile",
                             how == "compiled" ? "yes" : "no",
                             "--json",
                             scratch.file("json")});
  const double begin = me.now();
  const std::clock_t cpu = std::clock();
  Child child(words, scratch.file("words"));
  const bool succeeded = child.succeeds();
  const double waiting_cpu = static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC / (me.now() - begin);
  if (!succeeded)
    throw Error(Verdict::fail,
                fmt::format("PyTorch's {} step failed: {}", how, last_line(read_file(scratch.file("words")))));
  const Json row = Json::parse(read_file(scratch.file("json"))).at("rows").at(0);
  return {.seconds = row.at("sample_seconds").get<std::vector<double>>(),
          .right = learns(shape.model, row.at("first_loss"), row.at("last_loss")),
          .waiting_cpu_share = waiting_cpu};
}

}  // namespace

PyTorch find_pytorch() {
  const char* named = std::getenv("LOCKSTEP_PYTORCH");
  const Scratch scratch;
  const std::string output = scratch.file("version");
  for (const std::string& python :
       {std::string(named ? named : ""), std::string("python3"), std::string("/usr/bin/python3")}) {
    if (python.empty()) continue;
    try {
      Child child({python, "-c", "import torch; print(torch.__version__)"}, output);
      if (child.succeeds()) return {python, last_line(read_file(output))};
    } catch (const std::runtime_error&) {  // the program does not exist
    }
  }
  return {};
}

Contender pytorch_contender(const PyTorch& pytorch, const std::string& model, const StepShape& shape,
                            const std::string& how) {
  return {.name = "pytorch_" + how,
          .prepare = {},
          .counted = false,
          .apart = [=](Rank me, const Plan& plan) { return measure_pytorch(me, pytorch, model, shape, how, plan); },
          .drawn = false};
}

}  // namespace lockstep::bench
