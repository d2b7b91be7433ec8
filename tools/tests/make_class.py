#!/usr/bin/env python3
"""make_class.py SOURCE OUT [COUNT] [--week 21]: submissions as a class hands them in, the same ones every time.

Right answers (the reference's), wrong ones (its planted mistakes), skeletons, empty files and missing ones, in folders
and archives; every sixth submission is hostile: in its name, its files or its archive.
"""

import argparse
import json
import pathlib
import random
import tarfile
import zipfile

HOSTILE_NAMES = [
    '"><img src=x onerror=alert(1)>',
    "=HYPERLINK(1)",
    "a..b",
    "\u202etxt.exe",
    "<script>alert(1)<script>",
    "a'b&amp;c",
]
CHEATS = {
    "forges a verdict and leaves": (
        '#include <cstdlib>\n#include <cstdio>\nnamespace { const int k = [] { std::puts("21.1 PASS"); '
        "std::exit(0); return 0; }(); }\n"
    ),
    "calls the kernel": 'void never_called() { asm volatile("nop"); }\n',
    "includes the reference": '#include "solutions/week21_data_parallel/ddp.cpp"\n',
    "never ends": (
        "#include <ctime>\nnamespace { const int k = [] { while (std::time(nullptr) > 0) {} return 0; }(); }\n"
    ),
    "prints a page": '#include <cstdio>\nnamespace { const int k = std::puts("<script>alert(2)</script>\\x1b[2J"); }\n',
    "shows its arguments": (
        "#include <fstream>\n#include <iostream>\nnamespace { const int k = [] { std::ifstream"
        ' in("/proc/self/cmdline"); std::cout << in.rdbuf(); return 0; }(); }\n'
    ),
}


def answers_of(source, week):
    course = json.loads((source / "labs/course.json").read_text())
    exercises = [e for w in course["weeks"] if w["number"] == week for e in w["exercises"] if e["graded"]]
    folder = next(w["folder"] for w in course["weeks"] if w["number"] == week)
    answers = {}
    for e in exercises:
        right = (source / "solutions" / folder / (e["name"] + ".cpp")).read_text()
        mistakes = source / "tools/mutants" / folder / (e["name"] + ".json")
        wrong = (
            [right.replace(m["replace"], m["with"]) for m in json.loads(mistakes.read_text())]
            if mistakes.exists()
            else []
        )
        answers[e["name"]] = {
            "right": right,
            "wrong": wrong,
            "skeleton": (source / "labs" / folder / (e["name"] + ".cpp")).read_text(),
        }
    return folder, answers


def student(draw, answers):
    """A student: some exercises right, some wrong, some not begun."""
    skill, files = draw.random(), {}
    for name, kinds in answers.items():
        luck = draw.random()
        if luck < skill or not kinds["wrong"]:
            files[name] = kinds["right"]
        elif luck < 0.5 + skill / 2:
            files[name] = draw.choice(kinds["wrong"])
        elif luck < 0.9:
            files[name] = draw.choice([kinds["skeleton"], "", kinds["right"].replace(";", "", 1)])
    return files


def hand_in(out, name, folder, files, kind):
    inside = {f"{folder}/{file}.cpp": text for file, text in files.items()}
    if kind == "zip":
        with zipfile.ZipFile(out / (name + ".zip"), "w", zipfile.ZIP_DEFLATED) as archive:
            for path, text in inside.items():
                archive.writestr(path, text)
    elif kind == "tar":
        with tarfile.open(out / (name + ".tar.gz"), "w:gz") as archive:
            for path, text in inside.items():
                scratch = out / ".entry"
                scratch.write_text(text)
                archive.add(scratch, path)
                scratch.unlink()
    else:
        (out / name).mkdir()
        for path, text in inside.items():
            (out / name / path).parent.mkdir(exist_ok=True)
            (out / name / path).write_text(text)


def hostile(out, draw, number, folder, answers):
    files = student(draw, answers)
    name = HOSTILE_NAMES[number % len(HOSTILE_NAMES)] + (f" {number}" if number >= len(HOSTILE_NAMES) else "")
    cheat = list(CHEATS.values())[number % len(CHEATS)]
    file = list(answers)[number % len(answers)]
    files[file] = cheat + answers[file]["right"]
    hand_in(out, name, folder, files, "folder" if number % 2 else "zip")


def broken(out, number):
    """What cannot be graded at all."""
    kinds = [
        lambda f: f.with_suffix(".zip").write_bytes(b"PK\x03\x04no archive"),
        lambda f: f.mkdir(),
        lambda f: f.with_suffix(".tar.gz").write_bytes(b""),
    ]
    kinds[number % len(kinds)](out / f"broken{number}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("count", type=int, nargs="?", default=30)
    parser.add_argument("--week", type=int, default=21)
    parser.add_argument("--only", help="names of exercises, with commas: else all of the week")
    arguments = parser.parse_args()
    folder, answers = answers_of(arguments.source, arguments.week)
    if arguments.only:
        answers = {name: answers[name] for name in arguments.only.split(",")}
    arguments.out.mkdir(parents=True)
    draw = random.Random(21)
    for i in range(arguments.count):
        if i % 6 == 5:
            hostile(arguments.out, draw, i // 6, folder, answers)
        elif i % 10 == 8:
            broken(arguments.out, i // 10)
        else:
            hand_in(arguments.out, f"student{i:02d}", folder, student(draw, answers), ["folder", "zip", "tar"][i % 3])


main()
