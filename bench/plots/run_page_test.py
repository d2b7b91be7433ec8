"""Tests of the pages of a run and of a plan, from files as ./lab train and plan --page keep them. See test.sh."""

import contextlib
import io
import json
import pathlib
import tempfile
import unittest

import page
import plan_page
import run_page
from report_cases import CONTEXT, PLAN, TRAIN

try:
    import folder_figures
except ImportError:
    folder_figures = None

RUN = dict(TRAIN, ranks=2, batch_sequences=8, sequence_tokens=64, accumulate=1, predicted_parameter_bytes=4e6)
RUN |= {f"{stem}_bytes_peak": 4e6 for _, stem in run_page.PARTS}
RUN |= {f"predicted_{stem}_bytes": 4e6 for _, stem in run_page.PARTS}
SCALE = [
    {"ranks": 1, "program": "serial", "best": True, "tokens_per_second": 600.0, "seconds": 1.0, "backend": "mpi"},
    {
        "ranks": 2,
        "program": "2 ranks",
        "tokens_per_second": 1000.0,
        "seconds": 1.2,
        "backend": "mpi",
        "speedup": 1.7,
        "efficiency": 0.85,
        "efficiency_low": 0.8,
        "efficiency_high": 0.9,
        "samples": 31,
        "compute_seconds": 1.1,
        "exposed_seconds": 0.1,
    },
]


class Pages(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = pathlib.Path(folder.name)
        (self.out / "data").mkdir()

    def write(self, name, rows, **context):
        document = {"context": {**CONTEXT, **context}, "rows": rows}
        (self.out / "data" / name).write_text(json.dumps(document))

    def text(self, name, text):
        (self.out / "data" / name).write_text(text)

    def made(self, module):
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            parts = module.sections(page.Report(self.out, []), self.out)
        return "".join(parts), said.getvalue()

    def whole_run(self, **context):
        self.write("run.json", [RUN], **context)
        self.write("scale.json", SCALE)
        self.write("why.json", [{"cost": "communication", "seconds": 1, "seconds_without": 0.9, "gained": 0.1}])
        self.text("why.txt", "limit     communication limits this run.\n")
        self.text("run.csv", "step,loss,validation_loss\n1,5.5,\n2,5.0,5.1\n")
        self.text("command.txt", "./lab train --dp 2 --page out\n0\n")

    def test_the_page_says_what_the_files_say(self):
        self.whole_run(code="yours: 21.2; borrowed: 21.7")
        text, said = self.made(run_page)
        self.assertEqual(said, "")
        for words in (
            "85.0 % (80.0 to 90.0 %)",
            "16 MB",
            "Communication limits this run",
            "yours: 21.2",
            "147044b6b6c8",
        ):
            self.assertIn(words, text)

    @unittest.skipUnless(folder_figures, "no matplotlib")
    def test_every_figure_is_drawn(self):
        self.whole_run()
        drawn = {chart.name: folder_figures.draw(chart) for chart in run_page.charts(self.out)}
        self.assertEqual(set(drawn), {"breakdown", "gains", "memory", "losses"})
        for name, figure in drawn.items():
            self.assertTrue(figure, name)
            self.assertTrue(figure.sources, name)

    def test_the_learners_words_are_shown_and_kept(self):
        self.whole_run()
        self.made(run_page)
        mine = "## Summary\n> A question?\nIt *was* fast.\n\n## Self-assessment\n- [x] I can\n"
        (self.out / "words.md").write_text(mine)
        text, _ = self.made(run_page)
        self.assertIn("It <em>was</em> fast.", text)
        self.assertIn("&#9745; I can", text)
        self.assertEqual((self.out / "words.md").read_text(), mine)

    def test_a_missing_file_is_one_sentence(self):
        self.whole_run()
        (self.out / "data" / "scale.json").unlink()
        text, said = self.made(run_page)
        self.assertEqual(said.count("\n"), 1)
        self.assertIn("scale.json is missing, so the page lacks the speed on one rank", said)
        self.assertIn("scale.json is missing", text)

    def test_a_run_that_stopped_says_where(self):
        self.text("why.txt", "stopped   in step 3: DEADLOCK: 0 → 1 → 0\n          no step had ended\n")
        self.text("command.txt", "./lab train --mine --page out\n1\n")
        text, _ = self.made(run_page)
        self.assertIn("<b>This run stopped</b> in step 3: DEADLOCK", text)

    def test_a_folder_without_a_run_is_refused(self):
        for module, words in ((run_page, "has no data/run.json"), (plan_page, "has no plan_*.json")):
            with self.assertRaises(SystemExit) as raised:
                self.made(module)
            self.assertIn(words, str(raised.exception))

    def test_the_cheaper_cluster_is_recommended_with_how_sure_that_is(self):
        row = dict(PLAN, place=1, days=10.0, mfu=0.5, global_batch=8, sequence_tokens=64, memory_bytes=7e10)
        row |= {"limited_by": "compute", "largest_overhead": "bubble", "gpu_hours": 3840.0}
        self.write("plan_a.json", [dict(row, cluster="a", cost=9600.0)], price_per_gpu_hour=2.5)
        self.write("plan_b.json", [dict(row, cluster="b", cost=4800.0, days=20.0)], price_per_gpu_hour=1.25)
        runs = [{"unit": "s", "published": 1 + i / 20, "by_file": 1.0, "point": f"{i} GPUs"} for i in range(21)]
        self.write("validate.json", runs)
        text, said = self.made(plan_page)
        self.assertEqual(said, "")
        self.assertIn("<b>Rent b</b>", text)
        self.assertIn("costs 2 times as much", text)
        self.assertIn("predicts 21 published training runs", text)
        self.assertIn("a larger global batch", text)
        (self.out / "data" / "validate.json").unlink()
        self.assertIn("cannot say how sure", self.made(plan_page)[1])


if __name__ == "__main__":
    unittest.main()
