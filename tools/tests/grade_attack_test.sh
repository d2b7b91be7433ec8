#!/bin/sh
# Answers to 21.2 that attack their judge: they replace its code, read files while they are compiled, never stop being
# compiled, pass data from rank to rank outside the messages, reach for memory, prices and names of the runtime, or hide
# their constructs from readers of their text. None of it gains a point, and honest answers that look similar keep theirs.
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
#include <vector>
#include "labs/week21_data_parallel/ring_all_reduce.hpp"'
nothing='namespace lockstep::week21 {
void ring_reduce_scatter(Rank, Slice) {}
void ring_all_gather(Rank, Slice) {}
void ring_all_reduce(Rank, Slice) {}
}'

# attack NAME LANGUAGE VERDICT WORDS [OPTION…]: standard input stands between these. It has no points: LANGUAGE is the
# construct for which its text is refused, "-" where there is none, and the rest what becomes of it if its text is not
# read; VERDICT is "-" where that depends on what lies in memory.
attack() {
  name=$1 language=$2 verdict=$3 reason=$4
  shift 4
  { echo "$includes"; cat; echo "$nothing"; } | answer "$name" ring_all_reduce
  if [ "$language" != - ]; then
    grade "$name" "$work/$name" --only 21.2 "$@"
    row '21.2 ' 0/8 REFUSED
    says "line [0-9]* $language, which no lab answer needs"
  fi
  [ "$verdict" != - ] || return 0
  grade "$name" "$work/$name" --only 21.2 --without-language "$@"
  row 21.2a 0/9 "$verdict"
  row 21.2b 0/8 "$verdict"
  row '21.2 ' 0/8 "$verdict"
  says "$reason"
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
attack 'a member of std::string' 'has the attribute gnu::weak' '(FAIL|DOES NOT COMPILE)' 'chunk 0 must hold\|follows constexpr declaration' <<ANSWER
template <> [[gnu::weak]] bool std::string::empty() const noexcept { $(echo "$lie" | sed 's/SELF/this/g') }
ANSWER
attack 'the same by its name for the linker' 'has a #pragma' FAIL 'chunk 0 must hold' <<ANSWER
#pragma redefine_extname lie $linked
extern "C" bool lie(const std::string*);
extern "C" [[gnu::weak]] bool lie(const std::string* text) { $(echo "$lie" | sed 's/SELF/text/g') }
ANSWER
attack 'the same by an asm label' 'has an asm statement or label' FAIL 'chunk 0 must hold' <<ANSWER
bool lie(const std::string*) asm("$linked");
[[gnu::weak]] bool lie(const std::string* text) { $(echo "$lie" | sed 's/SELF/text/g') }
ANSWER
attack 'an asm label from two halves' 'has a #define' FAIL 'chunk 0 must hold' <<ANSWER
#define LABEL as##m
bool lie(const std::string*) LABEL("$linked");
[[gnu::weak]] bool lie(const std::string* text) { $(echo "$lie" | sed 's/SELF/text/g') }
ANSWER
attack 'functions of the tests' - FAIL 'chunk 0 must hold' <<'ANSWER'
namespace lockstep::week21 {
std::string first_of(std::initializer_list<std::string>) { return ""; }
std::vector<double> host(Rank me, const Slice& data) {
  std::vector<double> sums(data.size());
  for (std::size_t i = 0; i < sums.size(); ++i)
    for (int q = 0; q < me.size(); ++q) sums[i] += (1 << (2 * q)) + 65536.0 * (1 + i % 31);
  return sums;
}
}
ANSWER
attack 'functions of the C library and the allocator' 'has extern' FAIL 'chunk 0 must hold' <<'ANSWER'
extern "C" [[gnu::weak]] int memcmp(const void*, const void*, unsigned long) noexcept { return 0; }
extern "C" [[gnu::weak]] __attribute__((symver("strlen@@GLIBC_2.2.5"))) unsigned long none(const char*) { return 0; }
void* operator new(unsigned long) { return nullptr; }
ANSWER
attack 'a function chosen before the program begins' 'has extern' REFUSED 'chosen before the program begins' <<'ANSWER'
extern "C" void* choose() { return nullptr; }
extern "C" bool chosen() __attribute__((ifunc("choose")));
ANSWER
attack 'a section of which the linker keeps one' 'has extern' REFUSED 'it has a section .gnu.linkonce' <<'ANSWER'
extern "C" [[gnu::weak, gnu::section(".gnu.linkonce.t._ZNKSt6vectorIdSaIdEE4sizeEv")]] int odd() { return 0; }
ANSWER
attack 'a section that tells linkers what to link' 'has the attribute gnu::section' REFUSED 'it has a section .linker-options' <<'ANSWER'
[[gnu::section(".linker-options"), gnu::used]] static const char kOption[] = "lib";
ANSWER
attack 'code of the loader' 'has the attribute gnu::section' REFUSED 'it has a section .init' <<'ANSWER'
[[gnu::section(".init")]] void early() {}
ANSWER

# An honest answer whose helpers are called like the tests', which throws across files and counts its calls.
reference ring_all_reduce | sed 's|chunk(data|piece(data|g
s|#include "common/arithmetic.hpp"|&\n#include "common/error.hpp"\n#include <string>\n#include <vector>|
s|^namespace lockstep::week21 {|&\
std::string first_of(std::initializer_list<std::string> all) { return all.size() ? *all.begin() : ""; }\
std::vector<double> host(Rank, const Slice\&) { throw Error(Verdict::usage, first_of({"not here"})); }\
struct Counted { static inline int made = 0; Counted() { ++made; } virtual ~Counted() = default; };\
int calls = 0;\
Slice piece(Slice data, int i, int p) {\
  static Counted counted;\
  ++calls;\
  try { host(Rank(), data); } catch (const Error\&) { return chunk(data, i, p); }\
  return data;\
}|' | whole 'helpers of the same names' PASS 9 8

# -- Files, read while compiling. None of their text may come back.
attack 'a file in the object' 'has an asm statement or label' REFUSED 'assembler text' <<ANSWER
asm(".section .rodata\n.incbin \"$source/solutions/$week/ddp.cpp\"\n.text");
ANSWER
attack 'a file through the name of a section' 'has the attribute gnu::section' REFUSED 'assembler text\|it calls file' <<ANSWER
[[gnu::section(".rodata.x,\"a\"\nfile: .incbin \"$source/solutions/$week/ddp.cpp\"\n.byte 0\n.section .rodata.x"),
  gnu::used]] static const int kMark = 1;
extern "C" const char file[];
const bool kSaid = std::puts(file) > 0;
ANSWER
grep -q 'lab 21.7' "$work/results.json" && fail "$name: the solution is in the results"
attack 'an embedded file' 'has a #embed' 'DOES NOT COMPILE' 'does not compile' <<'ANSWER'
const char file[] = {
#embed "/etc/passwd"
};
ANSWER
attack 'an included file' 'includes /etc/passwd' '(REFUSED|DOES NOT COMPILE)' 'passwd, which is no header for answers\|does not compile' <<'ANSWER'
#include "/etc/passwd"
ANSWER
grep -q 'root:' "$work/results.json" && fail "$name: /etc/passwd is in the results"
attack 'lines of another file' 'has a #line' FAIL 'chunk 0 must hold' <<'ANSWER'
#line 1 "/usr/include/stdio.h"
ANSWER

# -- Compilations without end.
attack 'templates without end' - 'DOES NOT COMPILE' 'its compilation' --timeout 1 <<'ANSWER'
template <int N, int M> struct Tree { static constexpr int v = Tree<N - 1, 2 * M>::v + Tree<N - 1, 2 * M + 1>::v; };
template <int M> struct Tree<0, M> { static constexpr int v = 1; };
int leaves = Tree<28, 1>::v;
ANSWER
attack 'an object without end' - 'DOES NOT COMPILE' 'its object file becomes too large' <<'ANSWER'
char large[1u << 28] = {1};
ANSWER
attack 'thousands of errors' - 'DOES NOT COMPILE' "'none_1' was not declared\|undeclared identifier 'none_1'" <<ANSWER
$(i=0; while [ $((i += 1)) -le 8000 ]; do echo "int a$i = none_$i;"; done)
ANSWER
[ "$(wc -c < "$work/results.json")" -lt 10000 ] || fail "$name: the results are long"

# -- Memory that all ranks share in the simulator. The messages are the ring's, and what they carry is not looked at.
whole 'a shared array' FAIL 0 0 <<ANSWER
$includes
namespace lockstep::week21 {
namespace {
using Address = std::uintptr_t;  // worth a person's look
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
says '"21.2: line 10 makes a number or text of an address (uintptr_t)"'
# The same through memory that each rank gives back, in a size of its own, and that the others are given.
whole 'memory given back' FAIL 0 0 <<ANSWER
$includes
namespace lockstep::week21 {
namespace {
std::size_t room(int rank) { return 220 + 4 * static_cast<std::size_t>(rank); }
void leave(int rank, const std::vector<float>& values) {
  std::vector<float> left;
  left.reserve(room(rank));
  left.resize(8);
  left.insert(left.end(), values.begin(), values.end());
}
std::vector<float> left_by(int rank, std::size_t size) {
  std::vector<float> found;
  found.reserve(room(rank));
  return {found.begin() + 8, found.begin() + 8 + static_cast<long>(size)};
}
}
void ring_reduce_scatter(Rank me, Slice data) {
  const int p = me.size(), r = me.rank();
  if (p == 1) return;
  leave(r, to_host(me, data));
  {
    Slice scratch = me.allocate(chunk(data, 0, p).size(), data.dtype(), Category::buffer);
    for (int step = 0; step < p - 1; ++step)
      me.exchange({send((r + 1) % p, chunk(data, r - step - 1, p)),
                   receive((r + p - 1) % p, scratch.cut(0, chunk(data, r - step - 2, p).size()))});
  }
  std::vector<float> sum(data.size());
  for (int q = 0; q < p; ++q) {
    const std::vector<float> other = left_by(q, sum.size());
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
  }
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

attack 'the first state of all variables' 'declares something in namespace lockstep itself' REFUSED 'it calls lockstep::start_private_data' <<'ANSWER'
namespace lockstep { void start_private_data(); }
void keep_what_this_rank_wrote() { lockstep::start_private_data(); }
ANSWER
attack 'the ranks of the run' 'includes common/backends/sim/world.hpp' REFUSED 'sim/world.hpp, which is no header for answers' <<'ANSWER'
#include "common/backends/sim/world.hpp"
ANSWER
attack 'variables of a thread' 'has thread_local' REFUSED 'it has thread_local variables' <<'ANSWER'
thread_local int calls;
ANSWER
attack "the C++ library's variables" - REFUSED 'it calls std::set_new_handler' <<'ANSWER'
#include <new>
void give(void (*what)()) { std::set_new_handler(what); }
ANSWER

# -- Memory, prices and names of the runtime.
attack 'a slice put together by hand' - 'DOES NOT COMPILE' 'private' <<'ANSWER'
lockstep::Slice scratch(std::vector<float>& own, lockstep::Block& block) {
  block.data = own.data(), block.bytes = 4 * own.size();
  return lockstep::Slice(block);
}
ANSWER
attack "a rank's backend" 'includes common/runtime/backend.hpp' 'DOES NOT COMPILE' 'private' <<'ANSWER'
#include "common/runtime/backend.hpp"
double time_of(lockstep::Rank me) { return me.backend().now(0); }
ANSWER
# Private members are not private once they are called public; and an explicit instantiation may name them.
{
  echo '#define private public'
  cat <<'ANSWER'
#include "common/arithmetic.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"
namespace lockstep::week21 {
namespace {
struct Nobody : BlockOwner { void release(Block&) override {} } nobody;
}
void ring_reduce_scatter(Rank me, Slice data) {
  if (me.size() == 1) return;
  std::vector<float> own(data.size());
  Block block;
  block.data = own.data(), block.bytes = 4 * own.size(), block.owner = &nobody;
  me.exchange({send((me.rank() + 1) % me.size(), data), receive((me.rank() + me.size() - 1) % me.size(), Slice(block))});
}
void ring_all_gather(Rank, Slice) {}
void ring_all_reduce(Rank, Slice) {}
}
ANSWER
} | answer 'memory that no ledger counts' ring_all_reduce
grade 'memory that no ledger counts' "$work/memory that no ledger counts" --only 21.2
row 21.2a 0/9 REFUSED
says 'line 1 has a #define'
grade 'memory that no ledger counts' "$work/memory that no ledger counts" --only 21.2 --without-language
row 21.2a 0/9 USAGE
says 'memory that no rank has allocated'
{
  cat <<'ANSWER'
#include "common/arithmetic.hpp"
#include "common/runtime/backend.hpp"
#include "common/runtime/machine/operation.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"
namespace {
template <auto Member> struct Rob { friend auto robbed(int) { return Member; } };
auto robbed(int);
template struct Rob<&lockstep::Rank::backend>;
}
namespace lockstep::week21 {
void ring_reduce_scatter(Rank me, Slice) {
  (me.*robbed(0))().compute({0, 0}, {.name = "gift", .flop = -1e15, .bytes = -1e15}, Kernel([](Device&) {}), Location::current());
}
void ring_all_gather(Rank, Slice) {}
void ring_all_reduce(Rank, Slice) {}
}
ANSWER
} | answer 'time that runs backwards' ring_all_reduce
grade 'time that runs backwards' "$work/time that runs backwards" --only 21.2
row 21.2a 0/9 REFUSED
grade 'time that runs backwards' "$work/time that runs backwards" --only 21.2 --without-language
row 21.2a 0/9 USAGE
says 'finite and not negative'
attack 'a function of the runtime, declared by hand' 'declares something in namespace lockstep itself' REFUSED 'it calls lockstep::symmetric_group' <<'ANSWER'
namespace lockstep { Rank symmetric_group(Rank me, int size, int level, double share); }
lockstep::Rank alone(lockstep::Rank me) { return lockstep::symmetric_group(me, 1000, 0, 1); }
ANSWER
# The message of the other one has 5 MB.
whole 'an error whose verdict is a pass, or none that there is' FAIL 0 0 <<ANSWER
$includes
namespace lockstep::week21 {
void ring_reduce_scatter(Rank, Slice) { throw Error(Verdict::pass, "Everything is done"); }
void ring_all_gather(Rank, Slice) { throw Error(Verdict{200}, "Everything is done"); }
void ring_all_reduce(Rank, Slice) { throw Error(Verdict::fail, std::string(5 << 20, 'x')); }
}
ANSWER
row '21.2 ' 0/8 'NO VERDICT'
says 'Everything is done' 'its messages have more than 4194304 bytes'
attack "a stream's number, so that a line is sealed" 'has stdout' 'NO VERDICT' 'secret\|before its tests were over' <<'ANSWER'
const bool kSealed = [] {
  for (int number = 5; number < 12; ++number) {
    stdout->_fileno = number;
    std::printf("00000000000000000000000000000000 passed 9 failed 0 skipped 0 virtual 1e-4\n");
    std::fflush(stdout);
  }
  return true;
}();
ANSWER
attack 'a function at an address' 'has bit_cast' - - <<'ANSWER'
#include <bit>
void leave() { std::bit_cast<void (*)()>(0x401000l)(); }
ANSWER
attack 'the same by a template' 'casts to F' - - <<'ANSWER'
template <class F> F at(F, long address) { return F(address); }
void leave() { at(+[] {}, 0x401000)(); }
ANSWER
attack 'the same by a name for the type' 'casts to Floats' - - <<'ANSWER'
using Floats = float*;
float secret(long address) { return *Floats(address); }
ANSWER
attack 'two types in one place' 'has union' - - <<'ANSWER'
union Place { long number; float* pointer; };
ANSWER
attack 'memory that another rank has given back' 'has make_unique_for_overwrite' - - <<'ANSWER'
#include <memory>
float of_another(std::size_t size) { return std::make_unique_for_overwrite<float[]>(size)[0]; }
ANSWER
attack 'a stream buffer for all ranks' 'has rdbuf' - - <<'ANSWER'
#include <iostream>
int heard() { return std::cout.rdbuf()->sgetc(); }
ANSWER

attack 'a cast by another name' 'has reinterpret_pointer_cast' - - <<'ANSWER'
#include <memory>
struct Open { float* data; };
Open& opened(std::shared_ptr<lockstep::Slice> slice) { return *std::reinterpret_pointer_cast<Open>(slice); }
ANSWER
attack 'a handle as a coroutine' 'has coroutine_handle' - - <<'ANSWER'
#include <coroutine>
struct Open { float* data; };
Open& opened(lockstep::Slice& slice) { return std::coroutine_handle<Open>::from_address(&slice).promise(); }
ANSWER
attack 'a handle as memory for other objects' 'has pmr' - - <<'ANSWER'
#include <memory_resource>
void open(lockstep::Slice& slice) { std::pmr::monotonic_buffer_resource pool(&slice, sizeof slice); }
ANSWER
attack 'what is private, in an explicit specialisation' 'reaches into Slice' - - <<'ANSWER'
template <auto Member> struct Rob { friend auto robbed(int) { return Member; } using type = int; };
auto robbed(int);
template <class T> struct Name {};
template <> struct Name<Rob<&lockstep::Slice::block_>::type> {};
lockstep::Block& opened(lockstep::Slice& slice) { return *(slice.*robbed(0)); }
ANSWER
attack 'a view of what lies behind a text' 'gives an address to string_view' - - <<'ANSWER'
#include <string_view>
bool heard(const std::string& own) { return std::string_view(own.c_str(), 1 << 17).find("rank 1 has") < 1 << 17; }
ANSWER

# -- Text that compilers read otherwise than it looks; and our classes again, all public, with the true ones elsewhere.
attack 'a string with a suffix, which is no raw string' 'has reinterpret_cast' - - <<'ANSWER'
constexpr int operator""R(const char*, std::size_t) { return 0; }
const int kBegin = ""R"(";
float* secret(long address) { return reinterpret_cast<float*>(address); }
const int kEnd = ""R")";
ANSWER
attack 'a macro behind what is blank to compilers only' 'has a #define' - - <<ANSWER
$(printf '// \\\f\nR"(\n#define private public\n//)"')
ANSWER
attack 'a header within a namespace' 'has an #include within braces' - - <<'ANSWER'
namespace elsewhere {
#include "common/gpt/pipeline/schedule.hpp"
}
ANSWER

# -- A scratch of the whole array, in a category past the ledger's arrays, which took it out of the peak again.
reference ring_all_reduce | sed 's|chunk(data, 0, p).size(), data.dtype(), Category::buffer|data.size(), data.dtype(), Category{11}|' |
  answer 'no category' ring_all_reduce
grade 'no category' "$work/no category" --only 21.2
row 21.2a 0/9 USAGE
says 'there is no such dtype or category'

# -- GoogleTest's own code, so that no failure counts: the seal is the program's, and what runs and calls hand over is
# judged in a process that nobody has touched.
silent() {
  cat <<'ANSWER'
#include <sys/mman.h>
#include <cstring>
extern "C" void fails() asm("_ZNK7testing8internal12AssertHelperaSERKNS_7MessageE");
const bool kSilent = [] {
  char* code = reinterpret_cast<char*>(&fails);
  char* page = code - reinterpret_cast<unsigned long>(code) % 4096;
  mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC);
#ifdef __x86_64__
  std::memcpy(code, "\xc3", 1);  // ret
#else
  std::memcpy(code, "\xc0\x03\x5f\xd6", 4);
  __builtin___clear_cache(code, code + 4);
#endif
  return true;
}();
ANSWER
}
# silenced NAME EXERCISE ROW POINTS: standard input is the answer's functions, which do nothing
silenced() {
  { echo "$includes" && silent && cat; } | answer "$1" "$2"
  grade "$1" "$work/$1" --only "$3" --without-look
  row "$3" "$4" 'NO VERDICT'
  says 'not when judged from the outcomes that it handed over'
}
echo "$nothing" | silenced 'runs that cannot fail' ring_all_reduce 21.2a 0/9
silenced 'formulas that cannot fail' scaling_laws 21.10 0/10 <<'ANSWER'
#include "labs/week21_data_parallel/scaling_laws.hpp"
namespace lockstep::week21 {
double speedup(double, double) { return 0; }
double efficiency(double, double, int) { return 0; }
double weak_efficiency(double, double) { return 0; }
double amdahl_speedup(double, int) { return 0; }
double gustafson_speedup(double, int) { return 0; }
double karp_flatt(double, int) { return 0; }
SerialFraction fit_amdahl(const std::vector<Measurement>&) { return {}; }
}
ANSWER
week=week25_3d
silenced 'a mesh that cannot fail' mesh 25.1b 0/4 <<'ANSWER'
#include "labs/week25_3d/mesh.hpp"
namespace lockstep::week25 {
int rank_of(const MeshShape&, const AxisOrder&, const Coordinate&) { return 0; }
Coordinate coordinate_of(const MeshShape&, const AxisOrder&, int) { return {}; }
Mesh make_mesh(Rank, const MeshShape&, const AxisOrder&) { return {}; }
int slowest_level(const Machine&, const MeshShape&, const AxisOrder&, Axis) { return 0; }
AxisParts divide_axis(Rank, int) { return {}; }
int slowest_level_inside(const Machine&, const MeshShape&, const AxisOrder&, Axis, int) { return 0; }
}
ANSWER
week=week21_data_parallel

# -- An index outside of an array reads and writes memory that is not the answer's.
reference ring_all_reduce | sed 's|^void ring_reduce_scatter(Rank me, Slice data) {|int known[4];\
&\
  if (known[3 + me.size()] != 0) return;|' | answer 'an index outside of an array' ring_all_reduce
grade 'an index outside of an array' "$work/an index outside of an array" --only 21.2a
row 21.2a 0/9 CRASH
says 'an index outside of an array'

# -- The tests' options, so that only cases of one rank are left after the first test: reached by an index out of bounds.
# What it sends and holds is not a ring's.
answer 'tests of one rank' ring_all_reduce <<'ANSWER'
#include <vector>

#include "common/arithmetic.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::week21 {
namespace {

struct Link {
  Link* to;
};
struct Two {
  int first, second;
};
struct Own {
  Link link;
  Two two;
} own;

/// The tests' options lie in the same memory as `own`. Their empty text points at itself, 8 words behind their ranks.
void only_one_rank() {
  static bool done = false;
  if (done) return;
  done = true;
  const std::vector<Link*> links{&own.link};
  const std::vector<Two*> twos{&own.two};
  Link* const link = links[0];
  Two* const two = twos[0] - 1;
  for (int way : {-1, 1})
    for (int i = 0; i != way * 8000; i += way) {
      Link* const at = link + i;
      if (at[8].to != at + 10 || at[9].to || at[0].to || at[7].to || two[i + 6].first % 256 != 1) continue;
      two[i].first = 1, two[i].second = 1;
      return;
    }
}

}  // namespace

void ring_reduce_scatter(Rank me, Slice data) {
  only_one_rank();
  const int p = me.size(), r = me.rank();
  for (int i = 1; i < p; ++i) {
    Slice other = me.allocate(chunk(data, r, p).size(), data.dtype(), Category::buffer);
    me.exchange({send((r + i) % p, chunk(data, (r + i) % p, p)), receive((r + p - i) % p, other)});
    add(me, chunk(data, r, p), other);
  }
}

void ring_all_gather(Rank me, Slice data) {
  only_one_rank();
  const int p = me.size(), r = me.rank();
  for (int i = 1; i < p; ++i)
    me.exchange({send((r + i) % p, chunk(data, r, p)), receive((r + p - i) % p, chunk(data, (r + p - i) % p, p))});
}

void ring_all_reduce(Rank me, Slice data) {
  ring_reduce_scatter(me, data);
  ring_all_gather(me, data);
}

}  // namespace lockstep::week21
ANSWER
grade 'tests of one rank' "$work/tests of one rank" --only 21.2
row 21.2a 0/9 REFUSED
says 'has arithmetic on an\|has arithmetic on the pointer'
grade 'tests of one rank' "$work/tests of one rank" --only 21.2 --without-language
row 21.2a 0/9 'NO VERDICT'
row 21.2b 0/8 'NO VERDICT'
says 'no outcome was handed over of the run with 2 ranks'

# -- The reason is another exercise's, or the clock tells what ranks do not say.
whole "another exercise's skeleton" 'NOT IMPLEMENTED' 0 0 <<ANSWER
$includes
namespace lockstep::week21 {
void ring_reduce_scatter(Rank, Slice) { todo("21.7", "average"); }
void ring_all_gather(Rank, Slice) { todo("21.7", "average"); }
void ring_all_reduce(Rank, Slice) { todo("21.7", "average"); }
}
ANSWER
says 'what the skeleton of another exercise throws'
attack "time that another rank has taken" 'has steady_clock' REFUSED 'it reads a clock' <<'ANSWER'
#include <chrono>
double heard() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
ANSWER

[ $failures -eq 0 ] && echo PASS
exit $((failures > 0))
