// The language of answers: everything that honest answers say is in it, and what reaches beyond them is not.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "common/support/json/document.hpp"
#include "tools/course/answer_language.hpp"
#include "tools/course/paths.hpp"

namespace lockstep::tools::language_test {
namespace {

namespace fs = std::filesystem;
const fs::path kSource = LOCKSTEP_SOURCE_DIR;

std::string said(std::string_view text) {
  const auto outside = outside_the_language(text);
  return outside ? outside->sentence() : "";
}

std::vector<fs::path> files_of(const char* folder, const char* extension) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(kSource / folder))
    if (entry.path().extension() == extension) files.push_back(entry.path());
  return files;
}

TEST(Language, TextInUtf16IsCalledSo) {
  for (const std::string mark : {"\xff\xfe", "\xfe\xff"})
    EXPECT_EQ(said(mark + "#i"), "line 1 begins text in UTF-16 (save the file as UTF-8), which no lab answer needs");
}

TEST(Language, ReferencesAlternativesAndPlausibleMistakesAreInIt) {
  int answers = 0, mistakes = 0;
  for (const char* folder : {"solutions", "tools/alternatives"})
    for (const fs::path& file : files_of(folder, ".cpp")) {
      const std::string text = read_text(file);
      if (text.find("#include \"solutions/") != text.npos) continue;  // parts of one, no answer as such
      EXPECT_EQ(said(text), "") << file;
      ++answers;
    }
  for (const fs::path& file : files_of("tools/mutants", ".json")) {
    const Json list = Json::parse(read_text(file));
    for (std::size_t i = 0; i < list.size(); ++i, ++mistakes)
      EXPECT_EQ(said(std::string(list[i].at("with"))), "") << file << " " << i;
  }
  EXPECT_GT(answers, 90);
  EXPECT_GT(mistakes, 900);
}

TEST(Language, WhatHonestAnswersMaySay) {
  for (const char* text :
       {"int asm_ = 1'000; // asm(\"nop\")", "/* asm */ const char* s = \"asm(\\\"nop\\\")\";",
        "auto s = R\"x(\n#line 1\nasm(\")x\";", "#if 0\n#endif", "#include <fstream>\n#include <string.h>\n",
        "#include \"labs/week21_data_parallel/ddp.hpp\"\n#include <fmt/format.h>",
        "[[maybe_unused]] [[nodiscard]] int x = a[b[1]];", "Foo(const Foo&) = delete;", "(void)unused;",
        "std::function<void(int)> f; int h(int) const; g([](int) { return 1; });",
        "for (const Launcher* l : {&kFirst, &kSecond}) use(*l); std::vector<double>* ends; float* own;",
        "x = static_cast<std::size_t>(p) * static_cast<const double>(q); static_cast<void>(q);",
        "using Row = std::vector<Foo*>; std::function<void(Foo*)> g; int h(Foo*); throw (what); case (a): z = (b);",
        "y = (a)(b) + (a) * b - (n) - 1; if (a) b(); z *= 3; w = a *b; v = sizeof(int) * 2; u = c bitand d;",
        "shape.free(); a->signal(3); const char* text = variables(\"RANK\"); char const* other;",
        "if ((a) or (b)) c();", "class Player { Player(int); }; template <class F> void f(F f) { f(1); }",
        "struct Block { int first; }; void free(Block& b); void raise(int); free(b), raise(1);",
        "std::priority_queue<int, std::vector<int>, decltype(later)> next(later); typedef std::vector<int> Row;",
        "using Size = std::size_t; x = static_cast<Size>(n); using Row = std::vector<float>; y = Row(5);",
        "if (i < n * p && r > (q - 1)) f(byte * 8, int(*best)); const int* best;",
        "template <class T> T zero() { return T(0); }", "z = __builtin_popcount(n); model.block(2);",
        "x = static_cast<float>(n * 2); std::max<int>(a, b); s.shares_memory_with(t); std::data(v); block(2);",
        "if (how.decay < decay) decay(1);", "auto f(int) -> int; bool operator()(int) const;",
        "const auto piece = v<:1:>;",
        // Pointers, and what looks like arithmetic on them.
        "double* best = nullptr; best = &x; *best += 2; y = *best + 1; if (!best || best->x < z.x) best = &v[0];",
        "for (auto* p : list) sum = sum + p->x, ++p->count, p->all[1] = a * b + n[2];",
        "struct Node { Node* next; std::vector<int> all; }; n = node.all[3] + node.next->all[2] - *node.next->best;",
        "RankStep* busy = &ranks[0]; i = busy - &ranks[0], j = busy - ranks.data();",
        "const char* name = 0; s = \"a\" + t + name; c = name[0];",
        "void f(const Foo* p, int n) { p->g(n); } void g(std::vector<int> p) { p[2] = p[1] + 1; }",
        "use([&](int i) { return v[i + 1]; }, (flags & kMask) + 1, f(&x, &Foo::y) - z, mean(&Foo::y) + z);",
        "std::span<float> all(v.data(), v.size()); std::span(&x, 1); std::next(v.begin(), 3); own[n] = text.data();",
        "if (x > *it) ++it; float* own[4] = {}; own[2] = own[1]; it[1] = it[2] + 1;",
        "namespace lockstep { namespace week21 { int ptr; } } namespace lockstep::week21 { int f(); } s = \"a\"s;"})
    EXPECT_EQ(said(text), "") << text;
}

struct Case {
  std::string_view text;
  const char* what;
};

TEST(Language, WhatReachesBeyondAnAnswerIsNamedWithItsLine) {
  for (const Case& c :
       {Case{"asm(\"nop\");", "1 has an asm statement"}, Case{"\nas\\\nm(\"nop\");", "2 has an asm statement"},
        Case{"x = 1'000; __asm__ volatile(\"\");", "1 has an asm statement"},
        Case{"auto s = R\"x( )x\\\n\" ... )x\"; asm(\"nop\");", "2 has an asm statement"},  // not joined in it
        Case{"R\"(\")\" ; __asm(\"\");", "1 has an asm"}, Case{"'\\'' asm(\"\");", "1 has an asm"},
        Case{"#include <a'b>\nasm(\"\");", "2 has an asm"},
        Case{"\n[[gnu::weak]] int f();", "2 has the attribute gnu::weak"},
        Case{"[[maybe_unused, gnu::weak]] int f();", "1 has the attribute gnu::weak"},
        Case{"<:<:using gnu: weak:>:> int f();", "1 has the attribute using"},
        Case{"__attribute__((weak)) int f();", "1 has __attribute__"}, Case{"#define X", "1 has a #define"},
        Case{"%:pragma X", "1 has a #pragma"}, Case{"#\\\nline 7\n", "2 has a #line"},
        Case{"# /* */ line 7", "1 has a #line"}, Case{"%: 7 \"x.hpp\"", "1 has a #7"},
        Case{"#embed \"/etc/passwd\"", "1 has a #embed"}, Case{"#include \"/etc/passwd\"", "1 includes /etc/passwd"},
        Case{"\n#include <unistd.h>", "2 includes unistd.h"},
        Case{"#include \"labs/../solutions/ddp.cpp\"", "1 includes labs/"},
        Case{"#include NAME\n", "1 has an #include of a macro"},
        Case{"p = reinterpret_cast<float*>(n);", "1 has reinterpret_cast"},
        Case{"const_cast<int&>(n);", "1 has const_cast"},
        Case{"p = static_cast<float*>(n);", "1 has a static_cast to something but a number"},
        Case{"p = (float)n;", "1 has a C cast"}, Case{"p = (Foo*)n;", "1 has a C cast"},
        Case{"p = (Foo*)(n);", "1 has a C cast"}, Case{"using P = Foo*;\nq = (P)(n);", "2 has a C cast"},
        Case{"template <class P> P as(P, long n) { throw (P)(n); }", "1 has a C cast"},
        Case{"using Number = long;\nn = (::Number)(&q);", "2 has a C cast"},
        Case{"p = (std::type_identity_t<Foo*>)(n);", "1 casts to a pointer"},
        Case{"p = (std::vector<float>::pointer)(n);", "1 has pointer"},
        Case{"std::chrono::steady_clock::now();", "1 has steady_clock"}, Case{"return (long)&n;", "1 has a C cast"},
        Case{"void* p;", "1 has a pointer to memory (void*)"},
        Case{"const std::byte* p;", "1 has a pointer to memory (byte*)"},
        Case{"char* p;", "1 has a pointer to memory (char*)"}, Case{"unsigned char* p;", "1 has a pointer to memory"},
        Case{"union { int i; float f; };", "1 has union"}, Case{"extern int x;", "1 has extern"},
        Case{"volatile int x;", "1 has volatile"}, Case{"goto *p;", "1 has goto"}, Case{"new (p) Foo;", "1 has new"},
        Case{"delete p;", "1 has delete"}, Case{"std::bit_cast<long>(p);", "1 has bit_cast"},
        Case{"std::memcpy(&p, &n, 8);", "1 has memcpy"}, Case{"stdout->_fileno = 5;", "1 has stdout"},
        Case{"f->_fileno = 5;", "1 has _fileno"}, Case{"me.backend().start();", "1 calls backend()"},
        Case{"namespace std {", "1 adds to namespace std"}, Case{"__builtin_trap();", "1 has __builtin_trap"},
        Case{"int \\u0061;", "1 has a \\"}, Case{"template <class P> P as(P, long n) { return P(n); }", "1 casts to P"},
        Case{"p = std::conditional_t<true, float*, int>(n);", "1 casts to a pointer"},
        Case{"using P = float*;\nauto p = P(n);", "2 casts to P"},
        Case{"typedef float* P;", "1 has another name for a pointer"},
        Case{"auto p = decltype(q)(n);", "1 casts by decltype"},
        Case{"using P = decltype(q);\nauto p = P(n);", "2 casts to P"},
        Case{"template struct Rob<&Slice::data>;", "1 instantiates a template by its name"},
        Case{"use(&Slice::data);", "1 reaches into Slice"}, Case{"s.block();", "1 calls block()"},
        Case{"#include \"common/runtime/run.hpp\"", "1 includes common/runtime/run.hpp"},
        Case{"#include \"labs/week21_data_parallel/ddp_testing.hpp\"", "1 includes labs/"},
        Case{"auto p = std::make_unique_for_overwrite<float[]>(9);", "1 has make_unique_for_overwrite"},
        Case{"std::cout.rdbuf();", "1 has rdbuf"},
        // The end of a comment, a literal or a line is not where it seems to be.
        Case{"auto s = \"\"R\"(\"; asm(\"nop\"); auto t = \"\"R\")\";", "1 has an asm statement"},
        Case{"#include <vector> /*\nR\"( */\n#define X", "3 has a #define"},
        Case{"#include /* \"labs/a.hpp\" */ <unistd.h>", "1 has an #include of a macro"},
        Case{std::string_view("\0#define X", 10), "1 has a #define"}, Case{"\xef\xbb\xbf#define X", "1 has a #define"},
        Case{"// \\\f\nR\"(\n#define X", "3 has a #define"}, Case{"FMT_GCC_PRAGMA(\"weak f\")", "1 has FMT_GCC_PRAGMA"},
        // Casts and memory by other names.
        Case{"std::reinterpret_pointer_cast<Foo>(p);", "1 has reinterpret_pointer_cast"},
        Case{"std::coroutine_handle<Foo>::from_address(&x).promise();", "1 has coroutine_handle"},
        Case{"std::as_writable_bytes(std::span(&x, 1));", "1 has as_writable_bytes"},
        Case{"std::pmr::monotonic_buffer_resource pool(&x, 8);", "1 has pmr"},
        Case{"template <> struct Name<Rob<&lockstep::Slice::size_>::type> {};", "1 reaches into Slice"},
        // Names of ours.
        Case{"namespace lockstep {\nint f();\n}", "1 declares something in namespace lockstep itself"},
        Case{"namespace lockstep { namespace week21 {} struct Slice {}; }", "1 declares something"},
        Case{"inline namespace [[deprecated]] lockstep { struct Slice {}; }", "1 declares something"},
        Case{"class lockstep::Slice {};", "1 defines something in namespace lockstep itself"},
        Case{"namespace [[deprecated]] std {", "1 adds to namespace std"},
        // Arithmetic on pointers.
        Case{"Link* const link = links[0];\nlink[n] = 1;", "2 indexes the pointer link"},
        Case{"two = twos[0]; Two* t = two;\nt = t - 1;", "2 has arithmetic on the pointer t"},
        Case{"void f(Foo* p) { ++p; }", "1 has arithmetic on the pointer p"},
        Case{"void f(const std::vector<Foo>* p) { use(*p++); }", "1 has arithmetic on the pointer p"},
        Case{"struct Foo {\nFoo* to; };\nfoo.to += n;", "3 has arithmetic on the pointer to"},
        Case{"auto p = &x;\nuse(n + p);", "2 has arithmetic on the pointer p"},
        Case{"auto p{v.data()};\np[1];", "2 indexes the pointer p"},
        Case{"using P = const Foo*;\nP const p = &x; use(p[1]);", "2 indexes the pointer p"},
        Case{"[p = &x] { return p[1]; };", "1 indexes the pointer p"},
        Case{"const char* text = s.c_str(); use(text[n]);", "1 indexes the pointer text"},
        Case{"use(*(&x + n));", "1 has arithmetic on an address"},
        Case{"y = (&v[0])[n];", "1 has arithmetic on an address"},
        Case{"use(v.data() + n);", "1 has arithmetic on the address that data() returns"},
        Case{"use(std::data(v)[n]);", "1 has arithmetic on the address that data() returns"},
        Case{"std::span<Foo> all(&x, n);", "1 gives an address to span"},
        Case{"const auto s = std::string_view{t.c_str(), n};", "1 gives an address to string_view"},
        Case{"Foo* p = &x; use(*std::next(p));", "1 gives an address to next"}})
    EXPECT_EQ(said(c.text).find("line " + std::string(c.what)), 0u) << c.text << "\n" << said(c.text);
}

TEST(Language, NoTextTakesLong) {
  for (const std::string_view piece : {"[", "typedef ", "decltype(", "using x = ", "a<", "R\"x(", "class x,", "\\ ",
                                       "f((", "Foo* p; ", "&a.b(", "span<", "namespace lockstep {"}) {
    std::string text;
    while (text.size() < 64 * 1024) text += piece;
    (void)outside_the_language(text);  // in seconds, and not in hours, which no test would wait for
  }
}

TEST(Language, SomeOfItIsWorthAPersonsLook) {
  const auto count = [](std::string_view text) { return worth_a_look(text).size(); };
  EXPECT_EQ(count("std::uintptr_t n; fmt::print(\"{}\", fmt::ptr(p));"), 2u);
  EXPECT_EQ(count("try { f(); } catch (...) {}"), 1u);
  EXPECT_EQ(count("namespace lockstep::week21 { int ptr; }"), 0u);
  for (const fs::path& file : files_of("solutions", ".cpp")) {
    const bool given = file.parent_path().filename() == "given";
    EXPECT_TRUE(given || count(read_text(file)) == 0) << file;
  }
}

TEST(Language, OfThePreprocessedTextTheAnswersOwnLinesCount) {
  const auto said_of = [](const std::string& text) {
    const auto outside = outside_once_preprocessed(text, "a.cpp");
    return outside ? outside->sentence() : "";
  };
  const std::string header = "# 1 \"a.cpp\"\n# 1 \"/usr/include/x.h\" 1 3 4\nint f() __asm__(\"g\");\n";
  EXPECT_EQ(said_of(header + "# 2 \"a.cpp\" 2\nint x;\n"), "");
  EXPECT_EQ(said_of(header + "# 2 \"a.cpp\" 2\nint x;\nasm(\"nop\");\n"),
            "line 3 has an asm statement or label, which no lab answer needs");
  EXPECT_NE(said_of(header + "# 2 \"a.cpp\" 2\nauto s = R\"(\n# 1 \"x.h\"\n)\"; asm(\"nop\");\n"), "");
  EXPECT_NE(said_of("# 0 \"a.cpp\"\n" + header + "# 2 \"a.cpp\" 2\nasm(\"nop\");\n"), "");  // as GCC begins since 11
  EXPECT_NE(said_of(header + "# 2 \"a.cpp\" 2\nint y;\n" + header + "# 9 \"a.cpp\" 2\nunion U {};\n"), "");
  // A macro of the system's, such as that of errno, writes the words in the middle, and the answer's own follow behind
  // it.
  EXPECT_EQ(said_of("# 2 \"a.cpp\"\nint e =\n# 2 \"a.cpp\" 3 4\n(*(void*)0)\n# 2 \"a.cpp\"\n;\n"), "");
  EXPECT_NE(said_of("# 2 \"a.cpp\"\nint e =\n# 2 \"a.cpp\" 3 4\n(0)\n# 2 \"a.cpp\"\n; goto a;\n"), "");
}

TEST(Language, AnIncludeWithinBracesIsSeenInThePreprocessedText) {
  const auto said_of = [](const std::string& text) {
    const auto outside = outside_once_preprocessed(text, "a.cpp");
    return outside ? outside->what : "";
  };
  const std::string header = "# 1 \"common/rank.hpp\" 1\nclass Rank;\n# 2 \"a.cpp\" 2\n";
  EXPECT_EQ(said_of("# 1 \"a.cpp\"\n" + header + "namespace a {\nint x;\n}\n"), "");
  EXPECT_EQ(said_of("# 1 \"a.cpp\"\nnamespace a {\n" + header + "}\n"), "has an #include within braces");
  EXPECT_EQ(said_of("# 1 \"a.cpp\"\n#pragma weak f\n"), "has a #pragma");
}

TEST(Language, AMacroOfTheAnswersIsSeenWhereTheCompilerSaysIt) {
  std::string text = "# 1 \"a.cpp\"\n# 1 \"x.h\" 1\n#define OF_X 1\nint x;\n# 2 \"a.cpp\" 2\nint y;\n";
  const std::string kept = "# 1 \"a.cpp\"\n# 1 \"x.h\" 1\n\nint x;\n# 2 \"a.cpp\" 2\nint y;\n";
  EXPECT_FALSE(take_out_macros(text, "a.cpp"));
  EXPECT_EQ(text, kept);
  text += "#define private public\n";
  const auto macro = take_out_macros(text, "a.cpp");
  ASSERT_TRUE(macro);
  EXPECT_EQ(macro->sentence(), "line 3 has a #define, which no lab answer needs");
  EXPECT_EQ(text, kept + "\n");
}

}  // namespace
}  // namespace lockstep::tools::language_test
