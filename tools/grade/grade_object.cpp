#include "tools/grade/grade_object.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <sstream>
#include <utility>
#include <vector>

#include "common/error.hpp"
#include "tools/course/cpp_tokens.hpp"
#include "tools/grade/grade_isolate.hpp"
#include "tools/grade/grade_run.hpp"

namespace lockstep::tools {
namespace {

namespace fs = std::filesystem;

/// Functions of the C library that an answer may call, besides <math.h>: memory, strings, printing, and what compilers
/// call.
constexpr std::array kCFunctions{"memcpy",
                                 "memmove",
                                 "memset",
                                 "memcmp",
                                 "memchr",
                                 "memrchr",
                                 "bcmp",
                                 "strlen",
                                 "strnlen",
                                 "strcmp",
                                 "strncmp",
                                 "strcpy",
                                 "strncpy",
                                 "stpcpy",
                                 "strcat",
                                 "strchr",
                                 "strrchr",
                                 "strstr",
                                 "strtod",
                                 "strtof",
                                 "strtol",
                                 "strtoll",
                                 "strtoul",
                                 "strtoull",
                                 "malloc",
                                 "calloc",
                                 "realloc",
                                 "free",
                                 "aligned_alloc",
                                 "posix_memalign",
                                 "div",
                                 "ldiv",
                                 "lldiv",
                                 "qsort",
                                 "bsearch",
                                 "printf",
                                 "fprintf",
                                 "snprintf",
                                 "vsnprintf",
                                 "puts",
                                 "putchar",
                                 "fputs",
                                 "fputc",
                                 "putc",
                                 "fwrite",
                                 "fflush",
                                 "stdout",
                                 "stderr",
                                 "abort",
                                 "strerror",
                                 "isalnum",
                                 "isalpha",
                                 "isdigit",
                                 "islower",
                                 "isspace",
                                 "isupper",
                                 "tolower",
                                 "toupper",
                                 "__ctype_b_loc",
                                 "__assert_fail",
                                 "__errno_location",
                                 "__libc_single_threaded",
                                 "__pthread_key_create",
                                 "pthread_once",
                                 "pthread_self",
                                 "pthread_mutex_lock",
                                 "pthread_mutex_trylock",
                                 "pthread_mutex_unlock",
                                 "__memcpy_chk",
                                 "__memmove_chk",
                                 "__memset_chk",
                                 "__printf_chk",
                                 "__fprintf_chk",
                                 "__snprintf_chk",
                                 "__stack_chk_fail",
                                 "_Unwind_Resume",
                                 "__gxx_personality_v0",
                                 "__dso_handle",
                                 "__tls_get_addr",
                                 "_GLOBAL_OFFSET_TABLE_"};

/// "sin", "sinf", "sinl" and so on.
constexpr std::array kMath{
    "acos",  "acosh", "asin",   "asinh", "atan",   "atan2", "atanh",  "cbrt",      "ceil",      "copysign", "cos",
    "cosh",  "erf",   "erfc",   "exp",   "exp2",   "expm1", "fabs",   "fdim",      "floor",     "fma",      "fmax",
    "fmin",  "fmod",  "frexp",  "hypot", "ilogb",  "ldexp", "lgamma", "llrint",    "llround",   "log",      "log10",
    "log1p", "log2",  "logb",   "lrint", "lround", "modf",  "nan",    "nearbyint", "nextafter", "pow",      "remainder",
    "rint",  "round", "scalbn", "sin",   "sincos", "sinh",  "sqrt",   "tan",       "tanh",      "tgamma",   "trunc"};

/// Arithmetic that a processor lacks (GCC's manual of internals, "The GCC low-level runtime library"), in the sizes of
/// 64 and 128 bits: std::has_single_bit calls one on x86-64.
constexpr std::array kCompilersArithmetic{
    "__popcountdi2", "__popcountti2", "__clzdi2",    "__clzti2",     "__ctzdi2",      "__ctzti2",
    "__ffsdi2",      "__ffsti2",      "__paritydi2", "__parityti2",  "__divti3",      "__modti3",
    "__multi3",      "__udivti3",     "__umodti3",   "__udivmodti4", "__mulsc3",      "__muldc3",
    "__divsc3",      "__divdc3",      "__powisf2",   "__powidf2",    "__fixdfti",     "__fixsfti",
    "__fixunsdfti",  "__fixunssfti",  "__floattidf", "__floattisf",  "__floatuntidf", "__floatuntisf"};

template <class Names>
bool among(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_math(std::string_view name) {
  bool suffix = name.ends_with('f') || name.ends_with('l');
  return among(kMath, name) || (suffix && among(kMath, name.substr(0, name.size() - 1)));
}

/// "_ZNK8lockstep4Rank4sizeEv" → "8lockstep4Rank4sizeEv": past what the Itanium ABI puts before the outermost name.
std::string_view outermost(std::string_view symbol) {
  symbol.remove_prefix(2);
  for (std::string_view special : {"TV", "TI", "TS", "TT", "GV", "GR", "TH", "TW"}) {
    if (symbol.starts_with(special)) symbol.remove_prefix(2);
  }
  while (!symbol.empty() && (symbol[0] == 'Z' || symbol[0] == 'N')) symbol.remove_prefix(1);
  while (!symbol.empty() && (symbol[0] == 'K' || symbol[0] == 'V' || symbol[0] == 'R' || symbol[0] == 'O'))
    symbol.remove_prefix(1);
  return symbol;
}

/// std::, with its abbreviations: St, Sa, Ss, Si, …
bool in_std(std::string_view name) {
  return name.starts_with('S') && name.size() > 1 && std::islower(static_cast<unsigned char>(name[1]));
}

/// Test frameworks, verdicts, and what holds the ranks of a run: other ranks' fibers and data are in it.
bool concerns_the_judge(std::string_view symbol) {
  for (std::string_view word :
       {"7testing", "8lockstep5tools", "8lockstep3sim", "8lockstep5Fiber", "8lockstep6Fibers", "8lockstep11make_fibers",
        "8lockstep6Stacks", "8lockstep5Arena", "8lockstep9WorldBase", "8lockstep8RankBase", "8lockstep11PrivateData",
        "8lockstep13private_bytes", "8lockstep18start_private_data"}) {
    if (symbol.find(word) != symbol.npos) return true;
  }
  return false;
}

/// std::chrono's, each by the function that reads it: ranks of one process could tell each other something by it.
bool reads_a_clock(std::string_view symbol) { return symbol.find("_clock3nowEv") != symbol.npos; }

bool opens_files(std::string_view symbol) { return !opened_with(symbol).empty(); }

/// True for what the C++ library keeps for the whole program: a message from rank to rank that no ledger sees.
bool is_shared_by_ranks(std::string_view symbol) {
  for (std::string_view word : {"new_handler", "set_terminate", "get_terminate", "set_unexpected", "get_unexpected",
                                "ios_base6xalloc", "_M_grow_words", "locale6global", "sync_with_stdio", "call_once",
                                "random_device", "this_thread", "St6thread", "condition_variable", "memory_resource"}) {
    if (symbol.find(word) != symbol.npos) return true;
  }
  return false;
}

std::string readable(const std::string& symbol, const fs::path& folder) {
  const ConfinedEnd end = run_confined({.arguments = {"c++filt", symbol}, .folder = folder, .rules = Rules::reader});
  return end.output.substr(0, std::min<std::size_t>(end.output.find('\n'), 300));
}

std::string refused_symbol(const fs::path& object, const Declared& declared, std::string_view answer) {
  for (const std::string& line : lines_of(said_of({"nm", "--format=posix"}, object))) {
    std::istringstream fields(line);
    std::string symbol;
    char type = ' ';
    fields >> symbol >> type;
    if (type == 'i')
      return "it defines " + readable(symbol, object.parent_path()) + ", chosen before the program begins";
    const bool undefined = type == 'U' || type == 'w' || type == 'v';
    if (undefined && opens_files(symbol)) {
      const std::string with(opened_with(symbol));
      std::string at = named_at(answer, with);
      for (const char* stream : {"std::ifstream", "std::ofstream", "std::fstream", "std::filebuf"})
        if (at.empty()) at = named_at(answer, stream);
      return "it opens a file (" + with + ")" + at + ", which no answer needs";
    }
    if (undefined && reads_a_clock(symbol)) {
      std::string clock = readable(symbol, object.parent_path());
      clock.erase(std::min(clock.rfind("::now"), clock.size()));
      return "it reads a clock" + named_at(answer, clock) + ", which no answer needs (me.now() is its rank's)";
    }
    if (undefined && (!may_call(symbol) || !is_declared(symbol, declared))) {
      std::string called = readable(symbol, object.parent_path());
      called.erase(std::min(called.find("::_M_"), called.size()));  // the library's own name is not what was written
      return "it calls " + called + named_at(answer, called) + ", which no answer needs";
    }
  }
  return "";
}

std::string refused_code(const fs::path& object) {
  for (const std::string& line : lines_of(said_of({"objdump", "-d", "-h", "--no-show-raw-insn"}, object))) {
    if (line.find(".preinit_array") != line.npos) return "it holds code that would run before the program's own";
    auto colon = line.find(":\t");
    if (colon == line.npos) continue;
    std::string instruction = line.substr(colon + 2);
    for (std::string_view call : {"syscall", "sysenter", "int    $0x80", "svc\t"}) {
      if (instruction.starts_with(call)) return "it calls the kernel (" + instruction + ")";
    }
  }
  return "";
}

/// "x.o: a.cpp /usr/include/b\\ c.hpp \\⏎ d.hpp" → what follows the colon, in pieces.
std::vector<fs::path> files_in(const std::string& rule) {
  std::vector<fs::path> files;
  std::string file;
  for (std::size_t i = rule.find(": ") + 1; i > 0 && i < rule.size(); ++i) {
    if (rule[i] == '\\' && i + 1 < rule.size() && rule[i + 1] == '\n')
      ++i;
    else if (rule[i] == '\\' && i + 1 < rule.size())
      file += rule[++i];
    else if (rule[i] != ' ' && rule[i] != '\n')
      file += rule[i];
    else if (!file.empty())
      files.push_back(std::exchange(file, ""));
  }
  return files;
}

}  // namespace

std::string object_refused(const fs::path& object, const Declared& declared, std::string_view answer) {
  const std::string why = refused_symbol(object, declared, answer);
  return why.empty() ? refused_code(object) : why;
}

std::string include_refused(const Paths& paths, const fs::path& list, const fs::path& source) {
  bool itself = false;
  for (const fs::path& file : files_in(read_text(list))) {
    if (file == source)
      itself = true;
    else if (!may_include(paths, fs::weakly_canonical(file)))
      return "it includes " + told_file(paths, file, read_text(source)) + ", which is no header for answers";
  }
  return itself ? "" : "what it includes is not known";
}

std::string told_file(const Paths& paths, const fs::path& file, std::string_view answer) {
  const fs::path inside = fs::weakly_canonical(file).lexically_relative(fs::weakly_canonical(paths.source));
  if (!inside.empty() && *inside.begin() != "..") return inside.string();
  return answer.find(file.string()) != answer.npos ? file.string() : file.filename().string();
}

std::string named_at(std::string_view answer, std::string name) {
  name.erase(std::min(name.find_first_of("(<"), name.size()));
  while (!name.empty()) {
    const std::size_t begin = name.rfind(':') + 1;  // 0 where there is none
    const std::string word = name.substr(begin);
    Scanner scanner(word == "std" || word == "lockstep" ? "" : answer);
    int directive = 0;  // the line of one: an include is allowed
    for (Token token = scanner.next(); token.kind != Token::Kind::end; token = scanner.next()) {
      if (token.directive) directive = token.line;
      if (token.line != directive && token.word(word)) return fmt::format(" (line {})", token.line);
    }
    name.erase(begin < 2 ? 0 : begin - 2);
  }
  return "";
}

std::string_view opened_with(std::string_view symbol) {
  struct Name {
    std::string_view mangled, written;
  };
  for (const Name& name :
       {Name{"basic_ifstream", "std::ifstream"}, Name{"basic_ofstream", "std::ofstream"},
        Name{"basic_fstream", "std::fstream"}, Name{"basic_filebuf", "a stream such as std::ifstream"},
        Name{"__basic_file", "a stream such as std::ifstream"}, Name{"10filesystem", "std::filesystem"}}) {
    if (symbol.find(name.mangled) != symbol.npos) return name.written;
  }
  return "";
}

bool may_call(std::string_view symbol) {
  if (!symbol.starts_with("_Z"))
    return among(kCFunctions, symbol) || among(kCompilersArithmetic, symbol) || is_math(symbol) ||
           symbol.starts_with("__cxa_");
  if (concerns_the_judge(symbol) || opens_files(symbol) || is_shared_by_ranks(symbol)) return false;
  if (symbol.starts_with("_ZTI") || symbol.starts_with("_ZTS")) return true;
  for (std::string_view fine : {"_Znw", "_Zna", "_Zdl", "_Zda"}) {
    if (symbol.starts_with(fine)) return true;
  }
  std::string_view name = outermost(symbol);
  return in_std(name) || name.starts_with("8lockstep") || name.starts_with("9__gnu_cxx") ||
         name.starts_with("10__cxxabiv1") || name.starts_with("3fmt");
}

bool is_declared(std::string_view symbol, const Declared& declared) {
  std::string_view name = symbol.starts_with("_Z") ? outermost(symbol) : "";
  if (!name.starts_with("8lockstep")) return true;
  while (!name.empty() && std::isdigit(static_cast<unsigned char>(name[0]))) {
    std::size_t length = 0;
    for (; !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])); name.remove_prefix(1))
      length = 10 * length + static_cast<std::size_t>(name[0] - '0');
    if (!declared.contains(name.substr(0, length))) return false;
    name.remove_prefix(std::min(length, name.size()));
    if (name.starts_with("B5cxx11")) name.remove_prefix(7);
  }
  return true;
}

bool may_include(const Paths& paths, const fs::path& file) {
  fs::path source = fs::weakly_canonical(paths.source);
  fs::path inside = file.lexically_relative(source);
  if (inside.empty() || *inside.begin() == "..") {
    for (std::string_view system : {"/usr/", "/opt/", "/lib/", "/nix/"}) {
      if (file.string().starts_with(system)) return true;
    }
    return file.string().starts_with(fs::weakly_canonical(LOCKSTEP_LIBRARY_HEADERS).string() + "/");
  }
  std::string top = inside.begin()->string();
  const bool not_for_answers = std::any_of(inside.begin(), inside.end(), [](const fs::path& p) {
    return p == "testing" || p == "tests" || p == "backends" || p == "devices" || p == "fibers" ||
           p == "private_data.hpp";
  });
  return file.extension() == ".hpp" && (top == "labs" || (top == "common" && !not_for_answers));
}

}  // namespace lockstep::tools
