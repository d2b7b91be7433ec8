#include "tools/fuzz/targets.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/analysis/diff.hpp"
#include "common/analysis/graph.hpp"
#include "common/analysis/read_trace.hpp"
#include "common/analysis/replay.hpp"
#include "common/analysis/why.hpp"
#include "common/error.hpp"
#include "common/gpt/checkpoint/crc32c.hpp"
#include "common/gpt/checkpoint/manifest.hpp"
#include "common/gpt/data/corpus.hpp"
#include "common/gpt/data/model_file.hpp"
#include "common/gpt/data/token_file.hpp"
#include "common/gpt/pipeline/schedule.hpp"
#include "common/runtime/machine/machine.hpp"
#include "common/support/json/document.hpp"
#include "common/support/text/command_line.hpp"
#include "common/support/text/files.hpp"
#include "common/support/text/units.hpp"
#include "common/testing/verdict.hpp"
#include "tools/analyse/drill/answer.hpp"
#include "tools/course/course.hpp"
#include "tools/grade/grade_submission.hpp"
#include "tools/lab_command.hpp"
#include "tools/plan/strategy_file.hpp"

namespace lockstep::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr const char* kName = "FILE";  // in messages

const std::vector<tools::Exercise>& exercises() {
  static const auto all = tools::Course::read(LOCKSTEP_SOURCE_DIR "/labs/course.json").select("").exercises;
  return all;
}

/// A file of that text with this name, for what reads files alone; removed with its folder when it dies.
class Written {
 public:
  Written(const std::string& text, const char* name) : folder_(fs::temp_directory_path() / "lockstep_fuzz_XXXXXX") {
    std::string pattern = folder_;
    if (!mkdtemp(pattern.data())) throw Error(Verdict::fail, "no folder for " + pattern);
    folder_ = pattern;
    file_ = folder_ / name;
    write_atomically(file_, text);
  }
  ~Written() { fs::remove_all(folder_); }
  Written(const Written&) = delete;
  const fs::path& file() const { return file_; }
  fs::path scratch() const {
    fs::create_directories(folder_ / "scratch");
    return folder_ / "scratch";
  }

 private:
  fs::path folder_, file_;
};

/// A file of that text, without the time that a folder takes.
class InMemory {
 public:
  explicit InMemory(const std::string& text) : number_(memfd_create("fuzz", MFD_CLOEXEC)) {
    if (number_ < 0 || ::write(number_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
      throw Error(Verdict::fail, "no file in memory");
  }
  ~InMemory() { close(number_); }
  InMemory(const InMemory&) = delete;
  std::string path() const { return fmt::format("/proc/self/fd/{}", number_); }

 private:
  int number_;
};

/// The same, made anew of its parts.
Json copy(const Json& json) {
  std::vector<Json> elements;
  std::vector<Json::Member> members;
  if (json.is_object()) {
    for (const auto& [name, value] : json.items()) members.push_back({name, copy(value)});
    return Json::object(std::move(members));
  }
  if (json.is_array()) {
    for (const Json& element : json) elements.push_back(copy(element));
    return Json::list(std::move(elements));
  }
  if (json.is_string()) return Json::of(std::string_view(json.get<std::string>()));
  if (json.is_boolean()) return Json::of(json.get<bool>());
  return json.is_number() && !json.is_number_integer() ? Json::of(json.get<double>()) : json;
}

void read_json(const std::string& text) {
  try {
    Json::parse_if_valid(text);
    Json::parse(text, 1, [](const Json& object) { object.find("name"); });
    const Json json = Json::parse(text);
    if (!(copy(json) == json)) throw Error(Verdict::fail, "made anew it is another: " + json.dump());
    if (json.is_object() || json.is_array()) {
      if (!json.empty()) (void)(json.is_array() ? json.at(0) : json.at(json.items().front().name)).is_null();
      (void)json.at("none");
    }
    if (!(Json::parse(json.dump()) == json)) throw Error(Verdict::fail, "read back it is another: " + json.dump());
    Json::parse(json.dump(2));
    json.quote();
    if (json.is_number()) {
      (void)json.get<int>();
      (void)json.get<std::uint64_t>();
    }
  } catch (const JsonError& error) {
    throw Error(Verdict::usage, error.what());
  }
}

void read_machine(const std::string& text) {
  const Machine machine = parse_machine(text, LOCKSTEP_SOURCE_DIR "/bench/machines/fuzz.json");
  const Operation product{.name = "matmul", .flop = 1e9, .bytes = 1e6, .dtype = DType::bf16, .matmul = true};
  if (!(machine.seconds(product) > 0)) throw Error(Verdict::fail, "a product takes no time");
  const int ranks = machine.capacity() == 0 ? 1 << 20 : machine.capacity();
  if (ranks > 1) machine.ports(machine.level_between(0, ranks - 1), 0, ranks - 1);
}

void read_schedule(const std::string& text) {
  const ShapedSchedule read = parse_schedule(text, kName);
  if (!check_schedule(read.schedule, read.shape, 1 << 20).empty()) return;
  time_schedule(read.schedule, read.shape, StepTimes{.transfer = 0.5});
  for (const StageSchedule& stage : read.schedule) {
    std::string line;
    for (const Step& step : stage) line += to_string(step, 2) + " ";
    if (parse_stage(line) != stage) throw Error(Verdict::fail, "read back it is another: " + line);
  }
}

/// A file of a strategy; or where it is no object, words of a command line.
void read_strategy(const std::string& text) {
  if (text.find('{') == text.npos) {
    plan::has_fields({}, plan::wanted_fields(text));
    return;
  }
  const week25::Strategy strategy = plan::parse_strategy(text, kName);
  if (plan::strategy_json(plan::parse_strategy(plan::strategy_json(strategy), kName)) != plan::strategy_json(strategy))
    throw Error(Verdict::fail, "read back it is another: " + plan::strategy_json(strategy));
}

void read_model(const std::string& text) {
  const GptConfig model = parse_model(text, kName);
  if (model.parameters() == 0 || !(model.step_flop(1) > 0)) throw Error(Verdict::fail, "a model of nothing");
  const std::string again = model_text(model);
  if (model_text(parse_model(again, kName)) != again) throw Error(Verdict::fail, "read back it is another: " + again);
}

void read_course(const std::string& text) {
  const tools::Course read = tools::Course::parse(text, kName);
  for (const tools::Exercise& exercise : read.select("").exercises) {
    read.all_needs(exercise.id);
    read.select(exercise.id);
  }
}

/// The words of a command line that names no file of options.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream in(text);
  for (std::string word; words.size() < 50 && in >> word;)  // CLI11 takes the square of their number
    if (word.find("--config") == word.npos) words.push_back(word);
  return words;
}

/// A file of options, as ./lab train --config has one; or, where it begins with "--", the options as they are typed.
void read_config(const std::string& text) {
  const InMemory file(text);
  CommandLine line("fuzz", "");
  std::string word;
  int whole = 1, count = 1;
  std::size_t size = 1;
  double number = 1, share = 0.5;
  bool flag = false;
  std::optional<double> maybe;
  std::vector<std::string> several;
  line.add("--word", word, "");
  line.add("--whole", whole, "");
  line.group("Group");
  line.add("--count,--number-of", count, "", Whole{1, 10});
  line.add("--size", size, "", Whole{1, 10});
  line.add("--number", number, "");
  line.add("--share", share, "", Real{0, 1});
  line.add("--maybe", maybe, "");
  line.add("--flag", flag, "");
  line.add("--several", several, "");
  line.add_config("--config", "");
  std::vector<std::string> words{"--config=" + file.path()};
  if (text.starts_with("--")) words = words_of(text);
  words.insert(words.begin(), "fuzz");
  std::vector<char*> arguments;
  for (std::string& each : words) arguments.push_back(each.data());
  arguments.push_back(nullptr);
  line.parse(static_cast<int>(words.size()), arguments.data(), false);
  line.given("--word");
}

/// Words after ./lab. The command is not run.
void read_lab(const std::string& text) {
  std::vector<std::string> words{"lab"};
  std::istringstream in(text);
  for (std::string word; words.size() < 50 && std::getline(in, word, ' ');)
    if (word.find('\0') == word.npos) words.push_back(word);
  std::vector<const char*> arguments;
  for (const std::string& word : words) arguments.push_back(word.c_str());
  static const tools::Paths paths{.source = LOCKSTEP_SOURCE_DIR, .build = "", .labs = "", .course = {}};
  tools::read_command(paths, static_cast<int>(arguments.size()), arguments.data(), {});
}

void read_trace(const std::string& text) {
  const Trace trace = parse_chrome_trace(text, kName);
  format_why(analysis::why(trace));
  analysis::rows(analysis::why(trace));
  analysis::replay(analysis::make_graph(trace, ""));
  analysis::phase_names(trace);
  Trace shorter = trace;
  shorter.events.erase(shorter.events.begin());
  const analysis::Diff diff = analysis::diff(trace, shorter);
  format_diff(diff, 5);
  analysis::rows(diff);
}

/// Reads a manifest, completed by its checksum where the text has none.
void read_manifest(const std::string& text) {
  using namespace checkpoint;
  if (text.starts_with("shard ")) {
    parse_shard(text, kName);
    return;
  }
  const std::string whole =
      text.find("crc32c ") == text.npos ? text + fmt::format("crc32c {:08x}\n", crc32c(text)) : text;
  const Manifest read = parse_manifest(whole, kName);
  if (manifest_text(parse_manifest(manifest_text(read), kName)) != manifest_text(read))
    throw Error(Verdict::fail, "read back it is another: " + manifest_text(read));
}

void read_tokens(const std::string& text) {
  if (TokenFile::in(text, kName)) {
    const InMemory file(text);
    const std::vector<std::int32_t> tokens = Corpus::read(file.path(), TokenKind::bytes, 0.5).train().all();
    const Corpus corpus = Corpus::read(file.path(), TokenKind::bytes, 0.5);
    if (corpus.encode(corpus.decode(tokens)) != tokens) throw Error(Verdict::fail, "decoded they are other tokens");
    return;
  }
  for (const TokenKind kind : {TokenKind::bytes, TokenKind::characters}) {
    const Corpus corpus = Corpus::of_text(text, kind, 0.1, kName);
    if (corpus.decode(corpus.train().all()) + corpus.decode(corpus.validation().all()) != text)
      throw Error(Verdict::fail, "decoded it is another text");
    corpus.unigram_entropy();
    (void)corpus.batch(0, 2, 3).rows(1, 1);
    corpus.validation_batch(1, 2, 1);
  }
}

void read_verdicts(const std::string& text) {
  const std::vector<testing::Judgement> rows = testing::parse_judgements(text, kName);
  for (const testing::Judgement& row : rows) testing::severity(row.verdict);
  const Written written(text, "verdicts.json");
  testing::write_judgements(written.file(), rows);
  if (testing::read_judgements(written.file()).size() != rows.size())
    throw Error(Verdict::fail, "read back there are others");
}

/// Reads the list that an archive gives of its files.
void read_names(const std::string& text) { tools::read_list(text, exercises()); }

/// A whole archive: slow, it is listed and unpacked by another program, confined.
void read_archive(const std::string& text) {
  const bool zip = text.starts_with("PK");
  const Written written(text, zip ? "submission.zip" : "submission.tar");
  tools::read_submission(written.file(), exercises(), written.scratch());
}

/// An archive in plain words, a kind and a name a line; a name that no system takes is left out.
///   f labs/week21_data_parallel/ring_all_reduce.cpp
/// Kinds: f file, b one too big, d folder, l link to nowhere, c link to its own folder, p pipe, u a name that cannot be
/// read, x one at which unpacking fails.
struct Entry {
  char kind;
  std::string name;
};

std::vector<Entry> entries_of(const std::string& text) {
  std::vector<Entry> entries;
  std::istringstream in(text);
  for (std::string line; entries.size() < 100 && std::getline(in, line);)
    if (line.size() > 2 && line.find('\0') == line.npos) entries.push_back({line[0], line.substr(2)});
  return entries;
}

void make(const fs::path& folder, const Entry& entry) {
  const fs::path at = folder / entry.name;
  std::error_code none;
  fs::create_directories(entry.kind == 'd' ? at : at.parent_path(), none);
  if (entry.kind == 'l') fs::create_symlink("/nowhere/at all", at, none);
  if (entry.kind == 'c') fs::create_symlink(".", at, none);
  if (entry.kind == 'p') (void)mkfifo(at.c_str(), 0600);
  if (entry.kind != 'f' && entry.kind != 'b') return;
  if (fs::exists(at, none) && !fs::is_regular_file(at, none)) return;
  std::ofstream(at) << entry.name;
  if (entry.kind == 'b') fs::resize_file(at, 300'000, none);
}

bool stays_below(const fs::path& name) {
  return !name.is_absolute() && std::find(name.begin(), name.end(), "..") == name.end();
}

/// Unpacks them as `cmake -E tar` would. Not even what says so may be written elsewhere.
std::optional<std::string> tar_of(const std::vector<Entry>& entries, const std::vector<std::string>& arguments,
                                  const fs::path& folder) {
  std::string list;
  for (const Entry& entry : entries) {
    if (arguments[0] == "tf") {
      list += (entry.kind == 'u' ? "" : entry.name) + (entry.kind == 'd' ? "/\n" : "\n");
    } else if (std::find(arguments.begin() + 3, arguments.end(), entry.name) != arguments.end()) {
      if (!stays_below(entry.name)) throw std::runtime_error("unpacked elsewhere: " + entry.name);
      if (entry.kind == 'x') return {};
      make(folder, entry);
    }
  }
  return entries.empty() ? std::nullopt : std::optional(list);
}

/// Files hold their own names: each answer must be one that lay where this exercise's files count.
void look_at(const tools::Submission& read) {
  for (const auto& [id, text] : read.answers)
    if (const tools::Place place = tools::place_of(exercises(), text); !place.exercise || place.exercise->id != id)
      throw Error(Verdict::fail, fmt::format("{} is the answer to {}", text, id));
  if (read.found_instead(exercises()).empty()) throw Error(Verdict::fail, "it does not say what it found");
}

/// Any content of an archive, of a folder, or of a file that is handed in.
void read_submission(const std::string& text) {
  const std::vector<Entry> entries = entries_of(text);
  const Written written(text, "submission.tar");
  const fs::path folder = written.scratch() / "folder", unpacked = written.scratch() / "unpacked";
  fs::create_directories(folder);
  fs::create_directories(unpacked);
  for (const Entry& entry : entries)
    if (stays_below(entry.name)) make(folder, entry);
  look_at(tools::read_submission(folder, exercises(), unpacked));
  const auto tar = [&](const std::vector<std::string>& arguments, const fs::path& into) {
    return tar_of(entries, arguments, into);
  };
  look_at(tools::read_submission(written.file(), exercises(), unpacked, tar));
  if (stays_below(entries.front().name))
    tools::read_submission(folder / entries.front().name, exercises(), unpacked, tar);
}

void read_sizes(const std::string& text) {
  for (const std::uint64_t bytes : parse_byte_sizes(text)) {
    const auto number = static_cast<double>(bytes);
    format_bytes(number);
    format_bandwidth(number);
    format_seconds(number / 1e9);
    if (bytes < 10'000 && parse_bytes(format_bytes(number)) != bytes)
      throw Error(Verdict::fail, "read back it is another");
  }
}

void read_answer(const std::string& text) {
  const drill::Answer answer = drill::parse_answer(text, kName);
  for (const drill::Unit unit : {drill::Unit::count, drill::Unit::bytes, drill::Unit::seconds}) {
    const drill::Truth truth{
        .kind = "straggler", .rank = "2", .operation = "matmul", .evidence = 2, .unit = unit, .tolerance = 0.01};
    if (drill::all_right(drill::judge(answer, truth)) && answer.evidence.empty())
      throw Error(Verdict::fail, "right without evidence");
  }
}

constexpr std::array<Target, 17> kTargets{{{"json", read_json},
                                           {"machine", read_machine},
                                           {"model", read_model},
                                           {"schedule", read_schedule},
                                           {"strategy", read_strategy},
                                           {"course", read_course},
                                           {"config", read_config},
                                           {"lab", read_lab},
                                           {"trace", read_trace},
                                           {"manifest", read_manifest},
                                           {"tokens", read_tokens},
                                           {"verdicts", read_verdicts},
                                           {"names", read_names},
                                           {"sizes", read_sizes},
                                           {"submission", read_submission},
                                           {"archive", read_archive},
                                           {"answer", read_answer}}};

}  // namespace

std::span<const Target> targets() { return kTargets; }

std::string fault(const Target& target, const std::string& text) {
  try {
    target.read(text);
  } catch (const Error& error) {
    const std::string said = error.what();
    if (error.verdict() == Verdict::usage && !said.empty()) return "";
    return said.empty() ? "an error without a word" : said;
  } catch (const std::exception& error) {
    return std::string("an exception that is no Error: ") + error.what();
  }
  return "";
}

}  // namespace lockstep::fuzz
