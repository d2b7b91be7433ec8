// Tests which symbols, sections and headers an answer may have, and where forbidden ones are found.
#include <gtest/gtest.h>

#include "tools/course/paths.hpp"
#include "tools/grade/grade_isolate.hpp"
#include "tools/grade/grade_object.hpp"

namespace lockstep::tools {
namespace {

TEST(Object, SaysWhereAnAnswerNamesWhatIsRefused) {
  const std::string answer =
      "// exit\nint now() { return puts(\"exit\"); }\nvoid f() {\n  std::random_device d;\n  std::exit(0);\n}\n";
  EXPECT_EQ(named_at(answer, "exit"), " (line 5)");
  EXPECT_EQ(named_at(answer, "std::random_device::_M_getval()"), " (line 4)");
  EXPECT_EQ(named_at(answer, "std::ifstream"), "");
  EXPECT_EQ(named_at(answer, "void std::call_once<void (&)()>(std::once_flag&)"), "");
  EXPECT_EQ(named_at("", "(anonymous namespace)::f()"), "");
}

TEST(Object, AnAnswerComputesAndPrints) {
  for (const char* symbol : {"_ZN8lockstep4Rank4waitENS_6TicketESt15source_location", "_ZNK8lockstep7Machine4betaEi",
                             "_ZNSt13runtime_errorD2Ev", "_ZSt17__throw_bad_allocv",
                             "_ZTVN10__cxxabiv117__class_type_infoE", "_ZTISt13runtime_error", "_Znwm", "_ZdlPvm",
                             "memcpy", "sqrtf", "log2", "ldiv", "printf", "__cxa_throw", "_ZSt4cout", "__popcountdi2",
                             "__udivti3", "_ZNSolsEi", "_ZN3fmt2v97vformatB5cxx11ENS0_17basic_string_viewIcEE"}) {
    EXPECT_TRUE(may_call(symbol)) << symbol;
  }
  for (const char* symbol : {"_exit", "exit", "quick_exit", "system", "fork", "open", "fopen", "write", "syscall",
                             "dlsym", "getenv", "environ", "_ZN7testing8UnitTest11GetInstanceEv",
                             "_ZN8lockstep7testing14record_verdictENS_7VerdictESt17basic_string_view",
                             "_ZNSt14basic_ofstreamIcSt11char_traitsIcEEC1EPKc",
                             "_ZNSt10filesystem6removeERKNS_7__cxx114pathE", "_Z4mainv"}) {
    EXPECT_FALSE(may_call(symbol)) << symbol;
  }
}

TEST(Object, AnAnswerCallsWhatItsHeadersDeclare) {
  const Declared declared{"lockstep", "week21", "ring_all_reduce", "Rank", "start"};
  for (const char* symbol :
       {"_ZN8lockstep6week2115ring_all_reduceENS_4RankENS_5SliceE", "sqrtf", "_ZSt4cout",
        "_ZN8lockstep4Rank5startESt4spanIKNS_8TransferELm18446744073709551615EE", "_ZTVN8lockstep4RankE"})
    EXPECT_TRUE(is_declared(symbol, declared)) << symbol;
  for (const char* symbol : {"_ZN8lockstep16write_atomicallyERKNSt10filesystem7__cxx114pathE", "_ZN8lockstep3runEv",
                             "_ZNK8lockstep8Recorder6ledgerEv", "_ZN8lockstep4Rank4waitENS_6TicketE"})
    EXPECT_FALSE(is_declared(symbol, declared)) << symbol;
}

TEST(Object, RanksShareNothingOfTheLibrary) {
  for (const char* symbol :
       {"rand", "srand", "_ZSt15set_new_handlerPFvvE", "_ZSt13set_terminatePFvvE", "_ZNSt8ios_base13_M_grow_wordsEib",
        "_ZNSt6locale6globalERKS_", "lockstep_private_at_exit"}) {
    EXPECT_FALSE(may_call(symbol)) << symbol;
  }
}

TEST(Object, WhatOpensAFileHasItsName) {
  EXPECT_EQ(opened_with("_ZNSt14basic_ifstreamIcSt11char_traitsIcEEC1EPKcSt13_Ios_Openmode"), "std::ifstream");
  EXPECT_EQ(opened_with("_ZNSt13basic_filebufIcSt11char_traitsIcEE5closeEv"), "a stream such as std::ifstream");
  EXPECT_EQ(opened_with("_ZNSt10filesystem6statusERKNS_7__cxx114pathE"), "std::filesystem");
  EXPECT_EQ(opened_with("_ZSt4cout"), "");
}

TEST(Object, WhatIsCalledIsFoundWhereItIsWritten) {
  const char* answer = "#include <thread>\n\n// a thread\nvoid f() { std::thread t([] {}); }\n";
  EXPECT_EQ(named_at(answer, "std::thread"), " (line 4)");
  EXPECT_EQ(named_at(answer, "std::jthread"), "");
}

TEST(Object, AnAnswerHasTheSectionsOfACompiler) {
  for (const char* name : {".text", ".text.unlikely", ".data.rel.ro", ".bss", ".init_array", ".debug_line", ".group"})
    EXPECT_TRUE(may_have_section(name)) << name;
  for (const char* name : {".init", ".preinit_array", ".init_array.00101", ".fini_array", ".ctors", "lockstep_private",
                           ".gnu.linkonce.t.f", ".gnu.lto_main", ".tbss", ".gnu.warning.f", "mine", ".textual"})
    EXPECT_FALSE(may_have_section(name)) << name;
}

TEST(Object, AnAnswerIncludesHeaders) {
  Paths paths{.source = LOCKSTEP_SOURCE_DIR, .build = "/nowhere", .labs = "/nowhere", .course = {}};
  for (const char* file :
       {"common/rank.hpp", "common/runtime/ledger/ledger.hpp", "labs/week21_data_parallel/ddp.hpp"}) {
    EXPECT_TRUE(may_include(paths, paths.source / file)) << file;
  }
  EXPECT_TRUE(may_include(paths, "/usr/include/c++/12/vector"));
  for (const char* file :
       {"solutions/week21_data_parallel/ddp.cpp", "labs/week21_data_parallel/ddp.cpp", "tools/course/judge.hpp",
        "common/testing/verdict.hpp", "common/devices/tests/reference.hpp", "common/backends/sim/world.hpp",
        "common/runtime/private_data.hpp", "common/runtime/rank.cpp", "solutions/ddp.hpp"}) {
    EXPECT_FALSE(may_include(paths, paths.source / file)) << file;
  }
  EXPECT_FALSE(may_include(paths, "/home/somebody/solutions/ddp.cpp"));
}

TEST(Object, WhereFilesLieOnTheGradersComputerIsNotTold) {
  Paths paths{.source = LOCKSTEP_SOURCE_DIR, .build = "/nowhere", .labs = "/nowhere", .course = {}};
  const auto told = [&](const fs::path& file, const char* answer) { return told_file(paths, file, answer); };
  const char* by_name = "#include \"solutions/ddp.cpp\"\n#include \"../hidden/grades.csv\"\n";
  EXPECT_EQ(told(paths.source / "solutions/ddp.cpp", by_name), "solutions/ddp.cpp");
  EXPECT_EQ(told(paths.source / "labs/../solutions/ddp.cpp", by_name), "solutions/ddp.cpp");
  EXPECT_EQ(told("/home/grader/hidden/grades.csv", by_name), "grades.csv");
  EXPECT_EQ(told("/etc/passwd", "#include \"/etc/passwd\"\n"), "/etc/passwd");
}

}  // namespace
}  // namespace lockstep::tools
