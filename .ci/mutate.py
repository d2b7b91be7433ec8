"""Do the tests notice small changes that nobody chose? Each reference answer is changed in one place at a time: an
operator, a constant, a condition, two arguments exchanged, an argument or a statement left out; and its tests must not
pass: the cheapest first, up to the first failure. What they let through is in
.ci/equivalent_mutants.json, with the reason why it is no mistake, or is a gap in the tests.

  python3 .ci/mutate.py [--seed N] [--sample N] [--jobs N] [--out FILE] [--survivors FILE] [EXERCISE …]

`--survivors` judges only what survived in an earlier run's FILE. `--sample` takes so many changes of each exercise,
chosen by the seed (0, the default: every one). For a build folder that
`cmake --preset default` has configured. The operators and CI's seed were fixed before any survivor was looked at.
"""

import argparse
import concurrent.futures
import hashlib
import json
import pathlib
import random
import re
import resource
import shlex
import subprocess
import sys
import tempfile

EQUIVALENT = pathlib.Path(".ci/equivalent_mutants.json")
TOKEN = re.compile(
    r"""(?P<skip>//[^\n]*|/\*.*?\*/|^[ \t]*\#[^\n]*|[ \t\n]+)|(?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')"""
    r"""|(?P<name>[A-Za-z_]\w*)|(?P<number>\d[\w.']*)"""
    r"""|(?P<sign><<=|>>=|<=>|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||\+=|-=|\*=|/=|%=|::|.)""",
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)

MOST_KILOBYTES = 8 << 20  # of address space: a change may allocate without end
HOLE = re.compile(r"// lab \d[^\n]* begin.*?// lab end", re.DOTALL)
BINARY = {
    "+": ["-"],
    "-": ["+"],
    "*": ["/"],
    "/": ["*"],
    "%": ["/"],
    "<": ["<="],
    "<=": ["<"],
    ">": [">="],
    ">=": [">"],
    "==": ["!="],
    "!=": ["=="],
    "&&": ["||"],
    "||": ["&&"],
    "+=": ["=", "-="],
    "-=": ["=", "+="],
    "*=": ["=", "/="],
    "/=": ["=", "*="],
}
# No statements of their own: dropping them would not compile, or mean something else than a forgotten line.
KEPT = set(
    "return using template struct class namespace const auto constexpr static if for while else case default do switch "
    "break continue public private throw".split()
)


def tokens_of(text):
    """(kind, word, begin) of everything but white space, comments and preprocessor lines."""
    found, at = [], 0
    while at < len(text):
        match = TOKEN.match(text, at)
        if match.lastgroup != "skip":
            found.append((match.lastgroup, match.group(), match.start()))
        at = match.end()
    return found


def is_operand_end(token):
    kind, word, _ = token
    return kind in ("number", "text") or word in (")", "]") or (kind == "name" and word not in KEPT)


def functions(tokens):
    """Begin and end (token indices) of each outermost brace that follows ')' or a qualifier: the bodies of
    functions."""
    bodies, depth, begin = [], 0, None
    for i, (_, word, _) in enumerate(tokens):
        if word == "{":
            if begin is None and (
                tokens[i - 1][1] == ")"
                or tokens[i - 1][1] in ("const", "override", "noexcept")
                or is_initialiser_end(tokens, i)
            ):
                begin, depth = i, 0
            if begin is not None:
                depth += 1
        elif word == "}" and begin is not None:
            depth -= 1
            if depth == 0:
                bodies.append((begin, i))
                begin = None
    return bodies


def is_initialiser_end(tokens, i):
    """A constructor's body behind `: member_(x)`, whose ')' or '}' comes right before."""
    return tokens[i - 1][1] in (")", "}") and any(t[1] == ":" for t in tokens[max(0, i - 60) : i])


def statements(tokens, begin, end):
    """(first, last) token of each simple statement in a body, up to its ';': after ';', '{', '}', a condition, or
    else."""
    parentheses, first, i = 0, None, begin
    while i + 1 < end:
        i += 1
        word = tokens[i][1]
        if first is None and word in ("if", "for", "while", "switch"):
            i = closing(tokens, i + (2 if tokens[i + 1][1] == "constexpr" else 1))
            continue
        if first is None and word not in ("{", "}", ";", "else"):
            first = i
        if word in ("(", "["):
            parentheses += 1
        elif word in (")", "]"):
            parentheses -= 1
        elif word in ("{", "}") and parentheses == 0:
            first = None
        elif word == ";" and parentheses == 0:
            if first is not None:
                yield first, i
            first = None


def arguments(tokens, i):
    """(first, last) token of each argument of the call whose '(' is tokens[i]; commas in its braces and calls are
    theirs."""
    found, depth, first = [], 0, i + 1
    for j in range(i, closing(tokens, i) + 1):
        word = tokens[j][1]
        depth += word in ("(", "[", "{")
        depth -= word in (")", "]", "}")
        if (word == "," and depth == 1) or depth == 0:
            if j > first:
                found.append((first, j - 1))
            first = j + 1
    return found


def changes_of(text):
    """(begin, end, replacement) of every change to what learners write, in the order of the text."""
    tokens, found = tokens_of(text), []

    def replace(i, by):
        found.append((tokens[i][2], tokens[i][2] + len(tokens[i][1]), by))

    for begin, end in functions(tokens):
        for i in range(begin + 1, end):
            kind, word, at = tokens[i]
            after = tokens[i + 1]
            spaced = text[at - 1] in " \n" and text[at + len(word)] in " \n"  # not a template's brackets, not a pointer
            if kind == "sign" and word in BINARY and spaced and is_operand_end(tokens[i - 1]):
                for by in BINARY[word]:
                    replace(i, by)
            elif kind == "number" and re.fullmatch(r"\d+", word):
                replace(i, str(int(word) + 1))
                if int(word) > 0:
                    replace(i, str(int(word) - 1))
            elif kind == "number" and re.fullmatch(r"\d+\.\d*", word):
                replace(i, f"({word} + 1)")
            elif word in ("true", "false"):
                replace(i, "false" if word == "true" else "true")
            elif word == "!" and after[1] != "=":
                replace(i, "")
            elif word == "if" and after[1] == "(":
                last = closing(tokens, i + 1)
                if all(t[1] != ";" for t in tokens[i + 1 : last]):
                    for by in ("(true)", "(false)"):
                        found.append((after[2], tokens[last][2] + 1, by))
            elif word == "(" and tokens[i - 1][0] == "name" and tokens[i - 1][1] not in KEPT:
                found += changes_of_call(text, tokens, i)
        for first, last in statements(tokens, begin, end):
            kind, word, at = tokens[first]
            if (
                kind == "name"
                and word not in KEPT
                and not (
                    tokens[first + 1][0] == "name"
                    or tokens[first + 1][1] in ("<", "::")
                    and declares(tokens, first, last)
                )
            ):
                found.append((at, tokens[last][2], ""))
    holes = [match.span() for match in HOLE.finditer(text)]
    return sorted({c for c in found if any(begin <= c[0] and c[1] <= end for begin, end in holes)})


def changes_of_call(text, tokens, i):
    """Two neighbouring arguments exchanged, but those of a minimum or maximum; one left out."""
    symmetric = tokens[i - 1][1] in ("min", "max")
    spans = [(tokens[a][2], tokens[b][2] + len(tokens[b][1])) for a, b in arguments(tokens, i)]
    found = []
    for (a, b), (c, d) in zip(spans, spans[1:]):
        if text[a:b] != text[c:d] and not symmetric:
            found.append((a, d, text[c:d] + text[b:c] + text[a:b]))
        found.append((b, d, ""))
    if len(spans) > 1:
        found.append((spans[0][0], spans[1][0], ""))
    return found


def closing(tokens, i):
    depth = 0
    for j in range(i, len(tokens)):
        depth += tokens[j][1] in ("(", "[", "{")
        depth -= tokens[j][1] in (")", "]", "}")
        if depth == 0:
            return j
    raise ValueError("no closing parenthesis")


def declares(tokens, first, last):
    """`std::vector<int> x = …;`: two names beside each other, or '>' and a name, before any '(' or '='."""
    for i in range(first, last):
        if tokens[i][1] in ("(", "="):
            return False
        if tokens[i + 1][0] == "name" and (tokens[i][0] == "name" or tokens[i][1] in (">", "&", "*")):
            return True
    return False


class Exercise:
    """What builds and runs the tests of one exercise with another answer: the commands of its first planted mistake."""

    def __init__(self, build, week, exercise):
        self.id, self.build = exercise["id"], pathlib.Path(build).resolve()
        self.solution = pathlib.Path("solutions") / week["folder"] / f"{exercise['name']}.cpp"
        self.text = self.solution.read_text()
        program = f"programs/mutant.{self.id}.0_sim"
        subprocess.run(
            ["cmake", "--build", build, "--target", f"mutant.{self.id}.0_sim"], check=True, stdout=subprocess.DEVNULL
        )
        commands = subprocess.run(
            ["ninja", "-C", build, "-t", "commands", program], check=True, capture_output=True, text=True
        )
        lines = commands.stdout.splitlines()
        self.source = str(self.build / "mutants" / f"{self.id}.0" / f"{exercise['name']}.cpp")
        self.compile = next(line for line in lines if self.source in line and " -c " in line)
        self.link = lines[-1]
        self.object = re.search(r" -o (\S+)", self.compile)[1]
        self.program = program
        self.hash, self.stages = self.measure()

    def compiled(self, text, folder):
        """The new object's bytes as a hash; None where it does not compile."""
        source, made = folder / "answer.cpp", folder / "answer.o"
        source.write_text(text)
        command = self.compile.replace(self.source, str(source)).replace(f" -o {self.object}", f" -o {made}")
        command = re.sub(r" -M[DTF]( \S+(?= -MF| -o))?", "", re.sub(r" -MD -MT \S+ -MF \S+", "", command))
        if subprocess.run(command, shell=True, cwd=self.build, capture_output=True, timeout=300).returncode != 0:
            return None
        return hashlib.sha256(made.read_bytes()).hexdigest()

    def linked(self, folder):
        program = folder / "program"
        link = self.link.replace(self.object, str(folder / "answer.o")).replace(f"-o {self.program}", f"-o {program}")
        subprocess.run(link, shell=True, cwd=self.build, check=True, capture_output=True)
        return program

    @staticmethod
    def passes(program, tests, seconds):
        """Whether these tests pass, in so many seconds of processor time (the other limit is for what sleeps)."""
        command = (
            f"ulimit -t {seconds} -v {MOST_KILOBYTES}; exec {shlex.quote(str(program))} --gtest_fail_fast"
            f" --gtest_filter={':'.join(tests)}"
        )
        try:
            run = subprocess.run(
                ["sh", "-c", command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=20 * seconds
            )
        except subprocess.TimeoutExpired:
            return False
        return run.returncode == 0

    def measure(self):
        """The reference's object, and its tests in the order in which a change is judged: (tests, seconds that they may
        take). Those that together take a tenth of the time run first, the others one by one."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            made = self.compiled(self.text, folder)
            if made is None:
                sys.exit(f"{self.id}: the reference itself does not compile")
            program, taken = self.linked(folder), {}
            for test in tests_of(program):
                before = processor_seconds()
                if not self.passes(program, [test], 600):
                    sys.exit(f"{self.id}: the reference itself does not pass {test}")
                taken[test] = processor_seconds() - before
        ordered, quick, spent = sorted(taken, key=taken.get), [], 0
        while ordered and (not quick or spent + taken[ordered[0]] <= sum(taken.values()) / 10):
            spent += taken[ordered[0]]
            quick.append(ordered.pop(0))
        return made, [(quick, 10 + int(5 * spent))] + [([test], 10 + int(5 * taken[test])) for test in ordered]

    def judge(self, change):
        begin, end, by = change
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            made = self.compiled(self.text[:begin] + by + self.text[end:], folder)
            if made is None:
                return "does not compile"
            if made == self.hash:
                return "same code"
            program = self.linked(folder)
            return "survived" if all(self.passes(program, *stage) for stage in self.stages) else "found"

    def describe(self, change):
        """The lines a change touches, before and after, without indentation and comments."""
        begin, end, by = change
        first, last = self.text.rfind("\n", 0, begin) + 1, self.text.find("\n", end)
        before, after = self.text[first:last], self.text[first:begin] + by + self.text[end:last]
        return {
            "line": self.text.count("\n", 0, begin) + 1,
            "from": without_comments(before),
            "to": without_comments(after),
        }


def tests_of(program):
    """Suite.Test of every test, as GoogleTest lists them."""
    listed = subprocess.run([program, "--gtest_list_tests"], check=True, capture_output=True, text=True).stdout
    suite, tests = "", []
    for line in listed.splitlines():
        name = line.split("#")[0].strip()  # what stands behind it are parameters
        if line.startswith("  "):
            tests.append(suite + name)
        else:
            suite = name
    return tests


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def without_comments(text):
    return " ".join(re.sub(r"//[^\n]*", "", text).split())


def excused(entries, told):
    return any(entry["from"] == told["from"] and entry["to"] == told["to"] for entry in entries)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/default")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", default="outputs/mutate.json")
    parser.add_argument("--survivors")
    parser.add_argument("exercises", nargs="*")
    options = parser.parse_args()
    course = json.loads(pathlib.Path("labs/course.json").read_text())
    equivalent = json.loads(EQUIVALENT.read_text()) if EQUIVALENT.exists() else {}
    earlier = json.loads(pathlib.Path(options.survivors).read_text()) if options.survivors else None
    table, gaps = {}, 0
    for week in course["weeks"]:
        for entry in week["exercises"]:
            if options.exercises and entry["id"] not in options.exercises:
                continue
            if earlier is not None and not earlier.get(entry["id"], {}).get("survived"):
                continue
            exercise = Exercise(options.build, week, entry)
            changes = changes_of(exercise.text)
            if earlier is not None:
                changes = [c for c in changes if excused(earlier[entry["id"]]["survived"], exercise.describe(c))]
            if options.sample and len(changes) > options.sample:
                changes = sorted(random.Random(f"{options.seed} {exercise.id}").sample(changes, options.sample))
            with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
                results = list(pool.map(exercise.judge, changes))
            row = {kind: results.count(kind) for kind in ("found", "same code", "does not compile")}
            survivors = [exercise.describe(c) for c, r in zip(changes, results) if r == "survived"]
            row["equivalent"] = [s for s in survivors if excused(equivalent.get(exercise.id, []), s)]
            row["survived"] = [s for s in survivors if not excused(equivalent.get(exercise.id, []), s)]
            table[exercise.id] = row
            gaps += len(row["survived"])
            print(
                f"{exercise.id:6} {row['found']:4} found {len(row['equivalent']):3} equivalent {row['same code']:3}"
                f" same code {row['does not compile']:3} do not compile {len(row['survived']):3} SURVIVED",
                flush=True,
            )
            for told in row["survived"]:
                print(f"    {exercise.solution}:{told['line']}\n      {told['from']}\n      {told['to']}", flush=True)
            pathlib.Path(options.out).parent.mkdir(parents=True, exist_ok=True)
            pathlib.Path(options.out).write_text(json.dumps(table, indent=1))
    return 1 if gaps else 0


if __name__ == "__main__":
    sys.exit(main())
