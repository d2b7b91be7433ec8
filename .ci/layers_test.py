#!/usr/bin/env python3
"""layers.py finds what it is for: in small trees, each with one fault."""

import os
import subprocess
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))


def run_on(files):
    """layers.py's exit code and what it said of a tree of these files: path to text."""
    with tempfile.TemporaryDirectory() as root:
        subprocess.run(["git", "init", "-q", root], check=True)
        for path, text in files.items():
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
        subprocess.run(["git", "-C", root, "add", "-A"], check=True)
        done = subprocess.run(
            ["python3", os.path.join(HERE, "layers.py"), root], capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout


GROUND = {"common/rank.hpp": "", "common/runtime/run.hpp": '#include "common/rank.hpp"\n'}


class Layers(unittest.TestCase):
    def test_down_is_well(self):
        code, said = run_on(GROUND)
        self.assertEqual(code, 0, said)

    def test_up(self):
        for path, text in {
            "common/slice.hpp": '#include "common/runtime/run.hpp"\n',
            "common/runtime/x.cpp": '#  include "common/testing/y.hpp"\n',
            "common/devices/x.cu": '#include "common/backends/y.hpp"\n',
            "labs/week25/x_test.cpp": '#include "tools/plan/y.hpp"\n',
            "solutions/week25/x.cpp": '#include "labs/trainer/y.hpp"\n',
            "tools/x.cpp": '#include "bench/support/y.hpp"\n',
            "common/gpt/tests/x_test.cpp": '#include "labs/week21/y.hpp"\n',
        }.items():
            target = text.split('"')[1]
            code, said = run_on({**GROUND, path: text, target: ""})
            self.assertEqual(code, 1, path)
            self.assertIn(f"{path} includes {target}", said)

    def test_beside(self):
        """A path from the file's own folder is followed too."""
        code, said = run_on({**GROUND, "common/support/x.hpp": '#include "../runtime/run.hpp"\n'})
        self.assertEqual(code, 1, said)

    def test_circle(self):
        code, said = run_on(
            {
                "common/support/a/a.hpp": '#include "common/support/b/b.hpp"\n',
                "common/support/b/b.hpp": "",
                "common/support/b/c.cpp": '#include "common/support/c/c.hpp"\n',
                "common/support/c/c.hpp": '#include "common/support/a/a.hpp"\n',
            }
        )
        self.assertEqual(code, 1)
        self.assertIn(
            "a circle of folders: common/support/a -> common/support/b -> common/support/c -> common/support/a", said
        )

    def test_tests_may(self):
        code, said = run_on(
            {
                **GROUND,
                "common/runtime/tests/x_test.cpp": '#include "common/testing/y.hpp"\n',
                "common/testing/y.hpp": "",
                "labs/week25/x_test.cpp": '#include "labs/trainer/y.hpp"\n',
                "labs/trainer/y.hpp": "",
            }
        )
        self.assertEqual(code, 0, said)

    def test_helpers_of_tests_are_called_so(self):
        include = '#include "common/testing/y.hpp"\n'
        files = {**GROUND, "common/testing/y.hpp": ""}
        code, said = run_on({**files, "labs/week25/x.hpp": include})
        self.assertEqual(code, 1)
        self.assertIn("labs/week25/x.hpp includes common/testing/y.hpp, as only tests do", said)
        code, said = run_on({**files, "labs/week25/x_testing.hpp": include})
        self.assertEqual(code, 0, said)

    def test_crowd(self):
        code, said = run_on({**GROUND, **{f"bench/many/{i}/x.txt": "" for i in range(13)}})
        self.assertEqual(code, 1)
        self.assertIn("bench/many has 13 sub-folders", said)

    def test_nothing_found(self):
        code, _ = run_on({"bench/x.txt": ""})
        self.assertEqual(code, 1)

    def test_the_core_is_as_the_architecture_says(self):
        wrong = {**GROUND, "docs/maintain/architecture.md": "| together | 7 |\n"}
        code, said = run_on(wrong)
        self.assertEqual(code, 1)
        self.assertIn("lacks the core's table", said)
        table = said[said.index("| core |") : said.index("| together |")] + "| together | 0 |\n"
        self.assertEqual(run_on({**wrong, "docs/maintain/architecture.md": table})[0], 0)
        too_long = {**wrong, "docs/maintain/architecture.md": table, "solutions/x.cpp": "//\n" * 40000}
        self.assertIn("the core has 40001 lines, more than", run_on(too_long)[1])


if __name__ == "__main__":
    unittest.main()
