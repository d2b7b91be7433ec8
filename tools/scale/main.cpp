// ./lab scale: strong or weak scaling of ./lab train's program, on whichever backend this was linked with.
//
//   ./lab scale --strong --ranks 1,2,4,8 --machine pcie-box-10gbe --model gpt2-124m
//   ./lab scale --weak --zero 3 --backend mpi --ranks 1,2
#include <fmt/format.h>

#include <set>

#include "common/error.hpp"
#include "common/runtime/run.hpp"
#include "common/support/json/repeatable.hpp"
#include "common/support/text/counted.hpp"
#include "common/support/text/numbers.hpp"
#include "common/support/text/run_program.hpp"
#include "common/support/text/trim.hpp"
#include "common/support/text/units.hpp"
#include "labs/week25_3d/diagnosis.hpp"
#include "tools/scale/diagnosis.hpp"

namespace {

using namespace lockstep;
using namespace lockstep::scaling;

constexpr const char* kHelp =
    "./lab scale --strong|--weak [--ranks 1,2,4] [--rounds N] [--json FILE] [--backend B] OPTIONS\n"
    "--strong: the total batch stays fixed; --weak: the batch per rank. OPTIONS are those of ./lab train (--zero 3,\n"
    "--machine, --model, …); --steps is the length of each run. In the simulator runs are phantom.\n"
    "./lab report --from FILE draws the curves of --json FILE.\n";

bool virtual_time() { return std::string_view(backend_name()) == "sim"; }

struct Request {
  StudyOptions study;
  std::string json;
  std::string command_line;  // that repeats it
  bool help = false;
};

std::vector<int> whole_numbers(const std::string& flag, const std::string& text) {
  std::set<int> numbers;
  for (const std::string& number : split(text)) numbers.insert(count_in(flag, number));
  return {numbers.begin(), numbers.end()};
}

/// Takes out our own options; `rest` is for ./lab train's parser.
Request read_own_options(int argc, char** argv, std::vector<std::string>& rest) {
  Request request;
  bool strong = false;
  std::string ranks = "1,2,4";
  request.study.rounds = virtual_time() ? 1 : 3;
  for (int i = 1; i < argc; ++i) {
    std::string flag = argv[i], joined;
    bool has_joined = false;
    if (const auto equals = flag.find('='); flag.starts_with("--") && equals != flag.npos) {
      joined = flag.substr(equals + 1);
      flag.resize(equals);
      has_joined = true;
    }
    const auto value = [&] {
      if (has_joined) return joined;
      if (i + 1 == argc) throw Error(Verdict::usage, flag + " needs a value");
      return std::string(argv[++i]);
    };
    if (flag == "--strong")
      strong = true;
    else if (flag == "--weak")
      request.study.weak = true;
    else if (flag == "--help" || flag == "-h")
      request.help = true;
    else if (flag == "--ranks")
      ranks = value();
    else if (flag == "--rounds")
      request.study.rounds = count_in(flag, value());
    else if (flag == "--json")
      request.json = value();
    else if (flag == "--plot")
      throw Error(Verdict::usage,
                  "--plot: a study is drawn with its laws by ./lab report --from FILE, its --json FILE");
    else
      rest.push_back(argv[i]);
  }
  if (request.help) return request;
  if (strong == request.study.weak) throw Error(Verdict::usage, "choose --strong or --weak");
  request.study.ranks = whole_numbers("--ranks", ranks);
  if (!request.json.empty()) check_writable(request.json);
  return request;
}

/// Defaults of a study: features it leaves out, and the length of its runs.
train::TrainRequest defaults() {
  train::TrainRequest o;
  o.steps = virtual_time() ? 3 : 8;
  o.batch = 16;
  o.sample = 0;
  o.phantom = virtual_time();
  o.threads = virtual_time() ? 0 : 1;
  return o;
}

std::string range(const Estimate& r, const char* format) {
  return std::isfinite(r.value) ? fmt::format(fmt::runtime(format), r.value) : "–";
}

void print_point(const Point& point, const std::string& limit) {
  fmt::print("{:>5}  {:>10}  {:>11.0f}  {:>7}  {:>10}  {:>10}  {}\n", point.ranks, format_seconds(point.seconds.value),
             point.tokens_per_second, range(point.speedup, "{:.2f}"), range(point.efficiency, "{:.2f}"),
             range(point.karp_flatt, "{:.4f}"), limit);
}

void print_study(const Study& study, const LawFit& fit) {
  fmt::print("{} scaling; T(1) is the best serial program: {}\n", study.weak ? "weak" : "strong", study.serial.program);
  for (const Point& other : study.serials)
    if (other.program != study.serial.program)
      fmt::print("  slower: {}, {} a step\n", other.program, format_seconds(other.seconds.value));
  fmt::print("\n{:>5}  {:>10}  {:>11}  {:>7}  {:>10}  {:>10}  {}\n", "ranks", "a step", "tokens/s", "speedup",
             "efficiency", "Karp–Flatt", "limit");
  print_point(study.serial, "");
  std::vector<std::string> sentences;
  for (const Point& point : study.points) {
    const Diagnosis d = diagnose(study, point);
    print_point(point, d.limit);
    sentences.push_back(fmt::format("{}: {}", counted(point.ranks, "rank"), d.sentence));
    if (point.speedup.high < 1)
      sentences.back() += "; slower than the serial program, which no serial fraction describes";
  }
  fmt::print("\n");
  fmt::print("{}\n", fit.sentence);
  if (!study.weak && fit.fraction.value > 0)
    fmt::print("By that fraction, efficiency stays at least 50% on up to {} ranks\n",
               week25::most_ranks(fit.fraction.value, 0.5));
  for (const std::string& sentence : sentences) fmt::print("{}\n", sentence);
}

void set_range(Row& row, const std::string& name, const Estimate& range) {
  row.set(name, range.value).set(name + "_low", range.low).set(name + "_high", range.high);
}

Row row_of(const Study& study, const Point& point, const StudyOptions& o) {
  Row row;
  const bool named = virtual_time() || !o.training.emulate.empty();
  row.set("backend", backend_name());
  row.set("machine", !named ? "host" : o.training.emulate.empty() ? o.training.machine : o.training.emulate);
  row.set("scaling", study.weak ? "weak" : "strong").set("ranks", point.ranks).set("program", point.program);
  row.set("seconds", point.seconds.value).set("seconds_low", point.seconds.low);
  row.set("seconds_high", point.seconds.high).set("samples", point.samples.size());
  row.set("tokens_per_second", point.tokens_per_second).set("serial_seconds", study.serial.seconds.value);
  row.set("fits_cores", point.fits_cores);
  if (point.ranks == 1) return row.set("best", point.program == study.serial.program);
  set_range(row, "speedup", point.speedup);
  set_range(row, "efficiency", point.efficiency);
  set_range(row, "karp_flatt", point.karp_flatt);
  const Diagnosis d = diagnose(study, point);
  row.set("limit", d.limit).set("diagnosis", d.sentence);
  row.set("ideal_seconds", point.fits_cores ? d.ideal_seconds : std::nan(""));
  row.set("lost_seconds", point.fits_cores ? d.lost_seconds : std::nan(""));
  for (const Loss& loss : d.losses) row.set(fmt::format("lost_to_{}_seconds", to_string(loss.cost)), loss.seconds);
  return row;
}

void write_study(const Study& study, const LawFit& fit, const Request& request) {
  if (request.json.empty()) return;
  Context context = Context::here();
  context.more.set("command", "scale")
      .set("command_line", request.command_line)
      .set("model", request.study.training.model);
  set_range(context.more, study.weak ? "gustafson_serial_fraction" : "amdahl_serial_fraction", fit.fraction);
  std::vector<Row> rows;
  for (const Point& point : study.serials) rows.push_back(row_of(study, point, request.study));
  for (const Point& point : study.points) rows.push_back(row_of(study, point, request.study));
  write_results(request.json, context, rows);
}

int run_study(int argc, char** argv, const Session& session) {
  std::vector<std::string> rest{argv[0]};
  Request request = read_own_options(argc, argv, rest);
  const std::string backend = virtual_time() ? "" : fmt::format(" --backend {}", backend_name());
  request.command_line = repeatable("./lab scale" + backend, argc, argv);
  if (request.help) {
    if (is_judge()) fmt::print("{}", kHelp);
    return 0;
  }
  std::vector<char*> arguments;
  for (std::string& argument : rest) arguments.push_back(argument.data());
  request.study.training = defaults();
  if (const auto code = train::parse(static_cast<int>(arguments.size()), arguments.data(), request.study.training,
                                     /*any_backend=*/false, "lab scale"))
    return *code;
  if (request.study.training.phantom && request.study.training.model == "tiny-moe")
    throw Error(Verdict::usage,
                "--model tiny-moe: in the simulator runs are phantom, and its routers need real values; use --backend "
                "mpi");
  request.study.training.trace = "/dev/null";  // recorded, and looked at here
  Study study = measure(request.study, session.available_ranks());
  if (!is_judge()) return 0;
  apply_laws(study);
  const LawFit fit = fit_law(study);
  print_study(study, fit);
  write_study(study, fit, request);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const auto study = [&] {
    Session session(argc, argv);
    return run_study(argc, argv, session);
  };
  return run_program("lab scale: ", study, is_judge);
}
