"""Checks what the Markdown says of itself and of the suite.

Every relative link leads to a file, and to a heading of it. Every item of a list begins its line. No page has a word of
.ci/terms.txt, and no message that a program prints. And these pages agree with what they are about:

  handouts                  every exercise's section has the parts that it should have, and leads to its answers and the
                            glossary; the table has the minutes of labs/course.json; and
                            .ci/effects.py a variant of its answer
  labs/README.md            every exercise as labs/course.json has it
  README.md                 the hours and errors that are found elsewhere
  docs/use/commands.md      the numbers of exercises and points; docs/use/cmake.md that of exercises
  the instructor's guide    syllabi with the course's minutes and points, no exercise before one that it needs;
                            files of its commands are in .gitignore, and its class is what make_class.py makes
  the glossary              every verdict, and no word twice
  the bridge                every option of ./lab train
  docs/learn/api.md         code that is tested
  adding-a-lab.md           the example that stands
  docs/learn/claims.md      in the list at its top, numbers of its tables

  python3 .ci/pages.py
  python3 .ci/pages.py FILE…      only the links of these
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import effects

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.M | re.S)


def anchors(text):
    """What a heading is called in a link: lower case, no punctuation, hyphens for spaces; repeated ones are
    numbered."""
    seen = {}
    for title in re.findall(r"^#+ +(.*)$", FENCE.sub("", text), re.M):
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)
        name = re.sub(r"[^\w\s-]", "", title.strip().lower()).replace(" ", "-")
        count = seen.get(name, 0)
        seen[name] = count + 1
        yield name if count == 0 else f"{name}-{count}"


def wrong_links(path):
    text = path.read_text()
    for target in LINK.findall(re.sub(r"`[^`\n]*`", "", FENCE.sub("", text))):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        other = (path.parent / file).resolve() if file else path.resolve()
        if not other.exists():
            yield f"{path}: {target}: there is no such file"
        elif other.suffix == ".html":  # the playground, whose address names a view and its settings
            if anchor and f'href="#{anchor.split("?")[0]}"' not in other.read_text():
                yield f"{path}: {target}: there is no such view"
        elif anchor and anchor not in anchors(other.read_text()):
            yield f"{path}: {target}: there is no such heading"


def lost_items(path, text):
    """Items of a list that a paragraph has swallowed: "… before it. 2. **b** — …" in one block, or indented below
    it."""
    prose = FENCE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    for match in re.finditer(r"(?<=\S)(?: +|\n +)(\d+)\.\s+\*\*[a-z](?:, [^*\n]*)?\*\*", prose):
        yield f"{path}:{prose.count(chr(10), 0, match.start(1)) + 1}: item {match[1]} of a list does not begin its line"


GLOSSARY = "docs/learn/glossary.md"


def wrong_glossary():
    """Every verdict has its word there, and no word stands twice."""
    text = pathlib.Path(GLOSSARY).read_text()
    for verdict in re.findall(
        r'case Verdict::\w+: return "([A-Z ]+)";', pathlib.Path("common/runtime/error.cpp").read_text()
    ):
        if verdict not in text:
            yield f"{GLOSSARY}: the verdict {verdict} is not explained"
    words = [word.strip() for row in re.findall(r"^\| ([^|]+) \|", text, re.M) for word in row.split(",")]
    for word in sorted({word for word in words if words.count(word) > 1 and word not in ("word", "---")}):
        yield f"{GLOSSARY}: {word} stands twice"


BRIDGE = "docs/use/bridge.md"


def wrong_bridge():
    """Every option of ./lab train has its row, and every row its option."""
    options = re.findall(r'\{"(--[a-z0-9-]+)[",]', pathlib.Path("tools/train/options.cpp").read_text())
    rows = re.findall(r"^\| `(--[a-z0-9-]+)` \|", pathlib.Path(BRIDGE).read_text(), re.M)
    for option in sorted(set(options) ^ set(rows)):
        yield (
            f"{BRIDGE}: {option} has no row" if option in options else f"{BRIDGE}: {option} is no option of ./lab train"
        )
    if not options or len(rows) != len(set(rows)):
        yield f"{BRIDGE}: an option stands twice, or none was found"


def sections_of(text):
    """The parts of a page that begin with ## and a number, by number."""
    return {s.split()[1]: s for s in re.split(r"^(?=## )", text, flags=re.M) if s.startswith("## ")}


PARTS = [
    "Why",
    "You will be able to",
    "The idea",
    "Predict",
    "Your task",
    "Run it",
    "When it goes wrong",
    "What you should see",
    "Check yourself",
    "Go further",
]
FEWEST_MISTAKES = 3


def lacking(section):
    """What an exercise's section should have: each part, in this order; an output, and mistakes, that CI checks."""
    if [title for title in re.findall(r"^### (.*)$", section, re.M) if title in PARTS] != PARTS:
        yield "lacks a part, or has them in another order: " + ", ".join(PARTS)
    run = section[section.find("### Run it") :]
    if not re.search(r"^```\n\./lab check \d", run[: run.find("<!-- output, ")], re.M):
        yield 'should begin its "Run it" with the command that checks it, before any output'
    if "<!-- output, " not in section:
        yield "shows no output that .ci/outputs.py checks"
    if section.count("<!-- mistake ") < FEWEST_MISTAKES:
        yield f"describes fewer than {FEWEST_MISTAKES} mistakes that .ci/outputs.py checks"


def wrong_handouts():
    for week in json.loads(pathlib.Path("labs/course.json").read_text())["weeks"]:
        handout = pathlib.Path("labs") / week["folder"] / "README.md"
        text = handout.read_text()
        extras = handout.with_name("extras.md").read_text()
        if f"(../../{GLOSSARY})" not in text:
            yield f"{handout} does not link the glossary"
        pages = {True: sections_of(text), False: sections_of(extras)}
        for exercise in week["exercises"]:
            identity, minutes, page = exercise["id"], exercise["minutes"], pages[exercise.get("core", True)]
            if f"(../../docs/learn/questions.md#{identity.replace('.', '')}-" not in page.get(identity, ""):
                yield f"{handout.parent}: {identity} is not on its page, or lacks the link to its answers"
            yield from (f"{handout.parent}: {identity} {fault}" for fault in lacking(page.get(identity, "")))
            if not exercise.get("core", True) and f"\n- [{identity} " not in extras:
                yield f"{handout.with_name('extras.md')}: the list at the top lacks {identity}"
            yield from effects.faults([identity])
            row = re.search(rf"^\| \[{re.escape(identity)} .*?\| (\d+) \|", text, re.M)
            if not row or int(row[1]) != minutes:
                yield f"{handout}: the table needs a row of {identity} with {minutes} minutes, as labs/course.json has"


INDEX = "labs/README.md"


def wrong_index(text, weeks, front):
    """The learner's index has every exercise, with its minutes and needs, extras in italics, none before one that it
    needs; and it and the front page have the course's hours."""
    rows = re.findall(r"^\| (\*?)\[(\d+\.\d+) [^|]*\| (\d+) \| ([^|]*) \|$", text, re.M)
    exercises = [e for week in weeks for e in week["exercises"]]
    shown = [(name, not star, int(minutes), set(needs.split(", ")) - {"–"}) for star, name, minutes, needs in rows]
    should = [(e["id"], e.get("core", True), e["minutes"], set(e["needs"])) for e in exercises]
    for name in sorted({row[0] for row in shown} ^ {row[0] for row in should}):
        yield f"{INDEX}: {name} is missing, or not an exercise"
    for row in (row for row in should if row not in shown):
        yield f"{INDEX}: the row of {row[0]} should have {row[2]} minutes, {', '.join(sorted(row[3]))}, core: {row[1]}"
    for place, row in enumerate(shown):
        if late := [need for need in row[3] if need not in (other[0] for other in shown[:place])]:
            yield f"{INDEX}: {row[0]} comes before {', '.join(sorted(late))}, which it needs"
    everything = exercises + [x for week in weeks for x in week.get("drills", []) + week.get("cards", [])]
    core = round(sum(x["minutes"] for x in everything if x.get("core", True)) / 60)
    every = round(sum(x["minutes"] for x in everything) / 60)
    said = " ".join(text.split())
    if f"core takes {core} hours" not in said or f"everything takes {every} hours" not in said:
        yield f"{INDEX}: the core takes {core} hours, and everything {every} hours"
    if f"weeks, {len(exercises)} exercises." not in said:
        yield f"{INDEX} does not say '{len(exercises)} exercises'"
    said = " ".join(front.split())
    counts = f"All {len(exercises)} exercises", f"{sum(e.get('core', True) for e in exercises)} of them are the core"
    for words in (*counts, f"{core} hours for the core"):
        if words not in said:
            yield f"README.md does not say '{words}'"


COMMANDS, CMAKE = "docs/use/commands.md", "docs/use/cmake.md"


def wrong_progress(text, weeks):
    """What ./lab prints to somebody who has done nothing counts the exercises and points of its week."""
    lines = re.findall(r"week (\d+)  .*: 0 of (\d+) exercises pass, 0 of (\d+) points", text)
    if not lines:
        yield f"{COMMANDS} does not show what ./lab prints of a week"
    for number, exercises, points in lines:
        week = next(w for w in weeks if w["number"] == int(number))["exercises"]
        should = len(week), sum(e["points"] for e in week)
        if (int(exercises), int(points)) != should:
            yield f"{COMMANDS}: week {number} has {should[0]} exercises and {should[1]} points"


REFERENCE = "docs/reference/README.md"


def wrong_front(front, reference):
    """The front page has the reference report's error of real processes."""
    found = re.search(
        r"measured ones by ([\d.]+) %(?: \(\d+ rows on a quiet computer; ([\d.]+) % over all)?", reference
    )
    quiet = f" while it was quiet ({float(found[2]):g}% over all rows)" if found and found[2] else ""
    claim = found and f"{found[1]}% on processes of one computer{quiet}"
    if not claim or claim not in " ".join(front.split()):
        yield f"README.md: the median error on real processes is not that of {REFERENCE}: {claim}"


ADDING = "docs/maintain/adding-a-lab.md"


def wrong_example(text, weeks, solution):
    """The entry and the region of 21.2 that the page shows are those that stand."""
    entry = next(e for week in weeks for e in week["exercises"] if e["id"] == "21.2")
    for key in ("name", "title", "core", "graded", "minutes", "reference_lines", "points", "needs", "links"):
        if f'"{key}": {json.dumps(entry[key])}' not in text:
            yield f"{ADDING}: the entry of 21.2 has another {key}: {json.dumps(entry[key])}"
    if (
        not (region := re.search(r"^ *// lab 21\.2b begin.*?(?=^ *for)", text, re.M | re.S))
        or region[0] not in solution
    ):
        yield f"{ADDING}: the region of 21.2b begins in another way"


CLAIMS = "docs/learn/claims.md"


def wrong_myths(text):
    """Each number of the list that opens the page stands in its tables, whose numbers are tested."""
    myths, _, rest = text.partition("\n## ")
    numbers = re.compile(r"\d+(?:[.,]\d+)*")
    known = set(numbers.findall(rest))
    items = re.split(r"^\d+\. ", myths, flags=re.M)[1:]
    for number, item in enumerate(items, 1):
        for lost in (n for n in numbers.findall(re.sub(r"^\*\*.*?\*\*", "", item, flags=re.S)) if n not in known):
            yield f"{CLAIMS}: {lost} of myth {number} is in no table"
    if len(items) != 10:
        yield f"{CLAIMS}: the ten myths are {len(items)}"


API, API_TEST = "docs/learn/api.md", "common/backends/tests/api_page_test.cpp"


def wrong_api():
    """The code of the page is that of the test, which runs on every backend."""
    code = re.search(r"^```cpp\n(.*?)^```$", pathlib.Path(API).read_text(), re.M | re.S)
    if not code or code[1] not in pathlib.Path(API_TEST).read_text():
        yield f"{API}: its first code block is not in {API_TEST}"


GUIDE = "docs/teach/instructors.md"


def wrong_syllabi(text, weeks):
    """Each syllabus has the course's minutes and points, and no exercise before one that it needs. Only 25.2, which can
    use every feature of the course, may need what a syllabus leaves out."""
    exercises = {e["id"]: e for week in weeks for e in week["exercises"]}
    others = {f"drill {d['id']}": d["minutes"] for week in weeks for d in week.get("drills", [])}
    others["design cards"] = sum(card["minutes"] for week in weeks for card in week.get("cards", []))
    syllabi = text.partition("\n## Syllabi\n")[2].partition("\n### What a short course drops\n")[0].split("\n### ")[1:]
    for syllabus in syllabi:
        name, taught = syllabus.splitlines()[0], []
        rows = re.findall(r"^\| (\d+) \| ([^|]+) \| (\d+) \| (\d+) \|$", syllabus, re.M)
        for week, items, minutes, points in rows:
            taken = items.split(", ")
            unknown = [item for item in taken if item not in exercises and item not in others]
            if unknown:
                yield f"{GUIDE}: {name}, week {week}: the course has no {', '.join(unknown)}"
                continue
            taught += [item for item in taken if item in exercises]
            takes = sum(exercises[x]["minutes"] if x in exercises else others[x] for x in taken)
            earns = sum(exercises[x]["points"] for x in taken if x in exercises)
            if (takes, earns) != (int(minutes), int(points)):
                yield f"{GUIDE}: {name}, week {week}: {takes} minutes and {earns} points in labs/course.json"
        for place, taken in enumerate(taught):
            missing = [need for need in exercises[taken]["needs"] if need not in taught[:place]]
            if missing and (taken != "25.2" or set(missing) & set(taught)):
                yield f"{GUIDE}: {name}: {taken} needs {', '.join(missing)} before it"
    if not syllabi:
        yield f"{GUIDE}: the syllabi are gone"


def files_of(text):
    """Files that a page's commands read or write, and for a folder a file in it; names in capitals are placeholders."""
    commands = [
        line for line in text.splitlines() if re.search(r"\./lab |launch/\S+\.sh |make_class\.py |printf ", line)
    ]
    named, folders = set(), set()
    for line in commands:
        named.update(re.findall(r"(?<![\w./-])[\w.-]+(?:/[\w.-]+)*\.(?:csv|json|xml|zip)\b", line))
        folders.update(
            re.findall(r"(?:--out|--feedback|pack\.sh \S+|make_class\.py \S+) ([\w./-]*[\w-])(?![\w.])", line)
        )
    found = named | {f"{folder}/file" for folder in folders if not re.search(r"\.\w+$", folder)}
    return sorted(name for name in found if name == name.lower())


def not_ignored(text):
    """Files of the guide's commands that git would list as new: grading must see a clean clone."""
    tracked = set(subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout.splitlines())
    for name in files_of(text):
        if name not in tracked and subprocess.run(["git", "check-ignore", "-q", name]).returncode != 0:
            yield f"{GUIDE}: {name} is not in .gitignore"


def wrong_class(text):
    """The class whose outputs the guide shows is the one that its own command makes."""
    made = re.search(r"^\$ python3 (tools/tests/make_class\.py \.) handed-in (.*)\n\$ ls handed-in\n(.*)$", text, re.M)
    if not made:
        yield f"{GUIDE}: the command that makes a class is gone"
        return
    with tempfile.TemporaryDirectory() as folder:
        out = f"{folder}/class"
        subprocess.run([sys.executable, *made[1].split(), out, *made[2].split()], check=True)
        names = sorted(os.listdir(out))
    for what, shown in (
        ("ls", made[3].split()),
        ("./lab grade", re.findall(r"^== handed-in/(\S+) \(\d+ of \d+\)$", text, re.M)),
    ):
        if shown != names:
            yield f"{GUIDE}: {what} shows {', '.join(shown)}, and the class is {', '.join(names)}"


TERMS = ".ci/terms.txt"
MESSAGES = "docs/maintain/messages.txt"  # what programs print, from .ci/messages.py


def banned(text):
    """Each word or phrase of the terms file, and what to say instead."""
    rows = [line.partition(" = ") for line in text.splitlines() if " = " in line and not line.startswith("#")]
    return {word.strip(): instead for words, _, instead in rows for word in words.split(";")}


def banned_words(path, text, words):
    """Where prose has one of them; code may."""
    blank = lambda match: re.sub(r"[^\n]", " ", match[0])
    prose = re.sub(r"`[^`\n]*`", blank, FENCE.sub(blank, text))
    for word, instead in words.items():
        for match in re.finditer(r"\b" + r"\s+".join(map(re.escape, word.split())) + r"\b", prose, re.I):
            found = " ".join(match[0].split())
            yield f"{path}:{prose.count(chr(10), 0, match.start()) + 1}: '{found}': say {instead}"


def density(files):
    """How the pages for readers are written: the share of sentences with a colon or semicolon, and how often they say
    you or we. For information."""
    text = "\n\n".join(FENCE.sub("", pathlib.Path(file).read_text()) for file in files)
    prose = re.sub(r"^\s*([|#!<]|\d+\.|[-*] ).*$|`[^`\n]*`|\]\([^)]*\)", " ", text, flags=re.M)
    sentences = [s for s in re.split(r"(?<=[.!?])\s+|\n\s*\n", prose) if len(s.split()) > 2]
    words = re.findall(r"[A-Za-z']+", " ".join(sentences))
    dense = sum(bool(re.search(r"[:;](\s|$)", sentence)) for sentence in sentences) / len(sentences)
    spoken = sum(word.lower() in ("you", "your", "we", "our", "us") for word in words) / len(words)
    return (
        f"{100 * dense:.0f}% of the sentences have a colon or semicolon, {100 * spoken:.1f} words per 100 are you or we"
    )


def wrong_spelling():
    """What programs say and what their comments say is spelled as the pages are: handout."""
    found = subprocess.run(
        ["git", "grep", "-inE", "hand[-]out", "--", ":!*.md", f":!{TERMS}"], capture_output=True, text=True
    ).stdout
    yield from (f"{line}: say handout" for line in found.splitlines())


def not_executable(path, text):
    """Scripts that a page runs without sh before them, and that cannot be run so."""
    for script in re.findall(r"(?:^(?:\$ )?|`)(?:\./)?([\w.-]+(?:/[\w.-]+)*/[\w-]+\.sh) ", text, re.M):
        if pathlib.Path(script).is_file() and not os.access(script, os.X_OK):
            yield f"{path}: {script} is run directly, but is not executable"


def wrong_words(files):
    words = banned(pathlib.Path(TERMS).read_text())
    for file in files:
        yield from banned_words(file, pathlib.Path(file).read_text(), words)
    if not words:
        yield f"{TERMS}: there are no words"


def main():
    if sys.argv[1:]:
        wrong = [line for file in sys.argv[1:] for line in wrong_links(pathlib.Path(file))]
        sys.exit("\n".join(wrong) or 0)
    files = subprocess.run(["git", "ls-files", "*.md"], capture_output=True, text=True, check=True).stdout.split()
    wrong = (
        [line for file in files for line in wrong_links(pathlib.Path(file))]
        + list(wrong_handouts())
        + list(wrong_glossary())
        + list(wrong_bridge())
        + list(wrong_api())
        + list(
            wrong_index(
                pathlib.Path(INDEX).read_text(),
                json.loads(pathlib.Path("labs/course.json").read_text())["weeks"],
                pathlib.Path("README.md").read_text(),
            )
        )
        + list(wrong_myths(pathlib.Path(CLAIMS).read_text()))
        + list(wrong_front(pathlib.Path("README.md").read_text(), pathlib.Path(REFERENCE).read_text()))
        + list(wrong_words([*files, MESSAGES]))
        + list(wrong_spelling())
    )
    weeks = json.loads(pathlib.Path("labs/course.json").read_text())["weeks"]
    wrong += wrong_progress(pathlib.Path(COMMANDS).read_text(), weeks)
    count = f"0 of {sum(len(week['exercises']) for week in weeks)} exercises pass"
    wrong += [f"{CMAKE} does not say '{count}'"] if count not in pathlib.Path(CMAKE).read_text() else []
    wrong += wrong_syllabi(pathlib.Path(GUIDE).read_text(), weeks)
    wrong += not_ignored(pathlib.Path(GUIDE).read_text())
    wrong += wrong_class(pathlib.Path(GUIDE).read_text())
    wrong += [line for file in files for line in lost_items(file, pathlib.Path(file).read_text())]
    wrong += [line for file in files for line in not_executable(file, pathlib.Path(file).read_text())]
    answer = pathlib.Path("solutions/week21_data_parallel/ring_all_reduce.cpp").read_text()
    wrong += wrong_example(pathlib.Path(ADDING).read_text(), weeks, answer)
    print(
        "\n".join(wrong)
        if wrong
        else (
            f"{len(files)} Markdown files: every link leads somewhere, the handouts agree with the course, and no word"
            " is banned"
        )
    )
    print(density([file for file in files if not file.startswith("docs/reference")]))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
