// The format is that of Kineto, the library behind torch.profiler: Chrome's trace events in microseconds, with a head
// that says who wrote them. Events are taken one at a time, since a file may have hundreds of megabytes.
#include "tools/analyse/pytorch/trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <fstream>
#include <map>
#include <string_view>

#include "common/error.hpp"
#include "common/support/json/document.hpp"
#include "common/support/text/files.hpp"
#include "common/support/text/parse_number.hpp"

namespace lockstep::pytorch {
namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(Verdict::usage, fmt::format("trace {}: {}", path, why));
}

std::string lower_letters(std::string_view text) {
  std::string letters;
  for (const char c : text)
    if (std::isalpha(static_cast<unsigned char>(c))) letters += static_cast<char>(std::tolower(c));
  return letters;
}

/// One name for what NCCL's kernels, Gloo's calls and c10d's operations call the same collective; empty: none.
std::string collective_name(std::string_view text) {
  const std::array<std::pair<const char*, const char*>, 10> known{{{"reducescatter", "reduce_scatter"},
                                                                   {"allreduce", "all_reduce"},
                                                                   {"allgather", "all_gather"},
                                                                   {"alltoall", "all_to_all"},
                                                                   {"broadcast", "broadcast"},
                                                                   {"barrier", "barrier"},
                                                                   {"sendrecv", "send_receive"},
                                                                   {"send", "send_receive"},
                                                                   {"recv", "send_receive"},
                                                                   {"reduce", "reduce"}}};
  const std::string letters = lower_letters(text);
  for (const auto& [part, name] : known)
    if (letters.find(part) != letters.npos) return name;
  return "";
}

double bytes_of(const std::string& dtype) {
  const std::string type = lower_letters(dtype);
  if (type == "double" || type == "long") return 8;
  if (type == "half" || type == "bfloat" || type == "short") return 2;
  if (type.starts_with("float") && type.size() > 5) return 1;  // Float8_e4m3fn
  if (type == "byte" || type == "char" || type == "bool") return 1;
  return 4;
}

/// Bytes of an event's tensors, which PyTorch records with record_shapes=True: "Input Dims" [[525312]], "Input type"
/// ["float"]; else 0.
double recorded_bytes(const Json& arguments) {
  const Json *dims = arguments.find("Input Dims"), *types = arguments.find("Input type");
  if (!dims || !types || !dims->is_array() || !types->is_array() || dims->size() != types->size()) return 0;
  double bytes = 0;
  for (std::size_t i = 0; i < dims->size(); ++i) {
    if (!dims->at(i).is_array() || dims->at(i).empty() || !dims->at(i).at(0).is_number()) continue;
    double elements = 1;
    for (const Json& size : dims->at(i)) elements *= size.get<double>();
    bytes += elements * bytes_of(types->at(i));
  }
  return bytes;
}

/// A collective as the arguments of NCCL's kernel describe it.
Collective described(const Json& arguments, const std::string& name) {
  Collective c;
  c.name = collective_name(arguments.value("Collective name", name));
  if (const Json* group = arguments.find("Process Group Name"))
    c.group = group->is_string() ? group->get<std::string>() : group->dump();
  c.members = arguments.value("Group size", 0);
  const double sent = arguments.value("In msg nelems", 0.0), received = arguments.value("Out msg nelems", 0.0);
  c.bytes = std::max(sent, received) * bytes_of(arguments.value("dtype", ""));
  return c;
}

/// Work of the thread, not a call around it or the wait for another rank.
bool is_operation(std::string_view name) {
  for (const char* frame :
       {"autograd::engine", "c10d::", "record_param_comms", "gloo:", "nccl:", "Optimizer.", "DistributedDataParallel",
        "FSDP", "RegisterPostBackwardFunction", "enumerate(", "ProfilerStep"})
    if (name.starts_with(frame)) return false;
  return true;
}

/// "void at::native::reduce_kernel<512, 1, …>(…)" → "at::native::reduce_kernel".
std::string short_name(const std::string& kernel) {
  const std::size_t begin = kernel.starts_with("void ") ? 5 : 0, end = kernel.find_first_of("<(", begin);
  return end == begin ? kernel : kernel.substr(begin, end - begin);
}

/// Without operations inside others, and without the part of one that overlaps what began before it.
std::vector<Operation> one_at_a_time(std::vector<Operation> all) {
  std::stable_sort(all.begin(), all.end(), [](const Operation& a, const Operation& b) {
    return a.when.begin < b.when.begin || (a.when.begin == b.when.begin && a.when.end > b.when.end);
  });
  std::vector<Operation> kept;
  for (Operation& o : all) {
    if (!kept.empty()) o.when.begin = std::max(o.when.begin, kept.back().when.end);
    if (kept.empty() || o.when.end > o.when.begin) kept.push_back(std::move(o));
  }
  return kept;
}

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) { trace_.file = path; }

  RankTrace read(const std::string& text) {
    try {
      head(Json::parse(text, 2, [this](const Json& event) { take(event); }));
    } catch (const JsonError& error) {
      refuse(path_, fmt::format("this is not a trace of torch.profiler, or it was cut short ({})", error.what()));
    }
    trace_.gpu = !kernels_.empty() || !nccl_.empty();
    std::erase_if(operations_, [this](const Operation& o) { return is_part_of_gloo(o); });
    trace_.operations = one_at_a_time(std::move(trace_.gpu ? kernels_ : operations_));
    trace_.collectives = trace_.gpu ? nccl_ : gloo_;
    for (Collective& c : trace_.collectives)
      if (!trace_.gpu && c.name == "all_gather") c.bytes *= trace_.ranks;  // Gloo's input is one rank's part
    std::stable_sort(trace_.collectives.begin(), trace_.collectives.end(),
                     [](auto& a, auto& b) { return a.when.begin < b.when.begin; });
    if (trace_.operations.empty()) refuse(path_, "it has no operation and no kernel: nothing was recorded");
    steps();
    return std::move(trace_);
  }

 private:
  void head(const Json& document) {
    const Json* info = document.find("distributedInfo");
    if (!info)
      refuse(path_,
             "it has no distributedInfo: the profiler ran before torch.distributed was initialised, or after it "
             "was destroyed");
    trace_.rank = info->at("rank");
    trace_.ranks = info->at("world_size");
    trace_.backend = info->value("backend", "");
    trace_.host = document.value("host_name", "");
    trace_.clock = document.value("baseTimeNanoseconds", 0.0) * 1e-9;
    if (trace_.ranks < 1 || trace_.rank < 0 || trace_.rank >= trace_.ranks)
      refuse(path_, fmt::format("rank {} of {}", trace_.rank, trace_.ranks));
  }

  void take(const Json& event) {
    if (!event.is_object() || event.value("ph", "") != "X" || !event.contains("cat")) return;
    const std::string kind = event.at("cat"), name = event.at("name");
    const double begin = event.at("ts").get<double>() * 1e-6, duration = event.at("dur").get<double>() * 1e-6;
    if (!std::isfinite(begin) || !(duration >= 0 && duration < 1e9))
      throw JsonError(fmt::format("the times of {}", name));
    const Interval when{begin, begin + duration};
    static const Json none = Json::object({});
    const Json* given = event.find("args");
    const Json& arguments = given ? *given : none;
    if (kind == "kernel") {
      if (!lower_letters(name).starts_with("nccl")) return kernels_.push_back({short_name(name), when});
      nccl_.push_back(described(arguments, name));
      nccl_.back().when = when;
    } else if (kind == "gpu_memcpy" || kind == "gpu_memset") {
      kernels_.push_back({name, when});
    } else if (kind == "user_annotation" && name.starts_with("ProfilerStep#")) {
      trace_.steps.push_back(when);
      const int number = parse_number<int>(name.substr(name.find('#') + 1)).value_or(-1);
      if (trace_.steps.size() == 1 || number < trace_.first_step) trace_.first_step = number;
    } else if (kind == "user_annotation" && !name.starts_with("gloo:") && !name.starts_with("nccl:")) {
      trace_.parts.push_back({name, when});
    } else if (name.starts_with("gloo:")) {
      gloo_.push_back({.name = collective_name(name), .bytes = recorded_bytes(arguments), .when = when});
      calls_[event.at("tid").dump()].push_back(when);
    } else if (kind == "cpu_op" && is_operation(name)) {
      operations_.push_back({name, when, event.at("tid").dump()});
    }
  }

  /// One step, if the program does not mark any.
  void steps() {
    auto& steps = trace_.steps;
    std::sort(steps.begin(), steps.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
    double end = trace_.operations.back().when.end;
    for (const Collective& c : trace_.collectives) end = std::max(end, c.when.end);
    if (steps.empty()) steps.push_back({trace_.operations.front().when.begin, end});
    if (trace_.gpu) steps.back().end = std::max(steps.back().end, end);  // kernels run after the host's step
  }

  /// Gloo's threads copy, too.
  bool is_part_of_gloo(const Operation& o) const {
    const auto calls = calls_.find(o.thread);
    return calls != calls_.end() && std::any_of(calls->second.begin(), calls->second.end(), [&](const Interval& call) {
             return call.begin <= o.when.begin && o.when.end <= call.end;
           });
  }

  std::string path_;
  RankTrace trace_;
  std::vector<Operation> kernels_, operations_;
  std::vector<Collective> nccl_, gloo_;
  std::map<std::string, std::vector<Interval>> calls_;  // of Gloo, by thread
};

}  // namespace

bool is_pytorch_trace(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string head(16384, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(file.gcount()));
  return head.find("\"schemaVersion\"") != head.npos || head.find("\"distributedInfo\"") != head.npos;
}

RankTrace read_trace(const std::string& path) { return Reader(path).read(read_file(path)); }

}  // namespace lockstep::pytorch
