#!/usr/bin/env python3
"""changed.py: no file that changed escapes clang-tidy, and no exercise whose verdicts may have. outputs.py: whose
answer a command is run with."""

import json
import pathlib
import unittest

from changed import RUNTIME, SHARED, TURNS, code_of, exercises_of, in_turn, read_again, with_includers
from outputs import all_pages, exercise_of, pairs_of

EDGES = [
    ("a/one.cpp", "a/one.hpp"),
    ("a/two.cpp", "a/one.hpp"),
    ("a/one.hpp", "a/deep.hpp"),
    ("b/three.cpp", "b/three.hpp"),
]


class Changed(unittest.TestCase):
    def test_a_changed_file_is_read(self):
        self.assertEqual(read_again({"a/two.cpp"}, EDGES), {"a/two.cpp"})

    def test_a_header_is_read_with_its_namesake(self):
        self.assertEqual(read_again({"b/three.hpp", "a/one.hpp"}, EDGES), {"b/three.cpp", "a/one.cpp"})

    def test_a_header_that_another_header_includes_is_read(self):
        self.assertEqual(read_again({"a/deep.hpp"}, EDGES), {"a/one.cpp"})

    def test_a_header_is_not_read_twice(self):
        self.assertEqual(read_again({"a/deep.hpp", "a/two.cpp"}, EDGES), {"a/two.cpp"})

    def test_who_includes_a_changed_file_is_found(self):
        self.assertEqual(with_includers({"a/deep.hpp"}, EDGES), {"a/deep.hpp", "a/one.hpp", "a/one.cpp", "a/two.cpp"})

    def test_an_exercise_is_one_of_its_files(self):
        course = {
            "weeks": [{"folder": "w", "exercises": [{"id": "1.1", "name": "ring"}, {"id": "1.2", "name": "rings"}]}]
        }
        for path in "solutions/w/ring.cpp", "labs/w/ring_test.cpp", "tools/mutants/w/ring.json":
            self.assertEqual(list(exercises_of({path}, course)), ["1.1"])

    def test_code_is_what_no_comment_is(self):
        code = "/// Adds.\nint f(int a) {\n  // so\n\n  return a + 1;  // one\n}\n"
        self.assertEqual(code_of(code), code_of(code.replace("so", "thus")))
        self.assertNotEqual(code_of(code), code_of(code.replace("so", "thus,\n  // then")))
        self.assertNotEqual(code_of(code), code_of(code.replace("a + 1", "a - 1")))
        self.assertNotEqual(code_of(code), code_of(code.replace("return", "// return")))
        self.assertEqual(code_of(code), code_of(code.replace("one", "1, with 'quotes\" in it")))
        self.assertNotEqual(code_of('s = "// a";'), code_of('s = "// b";'))
        self.assertNotEqual(code_of(code), code_of(code.replace("// one", "// NOLINT")))
        self.assertNotEqual(code_of("f(/*up=*/1);"), code_of("f(/*down=*/1);"))
        text = 'auto s = R"(\n// a\n)";'
        self.assertNotEqual(code_of(text), code_of(text.replace("// a", "// b")))
        self.assertNotEqual(code_of("// a \\\nf();\n"), code_of("// a\nf();\n"))

    def test_each_comes_in_its_turn(self):
        everything = [str(n) for n in range(49)]
        self.assertEqual(sorted(sum((in_turn(everything, turn) for turn in range(TURNS)), [])), sorted(everything))

    def test_every_output_is_of_an_exercise(self):
        course = json.loads(pathlib.Path("labs/course.json").read_text())
        known = {exercise["id"] for week in course["weeks"] for exercise in week["exercises"]}
        commands = [command for page in all_pages() for command, _ in pairs_of(page)]
        self.assertGreater(len(commands), 300)
        self.assertLessEqual(set(map(exercise_of, commands)), known)
        self.assertEqual(exercise_of("./lab check 21.2a --ranks 24 --trace"), "21.2")
        self.assertEqual(exercise_of("./lab plan --memory 24.5GB --top 1 # 25.6"), "25.6")

    def test_what_judges_is_not_the_runtime(self):
        for path in "common/devices/cpu/gelu.cpp", "cmake/LockstepBlas.cmake":
            self.assertTrue(RUNTIME.match(path), path)
        for path in "common/testing/cases.cpp", "cmake/LockstepMine.cmake", "tools/mutants/mutants.cpp":
            self.assertFalse(RUNTIME.match(path), path)

    def test_what_only_gpus_need_changes_no_exercise(self):
        for path in "common/devices/cuda/gemm.cpp", "common/testing/fakes/cuda/gemm.cpp", "common/runtime/tests/a.cpp":
            self.assertFalse(SHARED["exercises"].match(path), path)
            self.assertTrue(SHARED["gpu"].match(path), path)
        for path in "common/rank.hpp", "common/devices/cpu/gelu.cpp", "common/testing/cases.cpp", "common/chunk.hpp":
            self.assertTrue(SHARED["exercises"].match(path) and SHARED["handouts"].match(path), path)


if __name__ == "__main__":
    unittest.main()
