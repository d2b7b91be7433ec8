// The program behind ./lab drill: runs a program with a planted fault, and judges what a learner says of it.
//
//   drill run ID --seed S --out FOLDER     evidence of the run into FOLDER, of a good one into FOLDER/good
//   drill check ID --seed S --answer FILE
#include <fmt/format.h>

#include <filesystem>

#include "common/support/text/command_line.hpp"
#include "common/support/text/files.hpp"
#include "common/support/text/run_program.hpp"
#include "tools/analyse/drill/drills.hpp"
#include "tools/analyse/drill/files.hpp"
#include "tools/analyse/drill/kinds.hpp"
#include "tools/analyse/drill/plant.hpp"

namespace {

using namespace lockstep;
using namespace lockstep::drill;

struct Arguments {
  std::string id, out, answer;
  std::size_t seed = 0;
};

struct Case {
  Drill drill;
  Fault fault;
  Played good, played;
};

Case make_case(const Arguments& a) {
  const Corpus corpus = Corpus::read(LOCKSTEP_SOURCE_DIR "/data/austen.txt", TokenKind::characters);
  Drill drill = find_drill(a.id, corpus.vocabulary());
  Played good = play(drill.job, corpus, {});
  good.outcome.check();
  const Fault fault = fault_of(drill, good, a.seed);
  Played played = play(drill.job, corpus, fault);
  return {std::move(drill), fault, std::move(good), std::move(played)};
}

int run_drill(const Arguments& a) {
  const Case c = make_case(a);
  write_evidence(a.out, c.drill, c.played);
  write_evidence(a.out + "/good", c.drill, c.good);
  if (!std::filesystem::exists(a.out + "/answer.txt")) write_atomically(a.out + "/answer.txt", answer_form(c.drill));
  fmt::print("{}", format_output(c.drill, c.played));
  const std::string folder = std::filesystem::proximate(a.out).string();
  fmt::print(
      "\nSomething is wrong with this run. {0} has output.txt, steps.csv, ranks.csv, {1}trace.json, and in good/ the "
      "same files from a run without the fault. Look with\n"
      "  ./lab view {0}/trace.json     a page that animates it; with good/trace.json before it: both\n"
      "  ./lab why {0}/trace.json\n  ./lab diff {0}/good/trace.json {0}/trace.json\n"
      "Fill in {0}/answer.txt, then: ./lab drill check {2}\n",
      folder, c.good.collectives.empty() ? "" : "collectives.csv, ", a.id);
  return 0;
}

/// Says where to look again, but gives nothing away.
const char* advice(const std::string& field) {
  if (field == "kind")
    return "does the run stop, is it wrong, or is it slow? Compare output.txt with good/output.txt, then each table "
           "with its good one";
  if (field == "rank")
    return "which rank do the others wait for, or differ from, or whose part is missing? ranks.csv, steps.csv, ./lab "
           "why";
  if (field == "operation")
    return "what answer.txt asks for with this kind: look at ./lab diff of the two traces, the tables, or names in the "
           "trace";
  return "the number that answer.txt asks for with this kind, from the table or command that shows it, of this run and "
         "not of the good one";
}

int check_answer(const Arguments& a) {
  const Answer answer = parse_answer(read_file(a.answer), a.answer);
  const Case c = make_case(a);
  const Truth truth = truth_of(c.drill, c.fault, c.good, c.played);
  const std::vector<FieldVerdict> verdicts = judge(answer, truth);
  for (const FieldVerdict& v : verdicts) switch (v.is) {
      case FieldVerdict::Is::right: fmt::print("{:<10} right\n", v.field); break;
      case FieldVerdict::Is::wrong: fmt::print("{:<10} wrong: {}\n", v.field, advice(v.field)); break;
      case FieldVerdict::Is::empty: fmt::print("{:<10} empty: {}\n", v.field, advice(v.field)); break;
      case FieldVerdict::Is::not_judged: fmt::print("{:<10} not checked until the kind is right\n", v.field);
    }
  if (!all_right(verdicts)) return 1;
  const Kind& kind = kind_of(truth.kind);
  fmt::print("\nSolved: {} ({}).\n\nFault: {}.\n\nEvidence: {}\n\nIn PyTorch and NCCL: {}\n", kind.word, kind.meaning,
             describe(c.fault), kind.shows, kind.elsewhere);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run_program("lab drill: ", [&] {
    Session session(argc, argv);
    const std::string command = argc > 2 ? argv[1] : "";
    if (command != "run" && command != "check")
      throw Error(Verdict::usage, "drill run ID --seed S --out FOLDER, or drill check ID --seed S --answer FILE");
    Arguments a{.id = argv[2], .out = "outputs/drills", .answer = "answer.txt"};
    CommandLine line("drill " + command, "Runs a program with a planted fault, and checks what a learner found.");
    line.add("--seed", a.seed, "which variant", {0, 1'000'000'000});
    line.add("--out", a.out, "folder for the evidence");
    line.add("--answer", a.answer, "the file that was filled in");
    argv[2] = argv[0];
    if (!line.parse(argc - 2, argv + 2)) return 0;
    return command == "run" ? run_drill(a) : check_answer(a);
  });
}
