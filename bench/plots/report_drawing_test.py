"""Tests of the figures that the report draws, and of ./lab report --from as a whole. See test.sh."""

import importlib.util
import json
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import unittest

import combined
import findings
import folder
import page
import reading
from report_cases import CONTEXT, RING, STEP, TRAIN, InFolder, results, sums, trace_text, words_on

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]


@unittest.skipUnless(importlib.util.find_spec("matplotlib"), "no matplotlib")
class Drawing(InFolder):
    def tearDown(self):
        from style import plt

        plt.close("all")

    def test_a_figure_holds_so_many_bars_and_says_so(self):
        import folder_figures

        for kind, row in (
            ("breakdown", STEP),
            (
                "memory",
                dict.fromkeys(("parameter_bytes", "gradient_bytes", "optimizer_bytes", "activation_bytes"), 1e9),
            ),
            ("bytes", {"predicted_bytes": 1e6, "measured_bytes": 1e6}),
            ("gains", {"cost": "bubble", "gained": 0.1}),
        ):
            for count in (24, 30):
                chart = folder.chart_of(kind, [results("a.json", [dict(row, ranks=p) for p in range(1, count + 1)])])
                figure = folder_figures.draw(chart)
                self.assertEqual(len(figure.axes[0].get_yticklabels()), 24, kind)
                said = "24 of 30 bars, the first; the table has all"
                self.assertEqual(said in words_on(figure), count == 30, kind)
                self.assertEqual(said in folder.caption(chart), count == 30, kind)

    def test_amdahls_figure_has_measured_emulated_and_simulated_points_with_their_fits(self):
        from scaling_figures import amdahl

        rows = [
            dict(
                STEP,
                algorithm="compute" if p == 1 else "overlap",
                scaling=scaling,
                ranks=p,
                machine="m",
                model="tiny",
                speedup=1 / (0.1 + 0.9 / p),
                efficiency=1.0,
            )
            for scaling in ("strong", "weak")
            for p in (1, 2, 4)
        ]
        refused = dict(rows[2], ranks=8, speedup=None, efficiency=None)
        fitted, bare = (
            {"context": context, "rows": [*rows, refused]} for context in ({"amdahl_serial_fraction": 0.1}, {})
        )
        studies = {"a, simulated": fitted, "m, emulated": fitted, "this computer, measured": bare}
        figure = amdahl(studies, findings.laws({"a": fitted}))
        speedups, left, weak = figure.axes
        words = words_on(figure)
        for label in (
            "a, f = 0.900",
            "m, emulated, f = 0.900",
            "this computer, measured",
        ):
            self.assertIn(label, words)
        self.assertIn("A fixed batch stops scaling: 3.1 times on 4 ranks of a", words)
        residuals = [list(line.get_ydata()) for line in left.lines if len(line.get_ydata()) == 3]
        self.assertEqual(len(residuals), 2, "what was not fitted leaves nothing")
        self.assertTrue(all(abs(y) < 1e-9 for line in residuals for y in line))
        self.assertTrue(speedups.get_xscale() == "log" and speedups.get_yscale() == "log")
        dashed = [line for line in speedups.lines if line.get_linestyle() == "--" and line.get_color() != "#999999"]
        self.assertTrue(dashed and all(line.get_xdata()[0] == 4 for line in dashed), "dashed beyond the points")
        self.assertEqual(len(amdahl({"a": fitted}, []).axes), 3, "a build without MPI")
        noisy = {"context": {}, "rows": [dict(row, quiet=row["ranks"] < 4) for row in rows]}
        for axis in (amdahl({"m, measured": noisy}, []).axes[i] for i in (0, 2)):
            marks = [line for line in axis.lines if line.get_marker() == "o"]
            hollow = {x: line.get_markerfacecolor() == "none" for line in marks for x in line.get_xdata()}
            self.assertEqual(hollow, {1: False, 2: False, 4: True}, "hollow where the computer was not quiet")

    def test_a_table_tells_the_serial_step_from_the_one_on_a_single_rank(self):
        one = dict(STEP, ranks=1, seconds=0.8, speedup=1, efficiency=1)
        rows = [dict(one, algorithm=name) for name in ("compute", "serial")]
        rows.append(dict(STEP, seconds=0.8 / 2.55, speedup=2.55, efficiency=1.275))
        self.write(
            "data/scaling_sim_dgx-a100",
            [dict(row, backend="sim", model="small", tokens_per_rank=64) for row in rows[:2]],
        )
        self.write("data/scaling_mpi", [dict(row, model="small") for row in rows])
        parts = "".join(self.parts(page.Report.scaling))
        self.assertIn("<td>compute</td>", parts)
        self.assertIn("<td>serial</td>", parts)
        self.assertIn("scaling_mpi.json, row 3: a speedup of 2.55 on 2 ranks is more than ideal", parts)

    def boxes(self, figure, texts):
        figure.canvas.draw()
        return [text.get_window_extent() for text in texts]

    def test_names_of_bars_do_not_touch(self):
        import folder_figures

        row = dict(STEP, algorithm="no_overlap", model="small", bucket_bytes=920641, tokens_per_rank=256)
        rows = [dict(row, machine="laptop", emulated=True, ranks=p, model=f"small {p}", tokens_per_rank=256 * p,
                     bucket_bytes=920641 * p) for p in range(1, 9)] + [dict(row, model="s")]  # fmt: skip
        figure = folder_figures.draw(
            folder.chart_of("breakdown", [results("a.json", rows), results("b.json", rows[:1])])
        )
        boxes = self.boxes(figure, figure.axes[0].get_yticklabels())
        self.assertTrue(any("\n" in text.get_text() for text in figure.axes[0].get_yticklabels()))
        for upper, lower in zip(boxes, boxes[1:]):
            self.assertGreaterEqual(upper.y0, lower.y1)

    def test_a_column_of_a_paper_holds_long_names(self):
        import folder_figures
        import style

        named = dict(STEP, model="6 layers, 8 heads, d_model 64, vocabulary 256, context 32, tied head", samples=9)
        rows = [dict(named, ranks=p, compute_seconds=0.01 * p, tokens_per_rank=4096 * p) for p in (2, 99)]
        self.addCleanup(setattr, style.Drawing, "layout", style.Drawing.layout)
        style.Drawing.layout = style.LAYOUTS["paper"][0]
        for kind in ("breakdown", "speedup"):
            figure = folder_figures.draw(folder.chart_of(kind, [results("a.json", rows), results("b.json", rows)]))
            style.save(figure, self.home, kind)
            letters = [text for text in figure.findobj(style.matplotlib.text.Text) if text.get_text()]
            for text, box in zip(letters, self.boxes(figure, letters)):
                self.assertGreaterEqual(box.x0, -1, f"{kind}: {text.get_text()}")
                self.assertLessEqual(box.x1, figure.bbox.x1 + 1, f"{kind}: {text.get_text()}")

    def test_leaders_end_at_the_first_letter_and_names_stay_below_the_title(self):
        from style import label_ends, subplots

        figure, ((axis,),) = subplots(1, 5, 3)
        axis.set_title("a panel")
        axis.plot([0, 1], [0, 1])
        label_ends(axis, [(1, 1 - 0.01 * k, f"a name,\nof {k}", "black") for k in range(4)])
        figure.canvas.draw()
        title = axis.title.get_window_extent()
        for text in axis.texts:
            self.assertEqual(text.arrowprops["relpos"], (0, 0.5))
            self.assertLessEqual(text.get_window_extent().y1 - 2, title.y0, "letters below the title")

    def test_the_links_names_cover_no_curve(self):
        from scaling_figures import LINKS, overhead

        rows = [
            dict(link_gb_per_s=b, parameters=p, seconds=p / b / 1e9, efficiency=b / (b + 8), predicted_efficiency=0.5,
                 ranks=2, tokens_per_rank=8192, flop_per_second=1e14)
            for p in (25e6, 1.3e9) for b in (1.25, 12.5, 25, 235, 450)]  # fmt: skip
        figure = overhead(rows)
        seconds, computing = figure.axes
        names = {link for _, link in LINKS}
        self.assertFalse(names & set(words_on(seconds)))
        named = [text for text in computing.texts if text.get_text() in names]
        for box in self.boxes(figure, named):
            curve = computing.transData.transform([(r["link_gb_per_s"], 100 * r["efficiency"]) for r in rows[:5]])
            self.assertFalse([place for place in curve if box.contains(*place)])

    def test_collectives_are_of_the_machine_that_is_named(self):
        rows = [
            dict(RING, collective=kind, algorithm=name, bytes=size, ranks=16, machine="big", seconds=t * size,
                 predicted_seconds=t * size)
            for kind, name, t in (("all_gather", "ring", 1), ("broadcast", "star", 2), ("broadcast", "chain", 1),
                                  ("all_to_all", "direct", 1))
            for size in (4096, 1 << 20)]  # fmt: skip
        self.write("data/collectives_sim_big", rows)
        self.write("data/collectives_sim_less", [dict(r, machine="less", ranks=8) for r in rows])
        report = page.Report(self.home, reading.read_folder(self.home / "data")[0])
        list(report.bandwidth())
        drawn = report.drawn["collectives"]
        self.assertIn("simulated on big.", drawn.source_line())
        words = words_on(self.drawn(page.Report.bandwidth)["collectives"])
        self.assertIn("big, p = 16", words)
        self.assertIn("The fastest broadcast of 4\u00a0KiB is the chain, of 1\u00a0MiB the chain", words)

    def test_what_intervals_do_not_tell_apart_is_not_ranked(self):
        from folder_figures import bandwidth_said

        row = dict(RING, samples=5, bytes=1 << 20)
        timed = lambda rate, low, high: [
            dict(row, busbw_gb_per_s=rate, seconds=1 / rate, seconds_low=low, seconds_high=high)
        ]
        found = {"ring": timed(4, 0.2, 0.3), "naive": timed(2, 0.4, 0.6), "library": timed(3.8, 0.25, 0.3)}
        self.assertEqual(
            bandwidth_said(found), "For 1 MiB the intervals of ring and the library’s own overlap: 3.8 to 4 GB/s"
        )
        found["library"] = timed(2.5, 0.35, 0.41)
        self.assertEqual(bandwidth_said(found), "For 1 MiB ring reaches 4 GB/s; the library’s own 2.5")

    def test_names_of_curves_keep_their_distance(self):
        from style import apart, label_ends, subplots

        self.assertEqual(apart([0.2, 0.5], 0.1, 0, 1), [0.2, 0.5])
        for places in (
            apart([0.5, 0.5, 0.5], 0.1, 0, 1),
            apart([0.99, 1, 1], 0.1, 0, 1),
            apart([0, 0, 0.01], 0.1, 0, 1),
        ):
            self.assertTrue(all(b - a > 0.099 for a, b in zip(places, places[1:])), places)
            self.assertTrue(0 <= places[0] and places[-1] <= 1 + 1e-9, places)
        figure, axes = subplots(1, 8, 4)
        axes[0][0].plot([1, 2], [1, 5])
        label_ends(axes[0][0], [(2, 5, "high", "#000000"), (2, 5, "as high", "#000000")])
        figure.draw_without_rendering()
        one, other = (text.get_window_extent() for text in axes[0][0].texts)
        self.assertFalse(one.overlaps(other))

    def test_every_letter_of_a_page_can_be_read(self):
        import style

        figure, axes = style.subplots(4, 15, 4)
        self.assertLessEqual(figure.get_figwidth(), style.WIDEST)
        axes[0][0].plot([1, 2], [1, 2], label="a curve")
        axes[0][0].set_title("small", fontsize=5)
        style.title(
            figure, "A result of 12.3 ms, a sentence that is so long that it needs more than a single line here"
        )
        style.figure_legend(figure, axes[0][0], 4)
        style.stamp(figure, "Reference code, simulated.")
        style.save(figure, self.home, "a")
        sizes = [text.get_fontsize() for text in figure.findobj(style.matplotlib.text.Text) if text.get_text()]
        self.assertGreaterEqual(min(sizes), 10)
        top = max(axis.get_tightbbox().y1 for axis in figure.axes)
        self.assertLess(top, figure.legends[0].get_window_extent().y0, "panels begin below the legend")

    def test_predictions_stand_against_measurements(self):
        from accuracy_figures import predicted_measured

        rows = [
            {"algorithm": "ring", "predicted_seconds": 1e-3 * n, "seconds": 1.25e-3 * n, "quiet": n > 1}
            for n in (1, 2, 3)
        ]
        noisy = [dict(rows[0], seconds=4e-3, quiet=True, seconds_low=1e-3, seconds_high=9e-3)]
        figure = predicted_measured({"all_reduce": rows, "ddp": noisy})
        words = " ".join(words_on(figure)).replace("\n", " ").replace("\u00a0", " ")
        self.assertIn("Median error of predictions on a quiet computer: all-reduce 25 %; ddp no quiet row", words)
        self.assertIn("all-reduce: 2 of 3 rows quiet", words)
        self.assertEqual(sum(len(line.get_xdata()) for line in figure.axes[0].get_lines()), 4 + 2)

    def parts(self, section):
        """The parts of a section of the report's page."""
        return [part for part in section(page.Report(self.home, reading.read_folder(self.home / "data")[0])) if part]

    def drawn(self, section):
        """{name: figure} of what a section of the report's page draws."""
        import figures

        report = page.Report(self.home, reading.read_folder(self.home / "data")[0])
        list(section(report))
        return {name: figures.DRAW[drawn.kind](*drawn.data) for name, drawn in report.drawn.items()}

    def test_the_reports_own_results_are_drawn_by_their_kind(self):
        self.assertEqual(self.drawn(page.Report.bandwidth) | self.drawn(combined.scaling), {})
        rows = [dict(RING, backend="mpi", machine="host", bytes=size) for size in (4096, 8192)]
        self.write("data/all_reduce_mpi", rows, predicted_from="a ping-pong")
        self.assertIn("predicted", words_on(self.drawn(page.Report.bandwidth)["busbw_measured"]))
        rows = [dict(STEP, ranks=p, serial_seconds=1, seconds=1 / s, speedup=s, efficiency=s / p)
                for p, s in ((2, 1.9), (4, 3.5), (8, 3.0))]  # fmt: skip
        context = {
            "amdahl_serial_fraction": 0.1,
            "amdahl_serial_fraction_low": -0.2,
            "amdahl_serial_fraction_high": 0.4,
        }
        for name in ("strong", "strong_zero1"):
            self.write(f"data/scale_{name}", rows, **context)
        drawn = self.drawn(combined.scaling)
        self.assertIn("Amdahl, s = 0.100 (0.000 to 0.400)", words_on(drawn["scaling_fits"]))
        self.assertEqual(len(drawn["scaling_losses"].axes[0].get_yticklabels()), 6)
        chart = folder.chart_of("speedup", [results("a.json", rows, **context)])
        self.assertIn("Amdahl’s law does not describe these points", folder.caption(chart))

    def test_the_distance_of_predictions_is_drawn(self):
        self.write("data/a", [dict(RING, seconds=1.0, predicted_seconds=1.1 + 0.1 * k) for k in range(3)])
        rows = [dict(STEP, predicted_seconds=0.5 + 0.1 * k, quiet=k == 0, seconds_high=0.6) for k in range(3)]
        self.write("data/b", rows)
        figure = self.drawn(findings.opening)["finding_predictions"]
        marks = [(len(line.get_xdata()), line.get_markerfacecolor()) for line in figure.axes[0].get_lines()[:-1]]
        self.assertEqual([(count, fill == "none") for count, fill in marks], [(3, False), (1, False), (2, True)])
        self.assertIn("quiet rows off: half within, nine in ten, the worst", words_on(figure))

    def report(self, files, *arguments):
        folder_of_it = tempfile.TemporaryDirectory()
        self.addCleanup(folder_of_it.cleanup)
        home = pathlib.Path(folder_of_it.name)
        (home / "from").mkdir()
        for name, text in files.items():
            (home / "from" / name).write_text(text)
        out = home / "out"
        done = subprocess.run(
            [
                "sh",
                str(ROOT / "bench" / "report" / "report.sh"),
                "--from",
                str(home / "from"),
                "--output",
                str(out),
                *arguments,
            ],
            capture_output=True,
            text=True,
        )
        return done, out

    def test_a_folder_of_results_becomes_a_page_and_figures_for_print_and_slides(self):
        whole = json.dumps(
            {"context": CONTEXT, "rows": [STEP, dict(STEP, ranks=4, serial_seconds=1.4, speedup=2.8, efficiency=0.7)]}
        )
        done, out = self.report(
            {"step.json": whole, "step.trace": trace_text(), "half.json": whole[:100]},
            "--style",
            "paper",
            "--style=slides",
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("skipped half.json: it is broken JSON", done.stderr)
        page = (out / "index.html").read_text()
        self.assertIn("measured (mpi), n = 31 · a processor, 4 cores", page)
        self.assertIn("half.json", page)
        self.assertEqual(json.loads((out / "data" / "step.json").read_text()), json.loads(whole))
        self.assertIn("n = 31", (out / "methods.md").read_text())
        self.assertEqual((out / "data" / "step.trace").read_text(), trace_text())
        for name in ("speedup_1", "breakdown_1", "timeline_1"):
            self.assertIn(f'<a href="figures/{name}.svg">', page)
            for suffix, inches in (("column", 3.3), ("page", 7.0)):
                box = re.search(rb"/MediaBox \[ 0 0 ([\d.]+)", (out / "paper" / f"{name}_{suffix}.pdf").read_bytes())
                self.assertAlmostEqual(float(box[1]) / 72, inches, places=2)
            self.assertEqual(struct.unpack(">II", (out / "slides" / f"{name}.png").read_bytes()[16:24]), (1920, 1080))
            self.assertEqual((out / "paper" / f"{name}.tex").exists(), name != "timeline_1", "a timeline has no table")
            self.assertIn(f"{name}_\\lockstepwidth.pdf", (out / "paper" / "figures.tex").read_text())
        self.assertIn("## speedup_1", (out / "slides" / "captions.md").read_text())

    def test_a_figure_holds_so_many_curves_and_says_so(self):
        import folder_figures

        rows = [dict(RING, machine=f"m{k}", bytes=size) for k in range(20) for size in (1024, 2048)[: 1 + k % 2]]
        figure = folder_figures.draw(folder.chart_of("bandwidth", [results("a.json", rows)]))
        self.assertIn("14 of 20 curves, those with most points; the table has all", words_on(figure))
        labels = [text.get_text() for text in figure.legends[0].get_texts()]
        self.assertEqual(len(labels), 14)
        self.assertIsNone(figure.axes[0].get_legend(), "it would cover curves")
        self.assertEqual(len({container.lines[0].get_color() for container in figure.axes[0].containers}), 14)
        self.assertTrue(all(f"m{k}, " in " ".join(labels) for k in range(1, 20, 2)), "those with most points stay")
        models = [
            dict(STEP, parameters=n, ranks=p, tokens_per_second=1e3 * p)
            for n, p in ((1e6, 1), (1e6, 2), (2e6, 4), (1e6, 8))
        ]
        models[-1]["tensor_parallel"] = 8
        for row in models:
            del row["speedup"], row["scaling"]
        figure = folder_figures.draw(folder.chart_of("throughput", [results("b.json", models)]))
        self.assertEqual(len(figure.legends[0].get_texts()), 1, "a curve is of one model, cut in one way")
        self.assertEqual(list(figure.axes[0].containers[0].lines[0].get_xdata()), [1, 2])

    def test_a_law_is_drawn_where_a_study_fitted_it(self):
        import folder_figures

        rows = [dict(STEP, ranks=p, speedup=1 / (0.1 + 0.9 / p), efficiency=0.5) for p in (2, 4, 8)]
        for fit, labels in (
            (
                {"amdahl_serial_fraction": 0.1, "amdahl_serial_fraction_low": 0.05, "amdahl_serial_fraction_high": 0.2},
                ["Amdahl, s = 0.100 (0.050 to 0.200)"],
            ),
            ({}, []),
        ):
            axis = folder_figures.draw(folder.chart_of("speedup", [results("a.json", rows, **fit)])).axes[0]
            drawn = [line for line in axis.lines if line.get_label().startswith("Amdahl")]
            self.assertEqual([line.get_label() for line in drawn], labels)
            for line in drawn:
                self.assertAlmostEqual(
                    line.get_ydata()[-1], rows[-1]["speedup"], msg="at 8 ranks the law goes through its points"
                )
            (points,) = (container.lines[0] for container in axis.containers)
            self.assertEqual(points.get_linestyle(), "None" if fit else "-")

    def test_the_axes_of_a_speedup_begin_where_ideal_does(self):
        import folder_figures

        rows = [dict(STEP, ranks=p, speedup=s, efficiency=s / p) for p, s in ((2, 0.3), (8, 0.6))]
        axis = folder_figures.draw(folder.chart_of("speedup", [results("a.json", rows)])).axes[0]
        self.assertEqual(list(axis.get_xticks()), [1, 2, 8])
        self.assertEqual([text.get_text() for text in axis.get_yticklabels()], ["1/4", "1/2", "1", "2", "4", "8"])

    def test_a_bubble_speaks_of_a_formula_where_it_draws_one(self):
        import folder_figures

        rows = [
            {"schedule": "1f1b", "stages": 4, "microbatches": m, "bubble_of_total": 3 / (m + 3), "backend": "sim"}
            for m in (8, 16)
        ]
        for more, label in (
            ({}, "microbatches"),
            ({"predicted_bubble_of_total": 0.2}, "microbatches (dashes: formula)"),
        ):
            figure = folder_figures.draw(
                folder.chart_of("bubble", [results("a.json", [dict(row, **more) for row in rows])])
            )
            self.assertEqual(figure.axes[0].get_xlabel(), label)
        rows[1] = dict(rows[0], schedule="gpipe")
        chart = folder.chart_of("bubble", [results("a.json", rows)])
        self.assertIsNone(folder_figures.draw(chart), "two schedules at one number of microbatches are no curve")

    def test_a_calculators_figure_is_named_after_its_run(self):
        import memory
        import timeline_figures

        path = self.home / "lockstep_plot_0"
        trace = json.loads(trace_text()) | {"otherData": {"title": "1f1b: 4 stages, 8 microbatches"}}
        path.write_text(json.dumps(trace))
        figure = timeline_figures.timeline_figure(path)
        self.assertTrue(figure.texts[0].get_text().startswith("1f1b: a step of "), figure.texts[0].get_text())
        rows = [dict(model="7e9", parameters=7e9, stage=s, ranks=8, total_bytes=b)
                for s, b in enumerate((9e10, 7e10, 7e10, 1e10))]  # fmt: skip
        self.assertEqual(
            memory.said(rows, ["7e9"], [("A100", 8e10)]),
            "7 B parameters fit A100s with ZeRO-1, ZeRO-2, ZeRO-3 from 8 GPUs",
        )
        self.assertEqual(memory.said(rows, ["7e9"], [("H200", 1.41e11)]), "7 B parameters fit one H200 with plain DDP")

    def test_memory_by_stage_is_curves(self):
        import folder_figures

        rows = [
            {
                "model": model,
                "parameters": 1e9,
                "stage": stage,
                "ranks": p,
                "parameter_bytes": 2e9,
                "gradient_bytes": 2e9,
                "optimizer_bytes": 12e9,
                "activation_bytes": 0,
                "total_bytes": 16e9 / p,
            }
            for model in "abcd"
            for stage in (0, 3)
            for p in (1, 8)
        ]
        (chart,) = folder.charts([results("m.json", rows, gpu_memory_bytes="A100 8e+10, H200 1.41e+11")])
        self.assertEqual(chart.kind.name, "memory_by_stage")
        figure = folder_figures.draw(chart)
        self.assertEqual(len(figure.axes), 3)
        self.assertIn("3 of 4 models, those with most points; the table has all", words_on(figure))
        self.assertEqual(list(figure.axes[0].lines[0].get_ydata()), [16, 2])

    def test_a_prediction_of_one_size_is_seen(self):
        import folder_figures

        for sizes, marker, line in (((1024,), "_", "None"), ((1024, 2048), "None", ":")):
            figure = folder_figures.draw(
                folder.chart_of("bandwidth", [results("a.json", [dict(RING, bytes=size) for size in sizes])])
            )
            self.assertEqual(
                [text.get_text() for text in figure.axes[1].get_legend().get_texts()], ["simulated", "predicted"]
            )
            predicted = figure.axes[1].get_legend_handles_labels()[0][1]
            self.assertEqual((predicted.get_marker() or "None", predicted.get_linestyle()), (marker, line))
            drawn = figure.axes[1].lines[1]
            self.assertEqual((list(drawn.get_xdata()), drawn.get_marker() or "None"), (list(sizes), marker))
        unpredicted = [dict(RING, predicted_seconds=None)]
        self.assertIsNone(
            folder_figures.draw(folder.chart_of("bandwidth", [results("a.json", unpredicted)])).axes[1].get_legend()
        )

    def test_a_method_looks_the_same_on_all_machines(self):
        import folder_figures

        rows = sums(4) + sums(8) + [row for row in sums(4, machine="laptop") if row["algorithm"] != "topk:0.01"]
        figure = folder_figures.draw(folder.chart_of("compression", [results("a.json", rows)]))
        axes = figure.axes
        legend = {label: line.get_color() for line, label in zip(*axes[0].get_legend_handles_labels())}
        self.assertEqual([text.get_text() for text in figure.legends[0].get_texts()], ["topk:0.01", "int8"])
        self.assertEqual(
            [axis.get_title() for axis in axes],
            ["bytes that a rank sends", "time, dgx-a100, simulated, 1 MiB", "time, laptop, simulated, 1 MiB"],
        )
        (int8,) = (line for line in axes[2].lines if line.get_marker() != "None")
        self.assertEqual((int8.get_color(), list(int8.get_ydata())), (legend["int8"], [1.2]))

    def test_matplotlib_is_missed_only_where_it_is_missing(self):
        whole = json.dumps({"context": CONTEXT, "rows": [TRAIN]})
        _, out = self.report(
            {"a.json": whole, "odd.json": json.dumps({"context": CONTEXT, "rows": [{"colour": "red"}]})}
        )
        page = (out / "index.html").read_text()
        self.assertIn("(no figure: a curve over ranks needs two sizes · ", page)
        self.assertIn("<span class='files'>(<a href=\"data/odd.json\">", page)
        self.assertNotIn("matplotlib", page)
        for more, words in (([], "the figure was not drawn"), (["--no-matplotlib"], "the figure needs matplotlib")):
            source = out.parent / "from"
            (source / "ring.json").write_text(
                json.dumps({"context": CONTEXT, "rows": [RING]})
            )  # of which nothing was drawn
            subprocess.run(
                [sys.executable, "-B", str(HERE / "page.py"), str(out), "--from", str(source), *more],
                check=True,
                capture_output=True,
            )
            page = (out / "index.html").read_text()
            self.assertEqual((page.count(words), page.count("no figure: a curve")), (1, 1))

    def test_what_cannot_be_is_one_sentence(self):
        whole = json.dumps({"context": CONTEXT, "rows": [STEP]})
        for files, arguments, words in (
            ({"a.json": ""}, (), "holds no results: nothing to draw"),
            (
                {"a.json": whole, "ddp.json": whole.replace("1.6", "60")},
                (),
                "skipped ddp.json: it contradicts itself in row 1: a speedup of 60 on 2 ranks",
            ),
            ({}, ("--style", "poster"), "unknown style 'poster'"),
            ({}, ("--form", "x"), "unknown option '--form'"),
        ):
            done, _ = self.report(files, *arguments)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(words, done.stderr)
        done = subprocess.run(
            ["sh", str(ROOT / "bench" / "report" / "report.sh"), "--from", str(HERE), "--output", str(HERE.parent)],
            capture_output=True,
            text=True,
        )
        self.assertIn("lies in the report's own directory", done.stderr)
        with tempfile.TemporaryDirectory() as out:
            (pathlib.Path(out) / "data").mkdir()
            (pathlib.Path(out) / "data" / "dear.txt").write_text("mine")
            done = subprocess.run(
                ["sh", str(ROOT / "bench" / "report" / "report.sh"), "--from", str(HERE), "--output", out],
                capture_output=True,
                text=True,
            )
            self.assertIn("which would be emptied", done.stderr)
            self.assertTrue((pathlib.Path(out) / "data" / "dear.txt").exists())
        self.assertTrue((HERE / "page.py").exists())


if __name__ == "__main__":
    unittest.main()
