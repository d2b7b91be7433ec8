#!/usr/bin/env python3
"""pages.py finds the words of .ci/terms.txt, in prose only, items of lists that paragraphs have swallowed, and pages
that do not agree with the course."""

import pathlib
import unittest

import pages

TERMS = "# not = but\nmend; mended = fix\ngoes before = takes precedence over\n"


class BannedWords(unittest.TestCase):
    def found(self, text):
        return list(pages.banned_words("a.md", text, pages.banned(TERMS)))

    def test_each_is_found_with_its_line_and_what_to_say(self):
        self.assertEqual(self.found("Fine.\n\nThen mend it.\n"), ["a.md:3: 'mend': say fix"])
        self.assertEqual(self.found("| Mended | x |\n"), ["a.md:1: 'Mended': say fix"])

    def test_a_phrase_is_found_across_lines(self):
        self.assertEqual(
            self.found("the option goes\nbefore the file"), ["a.md:1: 'goes before': say takes precedence over"]
        )

    def test_parts_of_words_are_other_words(self):
        self.assertEqual(self.found("Amend the recommended one."), [])

    def test_code_and_output_may_say_what_they_say(self):
        self.assertEqual(self.found("`mend` it:\n\n```\n$ ./mend\n```\n"), [])
        self.assertEqual(self.found("```\n$ run\n```\nThen mend.\n"), ["a.md:4: 'mend': say fix"])

    def test_the_committed_terms_are_many_and_each_is_found(self):
        words = pages.banned(pathlib.Path(pages.TERMS).read_text())
        self.assertGreater(len(words), 10)
        self.assertIn("the whole, judged", words)
        for word, instead in words.items():
            self.assertEqual(
                list(pages.banned_words("a.md", f"So {word}.", words)), [f"a.md:1: '{word}': say {instead}"]
            )


class LostItems(unittest.TestCase):
    def found(self, text):
        return list(pages.lost_items("a.md", text))

    def test_an_item_within_a_line_or_indented_below_one_is_found(self):
        said = "of a list does not begin its line"
        self.assertEqual(self.found("1. **a** — one.\n   More. 2. **b** — two.\n"), [f"a.md:2: item 2 {said}"])
        self.assertEqual(
            self.found("1. **a** — one.\n   2. **b, bytes** — two. 3.\n   **c, seconds** — three.\n"),
            [f"a.md:2: item 2 {said}", f"a.md:2: item 3 {said}"],
        )

    def test_items_that_begin_their_line_are_right(self):
        self.assertEqual(self.found("1. **a** — one.\n2. **b** — two, 1.5 **bold**.\n\n   1. **a** — inner\n"), [])
        self.assertEqual(self.found("```\na 2. **b** c\n```\n"), [])


class Parts(unittest.TestCase):
    SECTION = (
        "".join(f"### {part}\n\n" for part in pages.PARTS)
        + "```\n./lab check 1.1\n```\n"
        + "<!-- output, todo: x -->\n"
        + 3 * "<!-- mistake 1.1: x -->\n"
    )

    def faults(self, old, new):
        self.assertIn(old, self.SECTION)
        return list(pages.lacking(self.SECTION.replace(old, new, 1)))

    def test_all_of_them_is_well(self):
        self.assertEqual(list(pages.lacking(self.SECTION)), [])

    def test_what_is_missing_is_found(self):
        self.assertIn("lacks a part", self.faults("### Predict\n", "")[0])
        self.assertIn("with the command that checks it", self.faults("./lab check 1.1", "./lab hint 1.1")[0])
        self.assertIn("shows no output", self.faults("<!-- output,", "<!-- no output,")[0])
        self.assertIn("fewer than 3 mistakes", self.faults("<!-- mistake", "<!--")[0])
        self.assertIn(
            "another order", self.faults("### Why\n\n### You will be able to", "### You will be able to\n\n### Why")[0]
        )


class Index(unittest.TestCase):
    WEEKS = [
        {
            "exercises": [
                {"id": "1.1", "minutes": 30, "needs": []},
                {"id": "1.3", "minutes": 60, "needs": ["1.1"]},
                {"id": "1.2", "minutes": 60, "needs": ["1.3"], "core": False},
            ],
            "drills": [{"id": "1", "minutes": 30}, {"id": "2", "minutes": 60, "core": False}],
        }
    ]
    ROWS = ("| [1.1 A](a#b) | 30 | – |", "| [1.3 B](a#b) | 60 | 1.1 |", "| *[1.2 C](a#b)* | 60 | 1.3 |")
    HOURS = "Two weeks, 3 exercises.\nThe core\ntakes 2 hours, everything takes 4 hours.\n"
    FRONT = "All 3 exercises; 2 of them are the core, 2 hours for the\ncore."

    def found(self, *rows, hours=HOURS, front=FRONT):
        return list(pages.wrong_index("\n".join([hours, *rows]), self.WEEKS, front))

    def test_all_as_in_the_course_is_well(self):
        self.assertEqual(self.found(*self.ROWS), [])

    def test_a_row_that_differs_is_found(self):
        a, b, c = self.ROWS
        self.assertIn("1.2 is missing", self.found(a, b)[0])
        self.assertIn("1.1 should have 30 minutes", self.found(a.replace("30", "31"), b, c)[0])
        self.assertIn("1.3 should have 60 minutes, 1.1", self.found(a, b.replace("1.1 |", "– |"), c)[0])
        self.assertIn("1.2 should have", self.found(a, b, c.replace("*", ""))[0])

    def test_an_exercise_before_what_it_needs_is_found(self):
        a, b, c = self.ROWS
        self.assertEqual(self.found(a, c, b), ["labs/README.md: 1.2 comes before 1.3, which it needs"])

    def test_hours_and_counts_are_the_courses(self):
        self.assertIn("the core takes 2 hours", self.found(*self.ROWS, hours="")[0])
        self.assertIn("'3 exercises'", self.found(*self.ROWS, hours=self.HOURS.replace("3", "4"))[0])
        self.assertIn("'All 3 exercises'", self.found(*self.ROWS, front=self.FRONT.replace("3", "4"))[0])
        self.assertIn("'2 hours for the core'", self.found(*self.ROWS, front=self.FRONT.replace(", 2", ", 9"))[0])


class Progress(unittest.TestCase):
    def test_counts_are_those_of_the_week(self):
        weeks = [{"number": 7, "exercises": [{"points": 5}, {"points": 6}]}]
        line = "week 7  A title: 0 of {} exercises pass, 0 of {} points"
        self.assertEqual(list(pages.wrong_progress(line.format(2, 11), weeks)), [])
        for numbers in ((3, 11), (2, 12)):
            self.assertIn("2 exercises and 11 points", *pages.wrong_progress(line.format(*numbers), weeks))
        self.assertIn("does not show", *pages.wrong_progress("week 7: none of 2", weeks))


class Front(unittest.TestCase):
    def test_the_error_is_the_reports(self):
        report = "predictions miss simulated ones by 0.0 % (9 rows), measured ones by 11.4 % (1 row)"
        said = "- 11.4% on processes\nof one computer."
        self.assertEqual(list(pages.wrong_front(said, report)), [])
        self.assertEqual(len(list(pages.wrong_front(said.replace("11", "12"), report))), 1)
        self.assertEqual(len(list(pages.wrong_front(said, ""))), 1)
        report = "measured ones by 8.4 % (8 rows on a quiet computer; 15.0 % over all 169 rows)"
        said = "8.4% on processes of one computer while it was quiet (15% over all rows)"
        self.assertEqual(list(pages.wrong_front(said, report)), [])
        self.assertEqual(len(list(pages.wrong_front(said.replace("15", "14"), report))), 1)


class Myths(unittest.TestCase):
    def test_each_number_is_in_a_table(self):
        text = "# M\n\n" + "".join(f'{i}. **"Says 77."** It is 1,024 or 0.5%.\n' for i in range(1, 11))
        rest = "\n## Week 1\n\n| 1,024 and 0.5 |\n"
        self.assertEqual(list(pages.wrong_myths(text + rest)), [])
        self.assertEqual(len(list(pages.wrong_myths(text.replace("0.5", "0.6", 1) + rest))), 1)
        self.assertIn("are 11", list(pages.wrong_myths(text + "11. x\n" + rest))[0])


class Syllabi(unittest.TestCase):
    WEEKS = [
        {
            "exercises": [
                {"id": "1.1", "minutes": 20, "points": 5, "needs": []},
                {"id": "1.2", "minutes": 30, "points": 10, "needs": ["1.1"]},
                {"id": "25.2", "minutes": 40, "points": 15, "needs": ["1.1", "1.2"]},
            ],
            "drills": [{"id": "1", "minutes": 20}],
        }
    ]

    def found(self, *rows):
        text = "\n## Syllabi\n\n### One week\n\n" + "\n".join(rows) + "\n\n### What a short course drops\n"
        return [line.partition("One week")[2] for line in pages.wrong_syllabi(text, self.WEEKS)]

    def test_minutes_and_points_are_the_courses(self):
        self.assertEqual(self.found("| 1 | 1.1, 1.2, drill 1 | 70 | 15 |"), [])
        self.assertEqual(
            self.found("| 1 | 1.1, 1.2 | 70 | 15 |"), [", week 1: 50 minutes and 15 points in labs/course.json"]
        )
        self.assertEqual(self.found("| 1 | 1.1, 1.3 | 50 | 15 |"), [", week 1: the course has no 1.3"])

    def test_an_exercise_comes_after_what_it_needs(self):
        self.assertEqual(self.found("| 1 | 1.2 | 30 | 10 |", "| 2 | 1.1 | 20 | 5 |"), [": 1.2 needs 1.1 before it"])
        self.assertEqual(self.found("| 1 | 1.1, 25.2 | 60 | 20 |"), [])  # 25.2 borrows what is left out
        self.assertEqual(
            self.found("| 1 | 25.2, 1.1 | 60 | 20 |"), [": 25.2 needs 1.1, 1.2 before it"]
        )  # but not what comes later

    def test_without_syllabi_it_says_so(self):
        self.assertEqual(list(pages.wrong_syllabi("", [])), [f"{pages.GUIDE}: the syllabi are gone"])


class AClass(unittest.TestCase):
    def test_it_is_the_one_that_its_command_makes(self):
        text = (
            "$ python3 tools/tests/make_class.py . handed-in 2 --only naive_all_reduce\n$ ls handed-in\n"
            "student00  student01.zip\n== handed-in/student00 (1 of 2)\n== handed-in/student01.zip (2 of 2)\n"
        )
        self.assertEqual(list(pages.wrong_class(text)), [])
        found = list(pages.wrong_class(text.replace("== handed-in/student01.zip", "== handed-in/student01")))
        self.assertEqual(len(found), 1)
        self.assertIn("./lab grade shows student00, student01, and", found[0])
        self.assertIn("is gone", list(pages.wrong_class(""))[0])


class Ignored(unittest.TestCase):
    def test_files_of_commands_are_found(self):
        text = (
            "a file notes.csv\n./lab class grades --times times.csv --feedback grades/feedback\n"
            "`./lab grade x/* --out grades` and `launch/autolab/pack.sh 21:core autolab` write it\n"
            "printf 'a,b\\n' > extensions.csv\n./lab handout FILE.zip\n./lab grade x --out one.json --junit one.xml\n"
        )
        self.assertEqual(
            pages.files_of(text),
            [
                "autolab/file",
                "extensions.csv",
                "grades/feedback/file",
                "grades/file",
                "one.json",
                "one.xml",
                "times.csv",
            ],
        )


if __name__ == "__main__":
    unittest.main()
