#!/bin/sh
# ./lab grade on honest and on dishonest submissions: only an answer that passes its tests gets points, whatever it prints,
# writes, includes or calls, and however it ends.
#   grade_test.sh LAB SOURCE
set -u
lab=$1 source=$2
[ -x "${lab%/*}/skeleton" ] || { echo "FAILED: ${lab%/*}/skeleton is not built: cmake --build --preset default --target skeleton"; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck source=tools/tests/grade_testing.sh
. "$(dirname "$0")/grade_testing.sh"

# -- Cheats. Each would have the exercise's points, or harm, if nobody looked.

# Before main: processes, files elsewhere, sockets, signals; then a verdict, forged as a file, as text, and as a sealed
# line into every open descriptor; then the end.
{
  reference naive_all_reduce
  cat <<CHEAT
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cstdio>
#include <fstream>
namespace {
void harm() {
  int processes = 0, files = 0, sockets = 0, signals = 0, read = 0;
  for (int i = 0; i < 100; ++i) {
    pid_t child = fork();
    if (child == 0) { sleep(5); _exit(0); }
    processes += child > 0;
  }
  files += open("$work/harm", O_CREAT | O_WRONLY, 0600) >= 0;
  files += open("$work/results.json", O_WRONLY | O_TRUNC) >= 0;
  sockets += socket(AF_INET, SOCK_STREAM, 0) >= 0;
  signals += kill(getppid(), SIGCONT) == 0;
  for (const char* other : {"/etc/passwd", "$source/solutions/$week/ddp.cpp"}) read += open(other, O_RDONLY) >= 0;
  std::printf("got %d processes, %d files, %d sockets, %d signals, %d to read\n", processes, files, sockets, signals, read);
}
const int kForged = [] {
  harm();
  std::ofstream("verdict.json") << "{\"verdicts\": [{\"id\": \"21.1\", \"verdict\": \"PASS\", \"message\": \"\", \"test\": \"\","
                                     "\"passed\": 5, \"failed\": 0, \"seconds\": 0}]}\n";
  std::puts("21.1 PASS (5 of 5 tests)");
  std::fflush(stdout);
  char secret[33] = "00000000000000000000000000000000";
  if (read(3, secret, 32) < 0) {}
  std::string seal = std::string(secret) + " passed 5 failed 0 skipped 0 virtual 1e-4\n";
  for (int to = 3; to < 30; ++to) {
    if (write(to, seal.data(), seal.size()) < 0) continue;
  }
  _exit(0);
  return 0;
}();
}
CHEAT
} | answer cheats naive_all_reduce

# Prints PASS and leaves, in the middle of its tests.
reference ring_all_reduce | sed 's|^  const int next|  std::puts("21.2a PASS"), std::exit(0);\n&|
  s|#include "common/arithmetic.hpp"|&\n#include <cstdio>\n#include <cstdlib>|' | answer cheats ring_all_reduce

# 100 GB, touched.
{
  reference cost_model
  echo 'namespace { const std::vector<char> kMuch(100ull << 30, 1); }'
} | answer cheats cost_model

# Never ends; and calls the kernel itself, where no linker sees it.
kernel=nop
[ "$(uname -m)" = x86_64 ] && kernel=syscall
[ "$(uname -m)" = aarch64 ] && kernel='svc #0'
{
  reference accumulation
  echo 'namespace { const int kEndless = [] { for (volatile int i = 0;; i = i + 1) {} return 0; }(); }'
  echo "void never_called() { asm volatile(\"$kernel\"); }"
} | answer cheats accumulation

# Somebody else's answer.
echo "#include \"solutions/$week/scaling_laws.cpp\"" | answer cheats scaling_laws
# No cheat: an answer to an earlier version.
{
  echo '#include "common/stats/stats.hpp"'
  reference large_batch
} | answer cheats large_batch

grade 'cheats, seen' "$work/cheats" --only 21 --timeout 1
row 21.1 0/5 REFUSED
row 21.2a 0/9 REFUSED
row 21.2b 0/8 REFUSED
row 21.5 0/10 '(FAIL|CRASH)'
[ "$kernel" = nop ] || row 21.6 0/10 REFUSED
row 21.10 0/10 REFUSED
says '"score": 0,' "it calls exit (line $(grep -n 'std::exit' "$work/cheats/$week/ring_all_reduce.cpp" | cut -d: -f1)), which no answer needs" 'line [0-9]* includes fcntl.h, which no lab answer needs' \
  "line 1 includes solutions/$week/scaling_laws.cpp, which no lab answer needs" \
  'line 1 includes common/stats/stats.hpp, which is not in this version: .*move_answers.sh'

# The same without the look at their objects: what is in the process has its own limits.
grade 'cheats, run' "$work/cheats" --only 21 --timeout 1 --without-look
row 21.1 0/5 'NO VERDICT'
row 21.2a 0/9 'NO VERDICT'
row 21.5 0/10 '(FAIL|CRASH)'
row 21.6 0/10 TIMEOUT
grep -q 'no Landlock' "$work/results.json" || row 21.10 0/10 'DOES NOT COMPILE'
says "lacks this run's secret" 'ended before its tests were over'
grep -q 'On this computer' "$work/results.json" || says 'got 0 processes, 0 files, 0 sockets, 0 signals, 0 to read'
[ -e "$work/harm" ] && ! grep -q 'no Landlock' "$work/results.json" && fail 'a file outside its folder was written'

# Forty files of 50 MiB.
{
  reference naive_all_reduce
  cat <<'CHEAT'
#include <fstream>
namespace {
const bool kWrote = [] {
  const std::vector<char> much(50 << 20, 1);
  for (int i = 0; i < 40; ++i) std::ofstream(std::to_string(i)).write(much.data(), 50 << 20);
  return true;
}();
}
CHEAT
} | answer writes naive_all_reduce
grade 'files without end' "$work/writes" --only 21.1 --without-look
row 21.1 0/5 'NO VERDICT'
says 'its tests wrote more files than they need'

# -- Honest files, and files that are no answers; in an archive.
reference naive_all_reduce | answer mixed naive_all_reduce
reference ring_all_reduce | sed 's/return;/return/' | answer mixed ring_all_reduce
ln -s "$source/solutions/$week/cost_model.cpp" "$work/mixed/$week/cost_model.cpp"
reference accumulation | answer mixed my_accumulation
"${lab%/*}/skeleton" "$source/solutions/$week/scaling_laws.cpp" "$work/mixed/$week/scaling_laws.cpp"
touch "$work/mixed/$week/CMakeLists.txt"
(cd "$work" && tar -czf mixed.tar.gz mixed)
grade 'mixed' "$work/mixed.tar.gz" --only 21
row 21.1 5/5 PASS
row 21.2a 0/9 'DOES NOT COMPILE'
row 21.5 0/10 REFUSED
row 21.6 0/10 'NOT SUBMITTED'
row 21.7a 0/6 'NOT SUBMITTED'
row 21.10 0/10 'NOT IMPLEMENTED'
says '"score": 5,' 'symbolic link' 'week21_data_parallel/my_accumulation.cpp' '21.2 does not compile: ring_all_reduce.cpp'
grep -A1 '^21.2a .* DOES NOT COMPILE' "$work/out" | grep -q '^       .*21.2 does not compile: ring_all_reduce.cpp' ||
  fail 'mixed: the report does not say why'
grep -q '<testcase .*name="21.1 .*/>' "$work/junit.xml" || fail 'mixed: junit.xml'

# If only one part of an exercise is not written, the others wait for it. One that throws what the skeleton of another
# exercise throws does not: what an answer needs is the reference's.
mkdir "$work/blocked"
reference ddp | sed '/lab 21.7a begin/,/lab end/c\  todo("21.7a", "the average");' > "$work/blocked/ddp.cpp"
reference accumulation | sed '/lab 21.6 begin/,/lab end/c\  todo("21.7a", "the average");' > "$work/blocked/accumulation.cpp"
grade 'blocked' "$work/blocked" --only 21.6,21.7
row 21.6 0/10 'NOT IMPLEMENTED'
row 21.7a 0/6 'NOT IMPLEMENTED'
for part in b c d; do row 21.7$part '0/[0-9]*' 'BLOCKED BY 21.7a'; done
says 'BLOCKED BY 21.7a.nLab21_7[^"]*exercise 21.7a is not implemented yet' 'what the skeleton of another exercise throws: exercise 21.7a'

# Entries that cost their own exercise: one that is too long, and one that occurs twice.
python3 - "$work/entries.zip" "$work/mixed/$week/naive_all_reduce.cpp" <<'PACK'
import sys, warnings, zipfile
warnings.simplefilter("ignore")
with zipfile.ZipFile(sys.argv[1], "w", zipfile.ZIP_DEFLATED) as pack:
    pack.writestr("carol/naive_all_reduce.cpp", open(sys.argv[2]).read())
    pack.writestr("carol/ddp.cpp", "// " + "x" * 300000)
    for text in "one", "two":
        pack.writestr("carol/accumulation.cpp", "// " + text)
PACK
grade 'entries' "$work/entries.zip" --only 21.1,21.6,21.7
row 21.1 5/5 PASS
row 21.6 0/10 REFUSED
row 21.7a 0/6 REFUSED
says 'accumulation.cpp: it is present more than once' 'ddp.cpp: it is damaged, or has more than 262144 bytes'

# A zipped folder of bare files, as many submissions come.
mkdir "$work/anna"
reference naive_all_reduce > "$work/anna/naive_all_reduce.cpp"
(cd "$work" && cmake -E tar cf anna.zip --format=zip anna)
grade 'bare files' "$work/anna.zip" --only 21.1
row 21.1 5/5 PASS

# Files that do not count are of two kinds: lab files elsewhere, and files that are no lab's.
mkdir -p "$work/beside/old/one/$week" "$work/beside/$week/__MACOSX"
cp "$work/anna/naive_all_reduce.cpp" "$work/beside/"
echo > "$work/beside/old/one/$week/ddp.cpp" && echo > "$work/beside/$week/my_ddp.cpp" && echo > "$work/beside/$week/__MACOSX/._my_ddp.cpp"
grade 'beside' "$work/beside" --only 21.1
row 21.1 5/5 PASS
says "These lab files are not in a place where they count: old/one/$week/ddp.cpp (move it to $week)" \
  "These files are not lab files and were ignored: $week/my_ddp.cpp\\.\\\\n"

# Many submissions, one that is none among them; a list of exercises, and one part.
mkdir -p "$work/deep/Homework/bob/$week"
cp "$work/anna/naive_all_reduce.cpp" "$work/deep/Homework/bob/$week/"
(cd "$work/deep" && tar -czf ../bob.tar.gz Homework)
name=missing
code=0
"$lab" grade "$work/anna.zip" "$work/nothing.zip" "$work/no*" --only 21.1 --out "$work/grades" > "$work/out" 2>&1 || code=$?
[ $code = 2 ] || fail "$name: the exit code is $code"
[ "$(cat "$work/out")" = "There is no $work/nothing.zip, no $work/no*: nothing was graded." ] || fail "$name: not in one sentence"
[ ! -e "$work/grades" ] || fail "$name: a folder of results"
name=several
echo 'My answers are below.' > "$work/nothing.zip"
"$lab" grade "$work/anna.zip" "$work/bob.tar.gz" "$work/nothing.zip" --only 21.10,21.1 --out "$work/grades" > "$work/out" 2>&1 &&
  fail 'several: the exit code is 0, and one was not graded'
cp "$work/grades/bob.json" "$work/results.json"
says 'No file of this submission' "there is Homework/bob/$week/naive_all_reduce.cpp, which does not count"
for words in '^submission,points,most,seconds,seed,21.1,21.10,remarks,why$' '^"anna",5,15,[0-9]*,"[0-9]*","PASS","NOT SUBMITTED",' \
  '^"bob",0,15,[0-9]*,"[0-9]*","NOT SUBMITTED",' '^"nothing",0,0,.*"nothing was graded: '; do
  grep -q "$words" "$work/grades/summary.csv" || fail "several: summary.csv does not say $words"
done
grep -A1 '^== .*nothing.zip' "$work/out" | grep -q '^nothing was graded: ' || fail 'several: the complaint is not below its submission'
# A late one joins them, and so does one that comes again. Names may be as long as files', and in any bytes.
name=late
cp "$work/anna.zip" "$work/bob.zip"
long=$(printf '%0251d' 7).zip
latin=$work/$(printf 'caf\351').zip
cp "$work/anna.zip" "$work/$long" && cp "$work/anna.zip" "$latin"
"$lab" grade "$work/bob.zip" --only 21.1 --out "$work/grades" > "$work/out" 2>&1 || fail 'late: not graded'
# An exercise that was not asked for keeps its row, what changed is said, and the folder keeps its seed.
for words in 'exercises that were graded before and are not in 21.1 keep their points' \
  '^bob .* 5 of 15  it had 0 points: 21.1 NOT SUBMITTED → PASS$'; do
  grep -q "$words" "$work/out" || fail "late: the output does not say $words"
done
grep -q '"number": "21.10"' "$work/grades/bob.json" || fail 'late: what was not graded again is gone'
[ "$(sed -n 's/^"[a-z]*",[0-9]*,[0-9]*,[0-9]*,"\([0-9]*\)".*/\1/p' "$work/grades/summary.csv" | sort -u | wc -l)" = 1 ] ||
  fail 'late: it has another seed'
"$lab" grade "$work/$long" "$latin" --only 21.1 --out "$work/grades" >> "$work/out" 2>&1 || fail 'late: a name'
for words in '^"anna",5,15,' '^"bob",5,15,.*"PASS","NOT SUBMITTED",' '^"nothing",0,0,' '^"00000000' '^"caf'; do
  [ "$(grep -c "$words" "$work/grades/summary.csv")" = 1 ] || fail "late: summary.csv has not one row $words"
done
# A class of one: its results are in a folder too, which has a page.
name='a class of one'
"$lab" grade "$work/anna.zip" --only 21.1 --hide-seed --out "$work/one" > "$work/out" 2>&1 || fail "$name: not graded"
grep -q 'seed' "$work/out" && fail "$name: --hide-seed"
"$lab" class "$work/one" >> "$work/out" 2>&1 || fail "$name: no page"
grep -q '^"anna",5,5,' "$work/one/summary.csv" || fail "$name: no row"
# Anything else may be in it. A folder that was handed in is no place for results, and NAME.json is one submission's.
name='a folder of other things'
mkdir "$work/other" && echo mine > "$work/other/notes.txt"
"$lab" grade "$work/anna.zip" --only 21.1 --out "$work/other" > "$work/out" 2>&1 || fail "$name: not graded"
grep -q '^"anna",5,5,' "$work/other/summary.csv" || fail "$name: no row"
for how in "$work/anna --out $work/anna" "$work/anna $work/bob.tar.gz --out $work/both.json" \
  "$work/anna --resume --out $work/one.json" "$work/anna --out $work/other/notes.txt" "$work/anna --out $work/x --junit $work/x.xml"; do
  # shellcheck disable=SC2086  # words
  "$lab" grade --only 21.1 $how > "$work/out" 2>&1 && fail "$name: $how"
  grep -q '^--out .* \(was handed in\|is a file\)\|^--junit is for one' "$work/out" || fail "$name: $how, in other words"
done
# Its seconds begin where the suite is built, and what it prints is seen at once, though it goes into a file.
name='time and progress'
cmake=$(command -v cmake)
mkdir "$work/bin"
cat > "$work/bin/cmake" <<CMAKE
#!/bin/sh
case "\$*" in *lockstep_grade_seal*) ;; *) exec "$cmake" "\$@" ;; esac
cp "$work/out" "$work/seen"
sleep 3
"$cmake" "\$@" || exit
date +%s > "$work/built"
CMAKE
chmod +x "$work/bin/cmake"
env PATH="$work/bin:$PATH" "$lab" grade "$work/anna" --only 21.1 --out "$work/alone" > "$work/out" 2>&1 || fail "$name: not graded"
most=$(($(date +%s) - $(cat "$work/built") + 1))
[ "$(sed -n 's/^"anna",5,5,\([0-9]*\),.*/\1/p' "$work/alone/summary.csv")" -le "$most" ] || fail "$name: more than $most s"
grep -q '^== .*/anna (1 of 1)$' "$work/seen" || fail "$name: nothing was seen before the build"
# A full disk for temporary files is no mistake of the student's.
if unshare -rm true 2> /dev/null; then
  mkdir "$work/full"
  # shellcheck disable=SC2016  # the inner shell expands them
  TMPDIR=$work/full unshare -rm sh -c 'mount -t tmpfs -o size=200k none "$TMPDIR" && "$@"' sh \
    "$lab" grade "$work/anna" --only 21.1 --out "$work/results.json" > "$work/out" 2>&1
  name='a full disk'
  row 21.1 0/5 'NO VERDICT'
  says 'the disk for temporary files is full'
fi
# Ctrl-C while the suite is built ends it: nothing is called not graded, and no other submission is begun.
name=interrupted
printf '#!/bin/sh\ncase "$*" in *lockstep_grade_seal*) sleep 11; kill -INT $$ ;; *) exec %s "$@" ;; esac\n' "$cmake" > "$work/bin/cmake"
code=0
env -u LOCKSTEP_CTEST PATH="$work/bin:$PATH" "$lab" grade "$work/anna" "$work/bob.zip" --only 21.1 --out "$work/stopped" > "$work/out" 2>&1 || code=$?
[ $code = 2 ] || fail "$name: the exit code is $code"
grep -q '^interrupted: building the suite did not finish\.$' "$work/out" || fail "$name: it is not said"
grep -q '^building the suite, 1[0-9] s so far$' "$work/out" && ! grep -q '^\[.*: building the suite' "$work/out" ||
  fail "$name: how far the suite is, is not said once"
grep -q 'nothing was graded\|bob.zip (2 of 2)' "$work/out" && fail "$name: it went on"
[ "$(wc -l < "$work/stopped/summary.csv")" = 1 ] || fail "$name: it has a row"
# Also while an answer is judged: the output says how to continue, and nothing stays in TMPDIR. (A job in the background would
# ignore Ctrl-C.)
mkdir "$work/endless" "$work/tmp"
reference naive_all_reduce | sed 's|^void naive_all_reduce.*|&\n  while (me.world_rank() >= 0) {}|' > "$work/endless/naive_all_reduce.cpp"
TMPDIR=$work/tmp python3 -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])' "$lab" grade "$work/anna" "$work/endless" "$work/bob.zip" --only 21.1,21.10 -j 2 \
  --timeout 100 --out "$work/stopped" > "$work/out" 2>&1 &
tries=0
until grep -q '^\[2/3\] endless: 21.1' "$work/out" || [ $((tries += 1)) -gt 120 ]; do sleep 1; done
kill -INT $!
code=0
wait $! || code=$?
[ $code = 2 ] || fail "$name: the exit code is $code"
grep -q '^1 of 3 graded; --resume continues$' "$work/out" || fail "$name: it is not said how to go on"
[ -z "$(ls -A "$work/tmp")" ] || fail "$name: $(ls "$work/tmp") stays in TMPDIR"
[ "$(wc -l < "$work/stopped/summary.csv")" = 2 ] || fail "$name: not one row"
# A grading that waits for another one says so, and does not say that it builds.
name=waiting
flock "${lab%/*}/../grade/lock" sleep 15 &
sleep 1
"$lab" grade "$work/anna" --only 21.1 --out "$work/waits" > "$work/out" 2>&1 || fail "$name: not graded"
grep -q '^waiting: ' "$work/out" || fail "$name: it is not said at once"
grep -q '^\[1/1\] anna: waiting until another ./lab grade has ended$' "$work/out" || fail "$name: it is not said again"
wait
# On a terminal a row is one line.
name='80 columns'
cat > "$work/terminal.py" <<'TERMINAL'
import fcntl, os, pty, struct, sys, termios
child, terminal = pty.fork()
if child == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
    os.execv(sys.argv[1], sys.argv[1:])
try:
    while piece := os.read(terminal, 4096):
        sys.stdout.buffer.write(piece.replace(b"\r\n", b"\n"))
except OSError:  # the end, as Linux tells it
    pass
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
TERMINAL
python3 "$work/terminal.py" "$lab" grade "$work/anna" --only 21.1 --out "$work/results.json" > "$work/out" || fail "$name: exit code $?"
grep -aEq '(^|K)21\.1 .{1,72}PASS$' "$work/out" || fail "$name: the row is longer"
# A submission that this commit has graded already, and that did not change, stays as it is.
name=resumed
resume() { "$lab" grade "$work/bob.zip" "$work/anna.zip" --only 21.1 --out "$work/again" --resume > "$work/out" 2>&1 || fail "$name"; }
resume
seeds() { sed -n 's/^"[a-z]*",[0-9]*,[0-9]*,[0-9]*,"\([0-9]*\)".*/\1/p' "$work/again/summary.csv" | sort -u; }
seed=$(seeds)
cp "$work/entries.zip" "$work/bob.zip"
resume
if grep -q 'The suite used for grading differs from its commit' "$work/out"; then again=0; else again=1; fi
[ "$(grep -c 'So --resume skips nothing' "$work/out")" = $((1 - again)) ] || fail 'resumed: it is not said that nothing is skipped'
[ "$(seeds)" = "$seed" ] || fail 'resumed: with another seed'
[ "$(grep -c 'graded before, and not changed since' "$work/out")" = "$again" ] || fail 'resumed: not the one that did not change'
grep -A1 '^== .*bob.zip' "$work/out" | grep -q '^21.1 .*PASS' || fail 'resumed: what changed was not graded'

# A folder with an old archive and a new one, or with nothing, is not graded, and points that fall are said.
name='two archives'
mkdir -p "$work/moodle/kim" "$work/moodle/lee"
cp "$work/anna.zip" "$work/moodle/kim/answers.zip"
"$lab" grade "$work/moodle/kim" --only 21.1 --out "$work/fallen" > "$work/out" 2>&1 || fail "$name: one is not graded"
cp "$work/anna.zip" "$work/moodle/kim/answers2.zip"
code=0
"$lab" grade "$work"/moodle/* --only 21.1 --out "$work/fallen" > "$work/out" 2>&1 || code=$?
[ $code = 2 ] || fail "$name: the exit code is $code"
for words in '^nothing was graded: two archives and no lab file: leave one of answers.zip, answers2.zip' \
  '^nothing was graded: nothing in it is an answer' '^kim .* 0 of 0  NOT GRADED  it had 5 points$' '^lee .* 0 of 0  NOT GRADED$'; do
  grep -q "$words" "$work/out" || fail "$name: the output does not say $words"
done
grep -q '^"kim",.*it had 5 points' "$work/fallen/summary.csv" || fail "$name: the remarks do not say what it had"

# Canvas's downloads: of one student the newest counts, and the others are named.
name='handed in twice'
for file in kimlee_LATE_1234_98_answers kimlee_1234_101_answers-1; do cp "$work/anna.zip" "$work/$file.zip"; done
"$lab" grade "$work"/kimlee_* --only 21:core --out "$work/canvas" > "$work/out" 2>&1 || fail "$name: not graded"
for words in 'kimlee_1234_101_answers-1.zip (1 of 1)$' 'older, and not graded: .*kimlee_LATE_1234_98_answers.zip$' \
  'kimlee_1234 .* 5 of 100$'; do
  grep -q "$words" "$work/out" || fail "$name: the output does not say $words"
done
[ "$(grep -c '^"kimlee_1234",5,100,' "$work/canvas/summary.csv")" = 1 ] || fail "$name: not one row"

# Exercises at a time. What never ends has its time once, and parts that do not hang have their points.
mkdir "$work/hangs"
cp "$work/anna/naive_all_reduce.cpp" "$work/hangs/"
reference ring_all_reduce | sed 's|add(me, incoming, received);|while (me.world_rank() >= 0) {}|' > "$work/hangs/ring_all_reduce.cpp"
grade 'hangs' "$work/hangs" --only 21.1,21.2 --timeout 12 -j 2
row 21.1 5/5 PASS
row 21.2a 0/9 TIMEOUT
row 21.2b 8/8 PASS
row '21.2 ' 0/8 TIMEOUT
says 'still running after 12 s' 'still running after 10 s' 'rank [0-9] last called the runtime at ring_all_reduce.cpp:[0-9]* '
grep -q '^\[1/1\] hangs: 21.2' "$work/out" || fail 'hangs: nothing was said for 12 s'
[ "$(grep -n '^21' "$work/out" | sed 's/^[0-9]*:\([^ ]*\).*/\1/' | tr '\n' ' ')" = '21.1 21.2a 21.2b 21.2 ' ] || fail 'hangs: the rows are not in order'

# An answer that dies says where, in its own words.
mkdir "$work/dies"
reference naive_all_reduce | sed 's|^void naive_all_reduce.*|&\n  if (me.size() / (me.rank() - me.rank()) > 5) return;|' > "$work/dies/naive_all_reduce.cpp"
grade 'dies' "$work/dies" --only 21.1
row 21.1 0/5 CRASH
says "signal 8 ([^\"]*) with [^\"]* at naive_all_reduce.cpp:$(grep -n 'rank() - me' "$work/dies/naive_all_reduce.cpp" | cut -d: -f1) (naive_all_reduce). An integer was divided by 0" \
  'replay: ./lab check 21.1 --ranks'

# A list that grows without end, where the tests call the answer without ranks, and where a rank does.
mkdir "$work/grows"
reference cost_model | sed 's|^double naive_all_reduce_seconds(.*|&\n  std::vector<int> list;\n  for (std::size_t n = 1; n > 0; n *= 2) list.reserve(n);|' > "$work/grows/cost_model.cpp"
reference naive_all_reduce | sed 's|^void naive_all_reduce.*|&\n  std::vector<int> list;\n  for (std::size_t n = 1; n > 0; n *= 2) list.reserve(n);|; 1a #include <vector>' > "$work/grows/naive_all_reduce.cpp"
grade 'a list without end' "$work/grows" --only 21.1,21.5
row 21.1 0/5 FAIL
row 21.5 0/10 FAIL
says 'Lab21_1[^"]*rank 0: out of memory' 'Lab21_5[^"]*out of memory: does a loop add to a list without end?'
grep -q 'bad_alloc' "$work/results.json" && fail "$name: in the C++ library's words"

grade 'no time left' "$work/hangs" --only 21.2 --timeout 3 --total 1
row 21.2b 0/8 'NO VERDICT'
says 'this submission has had its 1 s'

grade 'one part' "$work/anna.zip" --only 21.2a
row 21.2a 0/9 'NOT SUBMITTED'
grep -q '^21.2b' "$work/out" && fail 'one part: another one was graded'
rm "$work/results.json"
"$lab" grade "$work/anna.zip" --only 21.1a --out "$work/results.json" > "$work/out" 2>&1 && fail 'an unknown part: exit code 0'
[ -e "$work/results.json" ] && fail 'an unknown part: results were written'
grep -q "unknown part '21.1a': 21.1 has no parts." "$work/out" || fail 'an unknown part'

# An instructor's points, and a hidden test: an answer that the exercise's own tests do not fault.
hidden=$source/docs/teach/hidden-tests
mkdir -p "$work/eve" "$work/frank"
reference ring_all_reduce > "$work/eve/ring_all_reduce.cpp"
reference ring_all_reduce | sed 's|^void ring_all_reduce(Rank me, Slice data) {|&\n  static int calls = 0;\n  if (++calls > 1) return;|' > "$work/frank/ring_all_reduce.cpp"
grade 'a hidden test, passed' "$work/eve" --only 21.2 --course "$hidden/course.json" --tests "$hidden"
row 21.2h 5/5 PASS
row 21.2a 9/9 PASS
row '21.2 ' 3/3 PASS
grade 'a hidden test' "$work/frank" --only 21.2 --course "$hidden/course.json" --tests "$hidden"
row 21.2h 0/5 FAIL
row 21.2a 9/9 PASS
row '21.2 ' 3/3 PASS
name='hidden tests that do not fit'
for how in "--course $hidden/course.json" "--tests $hidden" "--tests $work/nowhere"; do
  # shellcheck disable=SC2086  # words
  "$lab" grade "$work/eve" --only 21.2 $how --out "$work/none.json" > "$work/out" 2>&1 && fail "$name: $how"
  [ -e "$work/none.json" ] && fail "$name: $how wrote results"
done
grade 'without a hidden test' "$work/frank" --only 21.2
row '21.2 ' 8/8 PASS
grep -q '^21.2h' "$work/out" && fail 'without a hidden test: it was judged'
"$lab" is-current lab_tool || fail 'without a hidden test: ./lab itself counts as older than its sources'

# The reference's answer to the open task counts bits, for which a processor may need the compiler's own functions.
mkdir -p "$work/open"
reference open_all_reduce > "$work/open/open_all_reduce.cpp"
grade 'bits, counted' "$work/open" --only 21.11
row 21.11 5/5 PASS

# Points for virtual time, where an instructor asks for them: a right answer that takes longer than the reference.
mkdir -p "$work/slow"
reference naive_all_reduce | sed 's|^void naive_all_reduce.*|&\n  for (int i = 0; i < 2000 \&\& data.size() < 200 \&\& data.dtype() == DType::f32; ++i) scale(me, data, 1);|' > "$work/slow/naive_all_reduce.cpp"
cmp -s "$work/slow/naive_all_reduce.cpp" "$work/anna/naive_all_reduce.cpp" && fail 'the slow answer is the reference'
echo '{"21.1": {"performance": {"points": 3, "none_at": 1.5}}}' > "$work/time.json"
grade 'as fast as the reference' "$work/anna.zip" --only 21.1 --course "$work/time.json"
row 21.1 5/5 PASS
says 'virtual time: 1 times the reference.s; 3 of 3 points for it'
grade 'slower than the reference' "$work/slow" --only 21.1 --course "$work/time.json" --seed 4
row 21.1 2/5 PASS
says 'times the reference.s; 0 of 3 points for it'
cp "$work/results.json" "$work/before.json"
grade 'the same again' "$work/slow" --only 21.1 --course "$work/time.json" --seed 4
[ "$(grep -o '"21.1": [0-9.e+]*' "$work/results.json")" = "$(grep -o '"21.1": [0-9.e+]*' "$work/before.json")" ] ||
  fail "$name: another ratio"
grade 'slower, and nobody asks' "$work/slow" --only 21.1
row 21.1 5/5 PASS
mkdir -p "$work/timed"
"$lab" grade "$work/slow" "$work/anna.zip" --only 21.1 --course "$work/time.json" --out "$work/timed" > "$work/out" 2>&1
echo '{"21.1": {"performance": {"points": 5, "none_at": 1.5}}}' > "$work/more.json"
"$lab" class "$work/timed" --course "$work/more.json" > "$work/out" 2>&1 || fail "counted anew: no page"
grep -q '^"slow",0,5,' "$work/timed/class.csv" || fail 'counted anew: the time is lost'
grep -q '^"anna",5,5,' "$work/timed/class.csv" || fail 'counted anew: the reference has lost points'
echo '{"21.5": {"performance": {"points": 1}}, "21.10": {"performance": {"points": 1}}}' > "$work/none.json"
name='times of formulas'
"$lab" grade "$work/anna.zip" --only 21.10 --course "$work/none.json" --out "$work/results.json" > "$work/out" 2>&1 && fail "$name"
says 'whose virtual time could be compared'

# On a kernel that lacks something, answers are judged all the same, and the results say what was not confined. What no
# answer may include is refused by name too, not only by the kernel.
mkdir -p "$work/curious"
{ echo '#include "/etc/passwd"'; reference naive_all_reduce; } > "$work/curious/naive_all_reduce.cpp"
lacking() {
  name="without $1"
  python3 "$source/tools/tests/without_calls.py" "$1" "$lab" grade "$2" --only 21.1 --out "$work/results.json" > "$work/out" 2>&1 ||
    fail "$name: exit code $?"
}
lacking landlock "$work/anna.zip"
row 21.1 5/5 PASS
says 'files outside the scratch folder can be read and written (no Landlock)'
lacking seccomp "$work/anna.zip"
row 21.1 5/5 PASS
says 'processes and sockets are not forbidden (no seccomp filter)'
lacking landlock,seccomp "$work/curious"
row 21.1 0/5 REFUSED
says 'line 1 includes /etc/passwd, which no lab answer needs' '(no Landlock); ' '(no seccomp filter)'
grep -q 'root:' "$work/results.json" && fail "$name: /etc/passwd is in the results"

# A small class, a hostile one among them: on one page, and a page for each.
name=class
python3 "$source/tools/tests/make_class.py" "$source" "$work/class" 12 --only naive_all_reduce
"$lab" grade "$work"/class/* --only 21.1 -j 2 --seed 987654321987 --out "$work/grades of 12" > "$work/out" 2>&1 || true
cp "$work/grades of 12/student00.json" "$work/results.json"
"$lab" class "$work/grades of 12" --feedback "$work/feedback" > "$work/out" 2>&1 || fail 'class: no page'
grep -q 'so far' "$work/grades of 12/class.html" && fail 'class: nothing is left to grade'
for words in '12 submissions' '21.1 REFUSED: ' 'nothing was graded: ' 'how many got it'; do
  grep -q -- "$words" "$work/grades of 12/class.html" || fail "class: the page does not say '$words'"
done
[ "$(find "$work/feedback" -name '*.html' | wc -l)" = 12 ] || fail 'class: a page for each'
grep -l '<img\|<script\|987654321987' "$work/grades of 12/class.html" "$work"/feedback/* && fail 'class: a seed, or an element of theirs'
[ "$(wc -l < "$work/grades of 12/class.csv")" = 13 ] || fail 'class: a row for each'

# On other backends what passes in the simulator runs once more. A variable outside of functions is each rank's own on either.
if [ -e "${lab%/*}/../backends/mpi" ]; then
  grade 'honest, on MPI' "$work/anna.zip" --only 21.1 --backend mpi
  row 21.1 5/5 PASS
  says 'not confined'
  mkdir "$work/shared"
  reference naive_all_reduce | sed 's|^void naive_all_reduce.*|&\n  static int calls = 0;\n  if (++calls <= 3 \&\& me.rank() != 0) scale(me, data, 2);|' \
    > "$work/shared/naive_all_reduce.cpp"
  cmp -s "$work/shared/naive_all_reduce.cpp" "$source/solutions/$week/naive_all_reduce.cpp" && fail 'nothing was shared'
  grade 'a shared variable' "$work/shared" --only 21.1
  row 21.1 0/5 FAIL
  grade 'a shared variable, on MPI' "$work/shared" --only 21.1 --backend mpi
  row 21.1 0/5 FAIL
fi

# A submission without anything to grade has a result too.
name=nothing
mkdir "$work/nothing"
"$lab" grade "$work/nothing" --out "$work/results.json" > "$work/out" 2>&1 && fail 'nothing: the exit code is 0'
says '"score": 0,' 'nothing was graded: nothing in it is an answer'

[ $failures -eq 0 ] && echo PASS
exit $((failures > 0))
