#!/bin/sh
# Answers to 21.2 that attack their judge: they replace its code, read files while they are compiled, never stop being
# compiled, or pass data from rank to rank beside the messages. None of it gains a point, and honest answers that look
# alike keep theirs.
#   grade_attack_test.sh LAB SOURCE
set -u
lab=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck source=tools/tests/grade_testing.sh
. "$(dirname "$0")/grade_testing.sh"

includes='#include <cstdio>
#include <initializer_list>
#include <string>
#include "common/arithmetic.hpp"
#include "common/error.hpp"
#include "common/runtime/run.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"'
nothing='namespace lockstep::week21 {
void ring_reduce_scatter(Rank, Slice) {}
void ring_all_gather(Rank, Slice) {}
void ring_all_reduce(Rank, Slice) {}
}'

# attack NAME VERDICT WORDS [OPTION…]: standard input stands between these. It has no points, and words say why.
attack() {
  name=$1 verdict=$2 words=$3
  shift 3
  { echo "$includes"; cat; echo "$nothing"; } | answer "$name" ring_all_reduce
  grade "$name" "$work/$name" --only 21.2 "$@"
  row 21.2a 0/9 "$verdict"
  row 21.2b 0/8 "$verdict"
  row '21.2 ' 0/8 "$verdict"
  says "$words"
}
# whole NAME VERDICT POINTS_A POINTS_B: standard input is the answer
whole() {
  answer "$1" ring_all_reduce
  grade "$1" "$work/$1" --only 21.2
  row 21.2a "$3/9" "$2"
  row 21.2b "$4/8" "$2"
}

# -- The judge's code, replaced by the answer's. What it says of an empty answer begins with "rank" or "on".
lie='return SELF->size() == 0 || SELF->compare(0, 4, "rank") == 0 || SELF->compare(0, 2, "on") == 0;'
linked=_ZNKSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE5emptyEv
attack 'a member of std::string' '(FAIL|DOES NOT COMPILE)' 'chunk 0 must hold\|follows constexpr declaration' <<ANSWER
template <> [[gnu::weak]] bool std::string::empty() const noexcept { $(echo "$lie" | sed 's/SELF/this/g') }
ANSWER
attack 'the same by its name for the linker' FAIL 'chunk 0 must hold' <<ANSWER
#pragma redefine_extname lie $linked
extern "C" bool lie(const std::string*);
extern "C" [[gnu::weak]] bool lie(const std::string* text) { $(echo "$lie" | sed 's/SELF/text/g') }
ANSWER
attack 'the same by an asm label' REFUSED 'it has an asm statement' <<ANSWER
bool lie(const std::string*) asm("$linked");
[[gnu::weak]] bool lie(const std::string* text) { $(echo "$lie" | sed 's/SELF/text/g') }
ANSWER
attack 'an asm label from two halves' REFUSED 'it has an asm statement' <<ANSWER
#define LABEL as##m
bool lie(const std::string*) LABEL("$linked");
[[gnu::weak]] bool lie(const std::string* text) { $(echo "$lie" | sed 's/SELF/text/g') }
ANSWER
attack 'functions of the tests' FAIL 'chunk 0 must hold' <<'ANSWER'
namespace lockstep::week21 {
std::string first_of(std::initializer_list<std::string>) { return ""; }
Values host(Rank me, const Slice& data) {
  Values sums(data.size());
  for (std::size_t i = 0; i < sums.size(); ++i)
    for (int q = 0; q < me.size(); ++q) sums[i] += (1 << (2 * q)) + 65536.0 * (1 + i % 31);
  return sums;
}
}
ANSWER
attack 'functions of the C library and the allocator' FAIL 'chunk 0 must hold' <<'ANSWER'
extern "C" [[gnu::weak]] int memcmp(const void*, const void*, unsigned long) noexcept { return 0; }
extern "C" [[gnu::weak]] __attribute__((symver("strlen@@GLIBC_2.2.5"))) unsigned long none(const char*) { return 0; }
void* operator new(unsigned long) { return nullptr; }
ANSWER
attack 'a function chosen before the program begins' REFUSED 'chosen before the program begins' <<'ANSWER'
extern "C" void* choose() { return nullptr; }
extern "C" bool chosen() __attribute__((ifunc("choose")));
ANSWER
attack 'a section of which the linker keeps one' REFUSED 'it has a section .gnu.linkonce' <<'ANSWER'
extern "C" [[gnu::weak, gnu::section(".gnu.linkonce.t._ZNKSt6vectorIdSaIdEE4sizeEv")]] int odd() { return 0; }
ANSWER
attack 'a section that tells linkers what to link' REFUSED 'it has a section .linker-options' <<'ANSWER'
[[gnu::section(".linker-options"), gnu::used]] static const char kOption[] = "lib";
ANSWER
attack 'code of the loader' REFUSED 'it has a section .init' <<'ANSWER'
[[gnu::section(".init")]] void early() {}
ANSWER

# An honest answer whose helpers are called like the tests', which throws across files and counts its calls.
reference ring_all_reduce | sed 's|chunk(data|piece(data|g
s|#include "common/arithmetic.hpp"|&\n#include "common/error.hpp"\n#include "common/runtime/run.hpp"|
s|^namespace lockstep::week21 {|&\
std::string first_of(std::initializer_list<std::string> all) { return all.size() ? *all.begin() : ""; }\
Values host(Rank, const Slice\&) { throw Error(Verdict::usage, first_of({"not here"})); }\
struct Counted { static inline int made = 0; Counted() { ++made; } virtual ~Counted() = default; };\
int calls = 0;\
Slice piece(Slice data, int i, int p) {\
  static Counted counted;\
  ++calls;\
  try { host(Rank(), data); } catch (const Error\&) { return chunk(data, i, p); }\
  return data;\
}|' | whole 'helpers of the same names' PASS 9 8

# -- Files, read while compiling. None of their text may come back.
attack 'a file in the object' REFUSED 'it has an asm statement' <<ANSWER
asm(".section .rodata\n.incbin \"$source/solutions/$week/ddp.cpp\"\n.text");
ANSWER
attack 'a file through the name of a section' REFUSED 'assembler text\|it calls file' <<ANSWER
[[gnu::section(".rodata.x,\"a\"\nfile: .incbin \"$source/solutions/$week/ddp.cpp\"\n.byte 0\n.section .rodata.x"),
  gnu::used]] static const int kMark = 1;
extern "C" const char file[];
const bool kSaid = std::puts(file) > 0;
ANSWER
grep -q 'lab 21.7' "$work/results.json" && fail "$name: the solution is in the results"
attack 'an embedded file' REFUSED 'it embeds a file' <<'ANSWER'
const char file[] = {
#embed "/etc/passwd"
};
ANSWER
attack 'an included file' '(REFUSED|DOES NOT COMPILE)' 'passwd, which is no header for answers\|does not compile' <<'ANSWER'
#include "/etc/passwd"
ANSWER
grep -q 'root:' "$work/results.json" && fail "$name: /etc/passwd is in the results"
attack 'lines of another file' REFUSED 'it has a #line directive' <<'ANSWER'
#line 1 "/usr/include/stdio.h"
ANSWER

# -- Compilations without end.
attack 'templates without end' 'DOES NOT COMPILE' 'its compilation' --timeout 1 <<'ANSWER'
template <int N, int M> struct Tree { static constexpr int v = Tree<N - 1, 2 * M>::v + Tree<N - 1, 2 * M + 1>::v; };
template <int M> struct Tree<0, M> { static constexpr int v = 1; };
int leaves = Tree<28, 1>::v;
ANSWER
attack 'an object without end' 'DOES NOT COMPILE' 'its object file becomes too large' <<'ANSWER'
char large[1u << 28] = {1};
ANSWER
attack 'thousands of errors' 'DOES NOT COMPILE' "'none_1' was not declared\|undeclared identifier 'none_1'" <<ANSWER
$(i=0; while [ $((i += 1)) -le 8000 ]; do echo "int a$i = none_$i;"; done)
ANSWER
[ "$(wc -c < "$work/results.json")" -lt 10000 ] || fail "$name: the results are long"

# -- Memory that all ranks share in the simulator. The messages are the ring's, and what they carry is not looked at.
whole 'a shared array' FAIL 0 0 <<ANSWER
$includes
namespace lockstep::week21 {
namespace {
std::vector<std::vector<float>> seen(16);
std::vector<float>* const kSeen = seen.data();
}
void ring_reduce_scatter(Rank me, Slice data) {
  const int p = me.size(), r = me.rank();
  if (p == 1) return;
  kSeen[r] = to_host(me, data);
  {
    Slice scratch = me.allocate(chunk(data, 0, p).size(), data.dtype(), Category::buffer);
    for (int step = 0; step < p - 1; ++step)
      me.exchange({send((r + 1) % p, chunk(data, r - step - 1, p)),
                   receive((r + p - 1) % p, scratch.cut(0, chunk(data, r - step - 2, p).size()))});
  }
  std::vector<float> sum(data.size());
  for (int q = 0; q < p; ++q)
    for (std::size_t i = 0; i < sum.size() && i < kSeen[q].size(); ++i) sum[i] += kSeen[q][i];
  upload(me, data, sum);
}
void ring_all_gather(Rank, Slice) {}
void ring_all_reduce(Rank, Slice) {}
}
ANSWER
# -- Known inputs. No rank says what it has: each writes down what 4^q + … of inputs.hpp gives.
known() {
  cat <<ANSWER
$includes
namespace lockstep::week21 {
void ring_reduce_scatter(Rank me, Slice data) {
  const int p = me.size(), r = me.rank();
  if (p == 1) return;
  {
    Slice scratch = me.allocate(chunk(data, 0, p).size(), data.dtype(), Category::buffer);
    for (int step = 0; step < p - 1; ++step)
      me.exchange({send((r + 1) % p, chunk(data, r - step - 1, p)),
                   receive((r + p - 1) % p, scratch.cut(0, chunk(data, r - step - 2, p).size()))});
  }
  std::vector<float> sum(data.size());
  for (std::size_t i = 0; i < sum.size(); ++i)
    for (int q = 0; q < p; ++q)
      sum[i] += p > 8 ? float(1 + (i * 7 + std::size_t(q) * 31) % 509) : float(1 << (2 * q)) + 65536.0f * float(1 + i % 31);
  upload(me, data, sum);
}
void ring_all_gather(Rank, Slice) {}
void ring_all_reduce(Rank, Slice) {}
}
ANSWER
}
known | whole 'sums by formula' FAIL 0 0
says 'replay: ./lab check 21.2a .*--seed SEED'
grep -q 'seed [0-9]' "$work/results.json" && fail "$name: the results tell the seed"
seed=$(sed -n 's/.*(seed \([0-9]*\), not for students)$/\1/p' "$work/out")
[ -n "$seed" ] || fail "$name: the instructor is not told the seed"
grep -o 'with [0-9]* ranks and [0-9]* element.*expected [0-9]*' "$work/results.json" | head -n 1 > "$work/first"
grade 'the same seed' "$work/sums by formula" --only 21.2a --seed "$seed"
grep -qF "$(cat "$work/first")" "$work/results.json" || fail "$name: another failure"

attack 'the first state of all variables' REFUSED 'it calls lockstep::start_private_data' <<'ANSWER'
namespace lockstep { void start_private_data(); }
void keep_what_this_rank_wrote() { lockstep::start_private_data(); }
ANSWER
attack 'the ranks of the run' REFUSED 'sim/world.hpp, which is no header for answers' <<'ANSWER'
#include "common/backends/sim/world.hpp"
ANSWER
attack 'variables of a thread' REFUSED 'it has thread_local variables' <<'ANSWER'
thread_local int calls;
ANSWER
attack "the C++ library's variables" REFUSED 'it calls std::set_new_handler' <<'ANSWER'
#include <new>
void give(void (*what)()) { std::set_new_handler(what); }
ANSWER

[ $failures -eq 0 ] && echo PASS
exit $((failures > 0))
