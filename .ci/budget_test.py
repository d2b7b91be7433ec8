#!/usr/bin/env python3
"""Of budget.py: shares of a log of Ninja, and what has grown."""

import unittest

from budget import cpu_seconds, grown, shares

LOG = "# ninja log v5\n0\t3000\t1\ta.o\tx\n0\t1000\t1\tb.o\tx\n3000\t4000\t1\tb.o\ty\n"


class Budget(unittest.TestCase):
    def test_an_output_counts_as_it_was_made_last(self):
        self.assertEqual(shares(LOG), {"a.o": 0.75, "b.o": 0.25})

    def test_what_has_grown_most_comes_first_and_what_is_new_has_grown(self):
        self.assertEqual(grown({"a": 0.5, "b": 0.3, "new": 0.2}, {"a": 0.45, "b": 0.55}), ["new", "a"])

    def test_cpu_time_is_that_of_children_and_the_exit_code_theirs(self):
        seconds, code = cpu_seconds(["sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done; exit 3"])
        self.assertGreater(seconds, 0)
        self.assertEqual(code, 3)


if __name__ == "__main__":
    unittest.main()
