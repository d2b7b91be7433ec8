"""Tests of the pages of a run and of a plan, from files as ./lab train and plan --page keep them. See test.sh."""

import json
import pathlib
import tempfile
import unittest

import page
import plan_page
import roofline
import run_page
from report_cases import CONTEXT, PLAN, TRAIN

try:
    import folder_figures
except ImportError:
    folder_figures = None

RUN = dict(TRAIN, ranks=2, batch_sequences=8, sequence_tokens=64, accumulate=1, predicted_parameter_bytes=4e6)
RUN |= {f"{stem}_bytes_peak": 4e6 for stem in run_page.PARTS.values()}
RUN |= {f"predicted_{stem}_bytes": 4e6 for stem in run_page.PARTS.values()}
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

ROOFS = {"peak_flop_per_second": 100e9, "memory_bytes_per_second": 10e9}  # a ridge at 10 FLOP per byte
OPERATIONS = [
    {"operation": "matmul", "calls": 4, "seconds": 0.6, "flop": 30e9, "moved_bytes": 1e9},
    {"operation": "layer_norm", "calls": 2, "seconds": 0.2, "flop": 0.8e9, "moved_bytes": 1e9},
    {"operation": "layer_norm_backward", "calls": 2, "seconds": 0.19, "flop": 2.2e9, "moved_bytes": 1e9},
    {"operation": "clip_factor", "calls": 1, "seconds": 0.001, "flop": 4, "moved_bytes": 8},
    {"operation": "copy", "calls": 1, "seconds": 0.009, "flop": 0, "moved_bytes": 1e7},
]


def traced(name, kind, begin, length, rank=0, **arguments):
    return {"ph": "X", "name": name, "cat": kind, "pid": rank, "tid": 0, "ts": begin, "dur": length, "args": arguments}


def trace_of_steps():
    """Three steps of 100 µs, the first slow, after a fill. In each rank 0 multiplies twice, rank 1 more."""
    events = [traced("fill", "compute", 0, 10, flop=0, moved_bytes=100)]
    for step in range(3):
        at = 100 * (step + 1)
        events += [
            traced("step", "region", at, 100, phase=True),
            traced("matmul", "compute", at, 90 if step == 0 else 10, flop=4000, moved_bytes=20),
            traced("matmul", "compute", at + 90, 30, flop=2000, moved_bytes=20, own_seconds=20e-6),
            traced("matmul", "compute", at, 50, rank=1, flop=9000, moved_bytes=20),
            traced("wait", "wait", at + 95, 5),
        ]
    lines = ",\n".join(json.dumps(event) for event in events)
    return '{"otherData": {}, "traceEvents": [\n' + lines + "\n]}\n"


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

    def made(self, module, price=None):
        report = page.Report(self.out, [], price=price)
        parts = module.sections(report, self.out)
        return "".join(parts), "".join(f"{said}\n" for said in report.remarks)

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

    def test_a_billion_tokens_cost_what_their_rank_hours_cost(self):
        self.whole_run()
        self.write("run.json", [dict(RUN, ranks=4, tokens_per_second=1e6)])
        self.assertNotIn("A billion tokens", self.made(run_page)[0])
        text, _ = self.made(run_page, 2.5)
        self.assertIn("take 1.11 hours of a rank", text)  # 1000 s of four ranks
        self.assertIn("<b>2.78</b> at 2.5", text)

    @unittest.skipUnless(folder_figures, "no matplotlib")
    def test_every_figure_is_drawn(self):
        self.whole_run()
        report = page.Report(self.out, [])
        run_page.sections(report, self.out)
        self.assertEqual(set(report.drawn), {"breakdown", "gains", "memory", "losses"})
        for name, drawn in report.drawn.items():
            self.assertTrue(folder_figures.draw(*drawn.data), name)
            self.assertTrue(drawn.source_line(), name)

    def test_operations_of_a_trace_are_means_over_the_steps_of_rank_0_but_the_first(self):
        self.text("run.trace", trace_of_steps())
        (row,) = roofline.operations_of_trace(self.out / "data" / "run.trace")
        self.assertEqual((row["operation"], row["calls"], row["flop"], row["moved_bytes"]), ("matmul", 2, 6000, 40))
        self.assertAlmostEqual(row["seconds"], 30e-6)
        self.whole_run()
        self.write("run.json", [dict(RUN, **ROOFS)])
        (chart,) = [chart for chart in run_page.charts(run_page.Run(self.out)) if chart.name == "roofline"]
        self.assertEqual(roofline.intensity(chart.rows[0]), 150)
        self.assertEqual(roofline.ridge(chart.rows), 10)
        self.assertIn("150", self.made(run_page)[0])

    def test_the_roofline_says_what_limits_the_operations(self):
        rows = [{**row, **ROOFS} for row in OPERATIONS if row["flop"]]
        self.assertEqual(
            roofline.said(rows),
            "Matmuls do 30 FLOP/byte (compute-bound), normalisation 1.5 (memory-bound)",
        )
        self.assertIn("take 39 % of the arithmetic’s 991 ms", roofline.more(rows))
        slow = [dict(row, memory_bytes_per_second=1e9) for row in rows]
        self.assertIn("both are memory-bound", roofline.said(slow))
        unknown = [dict(row, peak_flop_per_second=None) for row in rows]
        self.assertEqual(roofline.said(unknown), "Matmuls do 30 FLOP/byte, normalisation 1.5")
        self.assertIn("is not known", roofline.more(unknown))

    @unittest.skipUnless(folder_figures, "no matplotlib")
    def test_the_roofline_draws_what_its_rows_say(self):
        self.write("plan_a.json", [dict(row, kind="operation") for row in OPERATIONS], **ROOFS)
        results = run_page.read(self.out / "data" / "plan_a.json", "plan_a.json")
        figure = folder_figures.draw(plan_page.roofline(results, {"cluster": "a"}))
        axis = figure.axes[0]
        (points,) = axis.collections
        drawn = [(round(x, 9), round(y / 1e9, 9)) for x, y in points.get_offsets()]
        self.assertEqual(drawn, [(30, 50), (1.5, round(3 / 0.39, 9))], "what takes no time is in the table alone")
        for line in axis.get_lines()[:3]:  # before, along and beyond the points
            for x, y in line.get_xydata():
                self.assertAlmostEqual(y, min(100e9, 10e9 * x))
        self.assertEqual([line.get_linestyle() for line in axis.get_lines()[:3]], ["--", "-", "--"])
        words = {text.get_text(): text for text in axis.texts}
        self.assertEqual(set(words), {"peak 100 GFLOP/s", "memory 10 GB/s", "matmuls 61 %", "normalisation 39 %"})
        figure.draw_without_rendering()
        for text in words.values():
            self.assertGreaterEqual(text.get_fontsize(), 10)
            box = text.get_window_extent()
            self.assertTrue(axis.get_window_extent().padded(1).contains(box.x0, box.y0), text.get_text())
            self.assertTrue(axis.get_window_extent().padded(1).contains(box.x1, box.y1), text.get_text())
        unknown = folder_figures.draw(roofline.chart(results, OPERATIONS))
        self.assertEqual([len(line.get_xydata()) for line in unknown.axes[0].get_lines()], [])

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
        self.assertNotIn("Speed and scaling", text, "a heading above nothing")

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
        self.assertNotIn("FLOP per byte", text)
        operations = [dict(one, kind="operation") for one in OPERATIONS]
        self.write(
            "plan_b.json",
            [dict(row, cluster="b", cost=4800.0, days=20.0), *operations],
            price_per_gpu_hour=1.25,
            **ROOFS,
        )
        self.assertIn("FLOP per byte", self.made(plan_page)[0])
        host = {"offload": "optimizer", "host_seconds": 0.5, "bubble_seconds": 0.0, "largest_overhead": "host"}
        self.write("plan_b.json", [dict(row, cluster="b", cost=4800.0, days=20.0, **host)], price_per_gpu_hour=1.25)
        text, said = self.made(plan_page)
        self.assertIn("optimizer on the host", text)
        self.assertIn("each update serves more", text)
        self.assertIn("Software takes many times longer", said)
        (self.out / "data" / "validate.json").unlink()
        self.assertIn("cannot say how sure", self.made(plan_page)[1])


if __name__ == "__main__":
    unittest.main()
