"""Tests of the report: what it reads, and what it says of where numbers come from. See test.sh."""

import json
import pathlib
import re
import unittest

import accuracy
import claims
import collectives
import combined
import compare
import crossover
import curves
import findings
import folder
import folder_page
import html_parts
import markdown
import methods
import page as page_module
import paper
import predict
import reading
import results as results_module
import row_words
import sources
import timeline
import writeup
from report_cases import CONTEXT, FOREIGN, PLAN, RING, STEP, TRAIN, InFolder, results, sums, trace_text

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]


class Collectives(unittest.TestCase):
    def rows(self):
        times = {
            ("all_gather", "ring"): 2e-3,
            ("broadcast", "star"): 4e-3,
            ("broadcast", "tree"): 3e-3,
            ("broadcast", "library"): 1e-3,
            ("broadcast", "memory_copy"): 1e-6,
            ("reduce_scatter", "ring"): 5e-3,
        }
        return [
            dict(RING, backend="mpi", machine="host", collective=c, algorithm=a, bytes=size, seconds=t * size / 4096)
            for (c, a), t in times.items()
            for size in (4096, 8192)
        ]

    def test_beside_the_library_stands_the_fastest_of_ours(self):
        self.assertEqual(collectives.beside_library([]), {})
        found = collectives.beside_library(self.rows())
        self.assertEqual(
            {name: [r["algorithm"] for r in rows] for name, rows in found.items()},
            {"reduce_scatter": ["ring"] * 2, "all_gather": ["ring"] * 2, "broadcast": ["tree"] * 2},
        )

    def test_the_rings_of_two_collectives_are_two_curves(self):
        self.assertEqual(
            list(collectives.curves(self.rows(), collectives.PANELS[0])), ["all-gather, ring", "reduce-scatter, ring"]
        )
        chart = folder.chart_of("bandwidth", [results("a.json", self.rows())])
        drawn = folder.bandwidths(chart.rows)
        self.assertEqual(len(drawn), 6)
        self.assertEqual({len(rows) for rows in drawn.values()}, {2})


class WhereAFigureComesFrom(unittest.TestCase):
    CONTEXT = {"machine": "AMD EPYC", "cores": 2, "versions": {"gpu": "NVIDIA H100 80GB HBM3"}}

    def test_what_ran_on_a_gpu_names_it(self):
        row = {"backend": "cuda", "seconds": 1.0, "samples": 15}
        self.assertIn("measured on NVIDIA H100 80GB HBM3, ", sources.source_line([self.CONTEXT], [row]))
        self.assertIn("measured on AMD EPYC, 2 cores", sources.source_line([self.CONTEXT], [dict(row, backend="mpi")]))


class Accuracy(InFolder):
    def test_a_row_is_quiet_where_it_says_so_and_its_own_interval_is_narrow(self):
        row = {"backend": "mpi", "seconds": 1.0, "seconds_low": 0.8, "seconds_high": 1.5}
        self.assertFalse(sources.is_quiet(row), "not known")
        self.assertTrue(sources.is_quiet(dict(row, quiet=True)))
        self.assertFalse(sources.is_quiet(dict(row, quiet=False)))
        self.assertFalse(sources.is_quiet(dict(row, quiet=True, seconds_high=1.7)))
        self.assertTrue(sources.is_quiet(dict(row, backend="sim")))

    def test_a_time_that_holds_waiting_is_no_prediction_missed(self):
        row = dict(RING, seconds=1.0, predicted_seconds=0.01, place="mlp forward")
        sleeping = dict(row, backend="mpi", emulated=True)
        rows = [
            row,
            dict(sleeping, emulated=False),
            sleeping,
            dict(row, backend="mpi", place="everything", seconds=0.01, quiet=True),
        ]
        points = findings.predictions([results("a.json", rows)])
        quiet, unknown = (0.01, 1.0, True), (0.01, 1.0, False)
        self.assertEqual(points, {"simulated": [quiet], "measured": [(0.01, 0.01, True)], "emulated": [unknown]})
        self.assertIn("Left out: 1 time of collectives inside TP steps", findings.truth([results("a", rows)]).sentence)

    def test_too_slow_counts_as_too_fast_does(self):
        for predicted in (0.01, 100.0):
            self.assertEqual(
                findings.spread_of("measured", [(predicted, 1.0, True)]), "measured: 9900.0 %, 9900.0 %, 9900 %"
            )

    ROWS = [
        {"algorithm": "ring", "predicted_seconds": 1.1, "seconds": 1.0, "quiet": True},
        {"algorithm": "ring", "predicted_seconds": 0.5, "seconds": 1.0, "quiet": False},
        {"algorithm": "ring", "predicted_seconds": 0.9, "seconds": 1.0, "quiet": False},
        {"algorithm": "library", "predicted_seconds": None, "seconds": 1.0},
    ]

    def test_medians_are_of_all_rows_and_of_the_quiet_ones(self):
        load = lambda data, stem: {"rows": self.ROWS} if stem == "all_reduce_mpi" else None
        (row,) = accuracy.medians(accuracy.predicted(None, load))
        self.assertAlmostEqual(row["median"], 1 / 9)
        self.assertAlmostEqual(row["median_quiet"], 0.1)
        self.assertEqual((row["rows"], row["quiet"]), (3, 1))

    def test_the_folder_of_the_script_is_summed_up_over_its_runs(self):
        for run in (1, 2):
            self.write(f"all_reduce_{run}", self.ROWS)
            bubble = {"schedule": "gpipe", "bubble_of_total": 0.5, "predicted_bubble_of_total": 0.48}
            self.write(f"pipeline_{run}", [bubble])
            self.write(f"calibrate_{run}", [{"kind": "message", "predicted_seconds": 9, "seconds": 1}])
        found = accuracy.errors(self.home)
        self.assertEqual(sorted(found), [("all_reduce", "ring"), ("pipeline", "gpipe")])
        self.assertEqual(len(found["all_reduce", "ring"]), 6)
        self.assertIn("10.0 %", accuracy.line("ring", found["all_reduce", "ring"], "%"))
        self.assertIn("in 2 quiet ones", accuracy.line("ring", found["all_reduce", "ring"], "%"))
        self.assertIn("2.0 points", accuracy.line("gpipe", found["pipeline", "gpipe"], "points"))


class Reading(InFolder):
    def refused(self, text):
        (self.home / "a.json").write_bytes(text if isinstance(text, bytes) else text.encode())
        with self.assertRaises(sources.Unusable) as raised:
            reading.read(self.home / "a.json", "a.json")
        return str(raised.exception)

    def test_what_is_no_result_is_refused_with_its_reason(self):
        whole = {"context": CONTEXT, "rows": [STEP]}
        self.assertIn("is empty", self.refused(""))
        self.assertIn("broken JSON, line 2", self.refused('{"context":\n{'))
        self.assertIn("is no text", self.refused(b"\xff\xfe\x00"))
        self.assertIn("holds no results", self.refused('{"context": {}, "benchmarks": []}'))
        self.assertIn("holds no results", self.refused("[1, 2]"))
        self.assertIn("has no rows", self.refused(json.dumps({**whole, "rows": []})))
        self.assertIn("a row 1 that is no object", self.refused(json.dumps({**whole, "rows": [3]})))
        self.assertIn(
            "lacks compiler, commit",
            self.refused(
                json.dumps({**whole, "context": {k: v for k, v in CONTEXT.items() if k not in ("compiler", "commit")}})
            ),
        )
        self.assertIn(
            '"fast" for seconds in row 2, which is no number',
            self.refused(json.dumps({**whole, "rows": [STEP, {**STEP, "seconds": "fast"}]})),
        )

    def of_somebody(self, *rows, context=FOREIGN):
        (self.home / "a.json").write_text(json.dumps({"context": context, "rows": rows}))
        return reading.read(self.home / "a.json", "a.json")

    def test_numbers_that_contradict_each_other_are_refused(self):
        row = lambda p, ms, **more: {"ranks": p, "seconds": ms / 1000, **more}
        said = lambda *rows, **more: self.refused(
            json.dumps({"context": FOREIGN, "rows": [row(1, 640), *rows], **more})
        )
        self.assertEqual(
            said(row(8, 107, speedup=60, efficiency=0.75)),
            "contradicts itself in row 2: a speedup of 60 on 8 ranks, but T(1)/T(p) of its times, 0.64 s and 0.107 s,"
            " is 5.981",
        )
        self.assertIn(
            "row 2: a speedup of 60 on 8 ranks, where 8 is ideal and more than 16 is not believed",
            said({"ranks": 8, "speedup": 60}),
        )
        self.assertIn(
            "a speedup of 5.9 on 8 ranks beside an efficiency of 0.9; speedup / ranks is 0.7375",
            said(row(8, 107, speedup=5.9, efficiency=0.9)),
        )
        self.assertIn(
            "T(1)/T(p) · p of its times, 0.64 s and 0.8 s, is 6.4",
            said(row(8, 800, speedup=0.8, scaling="weak", serial_seconds=0.64)),
        )
        with self.assertRaises(sources.Unusable):  # one of ours, changed by hand
            self.of_somebody(dict(STEP, speedup=60), context=CONTEXT)
        self.of_somebody(dict(STEP, speedup=60), context={**CONTEXT, "code": "yours: 21.10"})
        self.of_somebody(
            row(1, 640),
            row(8, 107, speedup=6.0, efficiency=0.75),
            row(4, 171, speedup=3.7),
            {"ranks": 2, "speedup": None},
        )  # rounded

    def test_more_than_ideal_is_drawn_and_said(self):
        found = self.of_somebody({"ranks": 8, "speedup": 9.1}, {"ranks": 4, "speedup": 4.02})
        self.assertEqual(
            [sentence[:49] for sentence in sources.superlinear(found)],
            ["a.json, row 1: a speedup of 9.1 on 8 ranks is mor"],
        )
        self.assertIn("row 1: a speedup of 9.1", folder_page.what_was_found([found], []))

    def test_of_numbers_that_are_not_ours_nothing_is_claimed(self):
        found = self.of_somebody(
            *(
                {
                    "backend": "nccl",
                    "ranks": p,
                    "seconds": 0.64 / s,
                    "samples": 5,
                    "speedup": s,
                    "efficiency": s / p,
                    "predicted_seconds": 0.1,
                    "fits_cores": True,
                    "verified": True,
                }
                for p, s in ((1, 1), (2, 1.9), (4, 3.5))
            )
        )
        (chart,) = folder.charts([found])
        self.assertEqual(list(folder.speedups(chart.rows)), ["reported by you"])
        for text in (folder.caption(chart), methods.methods([found]), *sources.provenance([found])):
            self.assertIn("reported by you", text.lower())
            for claim in (
                "wall clock",
                "take turns",
                "measured by",
                "95 %",
                "serial program",
                "formulas",
                "compared with the exact",
                "usable cores",
            ):
                self.assertNotIn(claim, text)
        ours = methods.methods([found, results("ours.json", [STEP])])
        self.assertIn("**Measured.**", ours)
        self.assertIn("from 1 file; backend mpi", ours)

    def test_a_folder_gives_what_is_good_and_names_the_rest(self):
        root = self.home
        self.write("deep/good", [STEP])
        (root / "deep" / "good.csv").write_text("seconds\n1\n")
        (root / "notes.txt").write_text("hello")
        (root / "deep" / "study.txt").write_text(
            "./lab bench scaling at abc"
        )  # of launch/scaling.sbatch: no result, and nothing to say of it
        (root / "half.json").write_text('{"context"')
        found, skipped = reading.read_folder(root)
        self.assertEqual([r.name for r in found], ["deep/good.json"])
        self.assertEqual([name for name, _ in skipped], ["half.json", "notes.txt"])


class Saying(InFolder):
    def test_where_numbers_come_from(self):
        (line,) = sources.provenance([results("a.json", [STEP, {**STEP, "samples": 15}])])
        for words in (
            "measured (mpi), n = 15 to 31",
            "a processor, 4 cores",
            "GNU 12.2, Release",
            "mpi Open MPI",
            "commit 147044b6b6c8-dirty",
            "2026-01-02",
        ):
            self.assertIn(words, line)
        self.assertNotIn("code", line)
        (line,) = sources.provenance([results("a.json", [STEP], code="yours: 21.2; borrowed: 21.7 (yours: FAIL)")])
        self.assertTrue(line.split(" · ")[1].startswith("code yours: 21.2; borrowed: 21.7 (yours: FAIL); "), line)
        self.assertEqual(sources.how([RING]), "simulated on dgx-a100")
        self.assertEqual(
            sources.how([{**STEP, "machine": "laptop", "emulated": True}]), "emulated on laptop (mpi), n = 31"
        )

    def test_what_a_learner_predicted_is_shown_once_it_was_measured(self):
        self.assertEqual(predict.learners(self.home), "")
        row = {
            "question": "21.2/1",
            "guess": 0.7,
            "formula": 0.64,
            "measured": 0.5,
            "ask": "how long & why?",
            "unit": "ms",
            "date": "2026-01-02T03:04:05Z",
        }
        self.write("predictions", [row | {"question": "21.10/1"}, row, row | {"measured": None}])
        page = predict.learners(self.home)
        self.assertEqual(page.count("how long &amp; why?"), 2)
        self.assertIn("0.7 ms", page)
        self.assertIn("+40 %", page)
        self.assertLess(page.index("21.2<"), page.index("21.10<"))

    def test_methods_tell_only_of_what_ran(self):
        text = methods.methods([results("ring.json", [RING])])
        self.assertIn("**Simulated.**", text)
        self.assertIn("8 ranks", text)
        for absent in ("**Measured.**", "**Emulated.**", "## Speedup"):
            self.assertNotIn(absent, text)
        text = methods.methods(
            [results("step.json", [STEP, {**STEP, "efficiency": None, "fits_cores": False}])], [("b.json", "is empty")]
        )
        for words in ("**Measured.**", "n = 31", "1 of 2 rows here", "- b.json: it is empty", "| step.json |"):
            self.assertIn(words, text)
        self.assertNotIn("**Simulated.**", text)

    def test_published_points_that_came_later_are_told_apart(self):
        rows = [dict(table=t, relative_error=e) for t, e in (("llm-c", -0.1), ("nemo-fp8", 0.2), ("megatron-ptd", 0.9))]
        self.assertIn(
            "2 of them were added after all costs were fixed: their median error is 15.0 %, and 1 is predicted too"
            " fast",
            combined.later_said(rows),
        )
        self.assertEqual(combined.later_said(rows[2:]), "")
        judged = (ROOT / "tools" / "plan" / "validate_test.cpp").read_text()
        self.assertEqual(combined.LATER, re.findall(r'"([^"]+)"', re.search(r"added\{(.*?)\};", judged, re.S)[1]))

    def test_turns_that_are_left_out_are_told(self):
        row = dict(RING, backend="mpi", machine="host", samples=6, turns_left_out=9)
        rows = [row, dict(row, bytes=4096, samples=15, turns_left_out=0), dict(row, algorithm="gloo", samples=15)]
        self.assertIn(
            "At 1 of 2 sizes 9 of 15 turns are left out, but for gloo: probes beside them were more than 5 % off",
            page_module.selection(rows),
        )
        self.assertEqual(page_module.selection(rows[1:2]), "")
        self.assertIn("1 row is without 9 of 15 turns, in which probes", methods.methods([results("a.json", rows[:2])]))
        self.write("data/all_reduce_mpi", rows, predicted_from="a calibration")
        report = page_module.Report(self.home, reading.read_folder(self.home / "data")[0])
        caption = "".join(report.bandwidth())
        self.assertIn("medians of 6 to 15 samples", caption)
        self.assertIn("9 of 15 turns are left out", caption)
        self.assertIn("is therefore no straight line", caption)

    def test_a_law_without_a_fit_or_interval_is_said(self):
        found = {
            "fitted": {
                "context": {
                    "amdahl_parallel_fraction": 0.99,
                    "amdahl_serial_fraction_low": 0.005,
                    "amdahl_serial_fraction_high": 0.02,
                }
            },
            "short": {
                "context": {
                    "amdahl_parallel_fraction": 0.9,
                    "amdahl_serial_fraction_low": None,
                    "amdahl_serial_fraction_high": None,
                }
            },
            "refused": {"context": {"amdahl_note": "none"}},
        }
        page = claims.amdahl(found)
        for cells in (("fitted", "0.9900", "0.980 to 0.995"), ("short", "0.9000", "–"), ("refused", "none", "–")):
            self.assertIn("".join(f"<td>{cell}</td>" for cell in cells), page)

    def test_an_overhead_is_what_it_adds_to_a_step(self):
        page = claims.overhead({"rows": [{"flop_per_second": 1e14, "ranks": 2}]})
        self.assertIn(
            "<td>25 GB/s</td><td>6,667 to 13,333</td>", page
        )  # 40 and 20 % of 6 · tokens / 1e14 are 1.6e-10 s
        self.assertIn("<td>235 GB/s</td><td>2,837 to 5,674</td>", page)

    def test_latex_says_what_the_page_says(self):
        self.assertEqual(paper.latex("a_b & 5 % × {x}"), r"a\_b \& 5 \% $\times$ \{x\}")
        table = paper.tabular([{"name": "x_1", "seconds": 2e-3}], {"name": "name", "time": "seconds"})
        self.assertIn(r"x\_1 & 2 ms \\", table)
        self.assertIn(r"\begin{tabular}{lr}", table)
        entry = paper.Entry(
            "f",
            "<b>50 %</b> of <i>x</i> &amp; y",
            ["measured, n = 3 · a_b, 2 cores", "measured, n = 3 · another"],
            [],
            {},
        )
        self.assertEqual(paper.caption(entry), r"50 \% of x \& y {\footnotesize measured, n = 3.}")
        self.assertEqual(paper.latex("2⁻¹⁷ é √8 ⟲ <|"), r"2$^{-}$$^{1}$$^{7}$ é $\surd$8 ? $<$$|$")

    def test_latex_knows_every_letter_that_the_report_may_say(self):
        said = "".join(
            path.read_text(encoding="utf-8") for path in HERE.glob("*.py") if not path.name.startswith("report_")
        )
        self.assertEqual([sign for sign in sorted(set(said)) if not sign.isascii() and paper.latex(sign) == "?"], [])

    def test_latex_is_balanced(self):
        rows = [{"a": "x & y_1 50 % #1 {z} ~^\\ $", "b": None, "c": 3.5}, {"a": "–", "b": True, "c": 1e-9}] * 40
        names = [f"f_{k}" for k in range(20)]
        for name in names:
            (self.home / f"{name}_column.pdf").touch()
        paper.write_paper(
            self.home,
            [
                paper.Entry(
                    name,
                    "50 % of <code>a_b</code>",
                    ["simulated · 50 % here"],
                    rows,
                    {"a & b": "a", "b": "b", "c %": "c"},
                )
                for name in names
            ],
        )
        texts = {path.stem: path.read_text(encoding="utf-8") for path in self.home.glob("*.tex")}
        self.assertEqual(sorted(texts), sorted([*names, "figures", "tables"]))
        for text in texts.values():
            text = "\n".join(line for line in text.splitlines() if not line.startswith("%"))
            bare = re.sub(r"\\[\\&%$#_{}]", "", text.replace("\\textbackslash{}", ""))
            self.assertEqual(bare.count("{"), bare.count("}"))
            self.assertEqual(bare.count("$") % 2, 0)
            self.assertNotIn("%", bare)
            self.assertEqual(re.findall(r"\\begin{(\w+\*?)}", text), re.findall(r"\\end{(\w+\*?)}", text))
        lines = [line for line in texts["f_0"].splitlines() if line.endswith(r" \\")]
        self.assertEqual({len(re.findall(r"(?<!\\)&", line)) for line in lines}, {2}, "as many cells as columns")
        self.assertEqual((len(lines), r"\begin{tabular}{lrr}" in texts["f_0"]), (1 + paper.LONGEST, True))
        self.assertIn(f"The first {paper.LONGEST} of 80 rows.", texts["tables"])
        self.assertEqual(texts["figures"].count("\\clearpage"), 2, "LaTeX holds 18 floats")
        for name in names:
            self.assertIn(f"{name}_\\lockstepwidth.pdf", texts["figures"])
            self.assertIn(f"\\input{{{name}}}", texts["tables"])

    def test_times_have_units_and_ratios_have_none(self):
        row = {
            "seconds_low": 2e-3,
            "seconds": 2.5e-3,
            "relative_seconds": 0.234,
            "idle_seconds": 1.73e-18,
            "busy_seconds": 0.9999999,
            "stage_seconds": [1.0],
        }
        shown = {field: html_parts.cell(row, field) for field in row}
        self.assertEqual(
            shown,
            {
                "seconds_low": "2 ms",
                "seconds": "2.5 ms",
                "relative_seconds": "0.234",
                "idle_seconds": "0 ns",
                "busy_seconds": "1 s",
                "stage_seconds": "[1.0]",
            },
        )
        self.assertFalse(results_module.is_seconds("tokens_per_second"))

    def test_zero_has_no_sign(self):
        off, percent = results_module.off, results_module.percent
        self.assertEqual([off(x, 1) for x in (0.9999, 1, 1.0001, 0.99, 1.01)],
                         ["0.0 %", "0.0 %", "0.0 %", "-1.0 %", "+1.0 %"])  # fmt: skip
        said = [percent(-1e-4), percent(-1e-4, 0), percent(-0.01), percent(None)]
        self.assertEqual(said, ["0.0 %", "0 %", "-1.0 %", "–"])

    def test_a_time_below_noise_and_a_law_above_ideal_are_no_numbers(self):
        shown = row_words.columns("exposed, Karp–Flatt")
        said = lambda **row: [html_parts.cell({**STEP, **row}, column) for column in shown.values()]
        self.assertEqual(said(), ["100 ms", "0.25"])
        self.assertEqual(said(exposed_seconds=-0.018), ["below noise", "0.25"])
        self.assertEqual(said(efficiency=1.27, karp_flatt=-0.215), ["100 ms", "–"])
        self.assertEqual(said(exposed_seconds=None, efficiency=None), ["–", "0.25"])
        above = dict(STEP, efficiency=1.27, karp_flatt=-0.215)
        self.assertNotIn("Karp–Flatt", folder.columns_of(folder.chart_of("speedup", [results("a.json", [above])])))

    def test_a_command_that_is_not_known_is_a_dash(self):
        self.assertIn("| a.json | – |", methods.methods([results("a.json", [TRAIN])]))
        self.assertIn(
            "| a.json | `./lab bench ddp --ranks 2` |",
            methods.methods([results("a.json", [STEP], command="ddp", command_line="./lab bench ddp --ranks 2")]),
        )
        self.assertIn("| a.json | ddp |", methods.methods([results("a.json", [STEP], command="ddp")]))


class OfAPage(unittest.TestCase):
    def test_the_page_as_markdown(self):
        page = markdown.Markdown()
        page.feed(
            html_parts.document(
                "A & B",
                [
                    html_parts.section(
                        "run",
                        "What was run",
                        [
                            html_parts.note(
                                '<b>Simulated</b>, p < 8; see <a href="methods.md">methods</a> and <a'
                                ' href="#more">more</a>.'
                            ),
                            '<figure><svg data-figure="ring" aria-label="Time [s]"><style>.a{}</style><path'
                            ' d=""/><text>not shown</text></svg>'
                            "<figcaption>A ring.</figcaption><details><summary>The"
                            f" numbers</summary>{html_parts.table([{'p': 'a|b'}], {'ranks': 'p'})}</details></figure>",
                        ],
                    )
                ],
            )
        )
        text = "\n".join(page.lines)
        self.assertEqual(page.figures, ["ring"])
        for wanted in (
            "# A & B\n",
            "## What was run\n",
            "**Simulated**, p < 8; see [methods](methods.md) and more.\n",
            "![Time (s)](figures/ring.svg)\n\nA ring.\n",
            "<details>\n<summary>The numbers</summary>\n\n| ranks |\n|---|\n| a\\|b |\n\n</details>",
        ):
            self.assertIn(wanted, text)
        self.assertNotIn("not shown", text)
        short, tables = markdown.apart(text)
        self.assertIn("A ring.\n\n[The numbers](tables/ring.md)\n", short)
        self.assertEqual(tables, {"ring.md": "# What was run\n\n| ranks |\n|---|\n| a\\|b |\n"})

    def test_two_tables_below_one_figure_are_two_files(self):
        folded = "<details>\n<summary>The numbers</summary>\n\n{}\n</details>\n"
        short, tables = markdown.apart("# T\n\n" + folded.format("one") + folded.format("two"))
        self.assertEqual(list(tables), ["table.md", "table_more.md"])
        self.assertIn("[The numbers](tables/table_more.md)", short)

    def test_a_small_drawing_keeps_its_scales(self):
        svg = (
            '<svg>\n  <!-- who --><g transform="scale(0.015625)"><path d="M 1.2345 10"/></g><use x="3.25" y="7"/></svg>'
        )
        self.assertEqual(
            markdown.small(svg),
            '<svg>\n<g transform="scale(0.015625)"><path d="M 1.2 10"/></g><use x="3.2" y="7"/></svg>',
        )


class Letters(InFolder):
    """Nothing is smaller than 12 pixels on a screen, and 9 points on paper."""

    def test_a_figure_scrolls_before_its_letters_of_10_points_are_too_small(self):
        path = self.home / "f.svg"
        path.write_text('<?xml version="1.0"?>\n<svg width="576pt" height="300pt" viewBox="0 0 576 300"></svg>')
        svg = html_parts.inline_svg(path, "f", "a figure")
        least = int(re.search(r"min-width: (\d+)px", svg)[1])
        self.assertGreaterEqual(10 * least / 576, 12)  # pixels of 10 of the drawing's 576 points
        self.assertLess(least, 576 * 4 / 3, "no wider than it is")

    def test_no_style_is_too_small(self):
        sizes = re.findall(r"font(?:-size)?: ?([\d.]+)(px|rem|pt)", html_parts.STYLE)
        self.assertEqual({unit for _, unit in sizes}, {"px", "rem", "pt"})
        for size, unit in sizes:
            least = {"px": 12, "rem": 12 / 16, "pt": 9}[unit]
            self.assertGreaterEqual(float(size), least, f"{size}{unit}")

    def test_what_stands_above_nothing_is_left_out(self):
        self.assertEqual(html_parts.section("a", "A", ["", ""]), "")
        self.assertNotIn("<h2>", html_parts.document("t", [html_parts.section("a", "A", [])]))


class Timelines(InFolder):
    def path(self, text):
        path = self.home / "a.trace"
        path.write_text(text)
        return path

    def test_a_trace_is_a_row_a_queue(self):
        main, down = timeline.rows_of(self.path(trace_text()))
        self.assertEqual(
            [(row.rank, row.queue, row.works()) for row in (main, down)], [(0, "main", True), (1, "down", False)]
        )
        self.assertEqual([(e.begin, e.end) for e in down.transfer], [(1e-05, 1.25e-05)])
        self.assertEqual(
            {kind: [e.name for e in events] for kind, events in timeline.kinds(main).items()},
            {"forward": ["F0", "F1.1"], "backward": ["B0"], "waiting": ["wait"], "bytes moving": []},
        )
        self.assertTrue(timeline.is_pipeline([main, down]))
        other = timeline.Row(
            0, "main", [timeline.Event("matmul", 0, 1), timeline.Event("gelu", 1.5, 2), timeline.Event("add", 4, 5)]
        )
        self.assertFalse(timeline.is_pipeline([other]))
        self.assertEqual(timeline.merged(other.compute, 1), [(0, 2), (4, 1)])
        nested = [timeline.Event("step", 0, 9), timeline.Event("forward", 1, 2), timeline.Event("after", 9, 10)]
        self.assertEqual([region.name for region in timeline.outermost(nested)], ["step", "after"])

    def test_a_pipelines_messages_move_when_they_are_sent(self):
        def span(pid, tid, name, category, begin, end, **args):
            return {
                "ph": "X",
                "name": name,
                "cat": category,
                "pid": pid,
                "tid": tid,
                "ts": begin,
                "dur": end - begin,
                "args": args,
            }

        names = [
            {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}
            for pid in (0, 1)
            for tid, name in ((0, "main"), (1, "down even: transfers"))
        ]
        work = [span(0, 0, "F0", "compute", 0, 10), span(1, 0, "F0", "compute", 13, 20)]
        work.reverse()  # in a file, a stage's messages may come before its work
        moves = [
            span(0, 1, "send", "transfer", 10, 10, messages=[["send", 1, 4, 3e-6, 3e-6, 4, 0]]),
            span(1, 1, "receive", "transfer", 0, 13, messages=[["receive", 0, 4, 3e-6, 3e-6, 4, 0]]),
        ]
        rows = timeline.rows_of(self.path(json.dumps({"traceEvents": names + work + moves})))
        self.assertEqual([(row.rank, row.queue) for row in rows], [(0, "main"), (0, "down"), (1, "main")])
        [moved] = rows[1].transfer
        self.assertAlmostEqual(moved.begin, 10e-6)
        self.assertAlmostEqual(moved.end, 13e-6)
        # Other programs' transfers are drawn where they stand.
        work[1]["name"] = "matmul"
        rows = timeline.rows_of(self.path(json.dumps({"traceEvents": names + work + moves})))
        self.assertEqual(
            [(row.rank, row.queue) for row in rows], [(0, "main"), (0, "down even"), (1, "main"), (1, "down even")]
        )

    def test_what_cannot_be_drawn_says_why(self):
        rows, why = timeline.drawable(self.path(trace_text()))
        self.assertEqual((len(rows), why), (2, ""))
        for text, said in {
            trace_text(40): "41 queues is for ui.perfetto.dev",
            "half a tra": "a.trace is no trace of ours",
            '{"traceEvents": []}': "has no events",
        }.items():
            rows, why = timeline.drawable(self.path(text))
            self.assertEqual(rows, [])
            self.assertIn(said, why)

    def test_losses_are_called_so_and_those_of_a_report_are_left_out(self):
        for name in ("mine.csv", "train_serial.csv", "train_serial.log"):
            (self.home / name).write_text("step,loss,seconds\n1,5.5,0.1\n")
        self.assertEqual(reading.read_folder(self.home), ([], [("mine.csv", reading.LOSSES)]))

    def test_a_trace_belongs_to_the_results_of_its_run(self):
        for name in ("a.trace", "lone.trace", "named.json"):
            (self.home / name).write_text(trace_text())
        self.write("a", [{"colour": "red"}])
        found, skipped = reading.read_folder(self.home)
        self.assertEqual([results.trace.name for results in found], ["a.trace"])
        self.assertEqual(
            {name: "trace alone" in why for name, why in skipped}, {"lone.trace": True, "named.json": True}
        )
        self.assertEqual(
            [(chart.name, folder.lacking(chart)) for chart in folder.charts(found)],
            [("timeline_1", ""), ("other_1", "")],
        )

    def test_of_a_report_the_results_are_read_and_not_what_it_made_of_them(self):
        self.write("data/a", [{"colour": "red"}])
        for name in ("data/a.trace", "data/trace_bubble.trace", "predictions.json", "index.html", "figures/a.svg"):
            (self.home / name).parent.mkdir(exist_ok=True)
            (self.home / name).write_text(trace_text())
        self.assertEqual(len(reading.read_folder(self.home)[1]), 4, "as long as it is no report")
        (self.home / "methods.md").write_text("# Methods\n")
        (self.home / "my.png").write_text("")
        for root, name in ((self.home, "data/a.json"), (self.home / "data", "a.json")):
            found, skipped = reading.read_folder(root)
            self.assertEqual([(r.name, r.trace.name) for r in found], [(name, "a.trace")])
            self.assertEqual([left for left, _ in skipped], ["my.png"] if root == self.home else [])


class Charts(unittest.TestCase):
    def names(self, *all_results):
        return [(chart.kind.name, [r.name for r in chart.files]) for chart in folder.charts(all_results)]

    def test_a_curve_never_mixes_places(self):
        one, two = dict(STEP, ranks=2), dict(STEP, ranks=4)
        together = self.names(results("2.json", [one]), results("4.json", [two], date="2026-01-03T00:00:00Z"))
        self.assertIn(("speedup", ["2.json", "4.json"]), together)
        for differs in (
            {"commit": "def"},
            {"machine": "another"},
            {"cores": 8},
            {"versions": {"mpi": "MPICH"}},
            {"code": "yours: all"},
        ):
            apart = self.names(results("2.json", [one]), results("4.json", [two], **differs))
            self.assertIn(("speedup", ["2.json"]), apart, differs)
            self.assertIn(("speedup", ["4.json"]), apart, differs)

    def test_one_file_a_number_of_ranks_is_one_curve(self):
        # Files as a job of many ranks writes them: the binding differs with the ranks, and each has its own T(1).
        files = [
            results(
                f"ranks-{p}.json",
                [dict(STEP, ranks=1, algorithm="serial", speedup=1.0, efficiency=1.0), dict(STEP, ranks=p)],
                binding=f"{p} GPUs",
            )
            for p in (2, 4, 8)
        ]
        (chart,) = (c for c in folder.charts(files) if c.kind.name == "speedup")
        mine = [r for r in chart.rows if r["algorithm"] != "serial"]
        self.assertEqual(
            {label: [r["ranks"] for r in rows] for label, rows in curves.curves(mine, "ranks", lambda r: "x").items()},
            {"x": [2, 4, 8]},
        )

    def test_two_files_with_the_same_point_are_two_curves(self):
        rows = [dict(STEP, file="a.json"), dict(STEP, file="b.json"), dict(STEP, ranks=4, file="a.json")]
        found = curves.curves(rows, "ranks", lambda r: "x")
        self.assertEqual({label: len(mine) for label, mine in found.items()}, {"x": 2, "x [b]": 1})

    def test_different_problems_are_different_curves(self):
        strong = lambda p, tokens, **more: dict(
            STEP, ranks=p, model="tiny", tokens_per_rank=tokens / p, file="a.json", **more
        )
        labels = lambda rows: list(folder.speedups(rows))
        self.assertEqual(labels([strong(2, 1024), strong(4, 1024)]), ["strong, tiny, 1,024 tokens, measured"])
        self.assertEqual(len(labels([strong(2, 1024), strong(4, 2048)])), 2, "another batch")
        self.assertEqual(len(labels([strong(2, 1024), {**strong(4, 1024), "model": "small"}])), 2, "another model")
        self.assertEqual(
            labels([dict(STEP, scaling="weak", tokens_per_rank=512, ranks=p, file="a.json") for p in (2, 4)]),
            ["weak, 512 tokens per rank, measured"],
        )
        study = [
            dict(STEP, ranks=p, seconds=1 / p, tokens_per_second=1024 * p) for p in (2, 4)
        ]  # lab scale: the model is the context's
        (chart,) = (c for c in folder.charts([results("a.json", study, model="small")]) if c.kind.name == "speedup")
        self.assertEqual(labels(chart.rows), ["strong, small, 1,024 tokens, measured"])

    def test_what_all_curves_share_is_said_once(self):
        rows = [dict(RING, algorithm=name, backend="mpi", machine="host", samples=31) for name in ("ring", "naive")]
        (chart,) = (c for c in folder.charts([results("a.json", rows)]) if c.kind.name == "bandwidth")
        self.assertEqual(list(folder.held(chart)), ["ring", "naive"])
        self.assertTrue(folder.caption(chart).endswith(" All: p = 8, measured, n = 31."))
        chart.rows[0]["ranks"] = 4
        self.assertEqual(list(folder.held(chart)), ["ring, p = 4", "naive, p = 8"])

    def test_an_interval_without_width_is_none(self):
        time = lambda **more: row_words.duration(dict(STEP, seconds=1.0, **more))
        self.assertEqual(time(seconds_low=0.9, seconds_high=1.1), "1 s (900 ms to 1.1 s)")
        self.assertEqual(
            [
                time(seconds_low=1.0, seconds_high=1.0),
                time(seconds_low=0.9, seconds_high=1.1, samples=1),
                time(seconds_low=1 - 1e-15, seconds_high=1 + 1e-15, samples=2),
            ],
            ["1 s"] * 3,
        )

    def test_memory_is_counted_as_gpus_are(self):
        row = {
            "model": "7e9",
            "parameters": 7e9,
            "stage": 0,
            "ranks": 8,
            "parameter_bytes": 14e9,
            "gradient_bytes": 14e9,
            "optimizer_bytes": 43.5e9,
            "activation_bytes": 0,
            "total_bytes": 71.5e9,
        }
        (chart,) = folder.charts([results("a.json", [row])])
        shown = {name: html_parts.cell(chart.rows[0], column) for name, column in chart.kind.columns.items()}
        self.assertEqual((shown["total"], shown["parameters"], shown["activations"]), ("71.5 GB", "14 GB", "–"))
        self.assertIn("Activations are not in it.", folder.caption(chart))
        self.assertIn(
            "Activations of one rank are in it.",
            folder.caption(folder.charts([results("a.json", [dict(row, activation_bytes=1e9)])])[0]),
        )

    def test_what_a_machine_file_was_fitted_to_is_no_prediction(self):
        rows = [
            {
                "backend": "mpi",
                "kind": kind,
                "point": "4 B",
                "seconds": 1e-6,
                "predicted_seconds": 1.148e-6,
                "residual": residual,
            }
            for kind, residual in (
                ("message", 0.148),
                ("copy", 0.1),
                ("product", -1.11e-16),
                ("one way", 0.2),
                ("other product", 0.3),
            )
        ]
        text = methods.methods([results("cal.json", rows)])
        self.assertIn("2 rows carry a prediction", text)
        self.assertIn("Not among them: 3 rows of ./lab calibrate", text)
        (chart,) = folder.charts([results("cal.json", rows)])
        shown = [
            {name: html_parts.cell(row, column) for name, column in chart.kind.columns.items()} for row in chart.rows
        ]
        self.assertEqual(
            (shown[0]["difference"], shown[0]["by the file"], shown[2]["difference"]), ("+14.8 %", "1.15 µs", "+0.0 %")
        )
        self.assertIn("not fitted", shown[3]["what"])

    def test_what_has_no_figure_has_a_table(self):
        (chart,) = folder.charts([results("odd.json", [{"colour": "red"}])])
        self.assertEqual((chart.kind.name, list(folder.columns_of(chart))), ("other", ["colour", "file"]))

    def test_compressed_sums_stand_beside_their_ring(self):
        (chart,) = folder.charts(
            [
                results("2.json", sums(2)),
                results("4.json", sums(4) + [dict(row, machine="laptop") for row in sums(4)[1:]]),
            ]
        )
        self.assertEqual((chart.kind.name, len(chart.rows)), ("compression", 8))
        found = folder.compressed_sums(chart.rows)
        self.assertEqual(
            {where: sorted(r["ranks"] for r in rows) for where, rows in found.items()},
            {"dgx-a100, simulated, 1 MiB": [2, 2, 2, 4, 4, 4]},
            "sums without a ring are not compared",
        )
        shown = {name: html_parts.cell(chart.rows[1], column) for name, column in chart.kind.columns.items()}
        self.assertEqual((shown["time, ring = 1"], shown["time"], shown["break-even at p ="]), ("0.5", "500 µs", "100"))

    def test_a_figure_that_cannot_be_says_why(self):
        said = lambda *all_results: {chart.kind.name: folder.lacking(chart) for chart in folder.charts(all_results)}
        self.assertIn(
            "needs two sizes",
            said(results("a.json", [TRAIN]), results("b.json", [dict(TRAIN, compress="int8")]))["throughput"],
        )
        self.assertEqual(said(results("a.json", [TRAIN]), results("b.json", [dict(TRAIN, ranks=8)]))["throughput"], "")
        self.assertIn("no ring", said(results("a.json", sums()[1:]))["compression"])
        self.assertIn("no row has a speedup", said(results("a.json", [dict(STEP, speedup=None)]))["speedup"])

    def test_runs_and_plans_are_told_apart(self):
        self.assertEqual(
            [
                row_words.what(dict(TRAIN, **more))
                for more in (
                    {},
                    {"compress": "topk:0.01"},
                    {"replicas": 1},
                    {"stages": 2, "replicas": 2},
                    {"zero": 1},
                    {"replicas": 2, "tensor_parallel": 2},
                )
            ],
            ["data-parallel", "topk:0.01", "serial", "1f1b", "ZeRO-1", "tensor-parallel"],
        )
        (chart,) = (c for c in folder.charts([results("plan.json", [PLAN])]) if c.kind.name == "breakdown")
        shown = {name: html_parts.cell(chart.rows[0], column) for name, column in chart.kind.columns.items()}
        self.assertEqual(
            [shown[name] for name in ("machine", "p", "what", "time")],
            ["dgx-a100x2", "16", "interleaved, ZeRO-1, dp 2, tp 2, pp 4, m = 8, microbatches of 2, 3 chunks", "1.5 s"],
        )
        pipe = {
            "schedule": "gpipe",
            "stages": 4,
            "microbatches": 8,
            "transfer_seconds": 1e-4,
            "makespan_seconds": 0.25,
            "busy_seconds": 0.2,
            "backend": "sim",
        }
        self.assertEqual(
            (row_words.what_and_mesh(pipe), row_words.ranks(pipe), row_words.duration(pipe)),
            ("gpipe, m = 8, hop 100 µs", 4, "250 ms"),
        )

    def test_parts_of_a_step_are_the_step(self):
        rows = {
            "a step": STEP,
            "ZeRO": {"seconds": 1.0, "exposed_seconds": 0.3, "optimizer_seconds": 0.2, "algorithm": "zero3"},
            "lab scale": {
                "seconds": 1.0,
                "ideal_seconds": 0.5,
                "lost_seconds": 0.5,
                "lost_to_communication_seconds": 0.4,
                "lost_to_bubble_seconds": 0.3,
                "lost_to_imbalance_seconds": -0.1,
            },
            "a phantom mesh": {
                "seconds": 1.0,
                "compute_seconds": 0.5,
                "tensor_seconds": 0.1,
                "idle_seconds": 0.25,
                "data_seconds": 0.1,
                "update_seconds": 0.05,
            },
            "a plan": PLAN,
            "an offloaded plan": dict(PLAN, bubble_seconds=0.1, update_seconds=0.1, host_seconds=0.3),
            "a pipeline": {"makespan_seconds": 1.0, "busy_seconds": 0.7, "idle_seconds": 0.1, "waiting_seconds": 0.2},
        }
        for name, row in rows.items():
            parts = folder.breakdown(row)
            whole = row.get("seconds") or row.get("step_seconds") or row["makespan_seconds"]
            self.assertAlmostEqual(sum(parts.values()), whole, msg=name)
            self.assertTrue(all(v >= 0 for v in parts.values()), name)
        self.assertAlmostEqual(folder.breakdown(rows["lab scale"])["exposed"], 0.4)
        self.assertAlmostEqual(folder.breakdown(rows["lab scale"])["idle"], 0.1)
        self.assertIsNone(folder.breakdown(RING))


class Crossovers(unittest.TestCase):
    """Straight lines in the bytes: 1 + n against 5 + n/4 cross at n = 16/3, 5 + n/4 against 9 + n/8 at n = 32."""

    LINES = {"recursive_doubling": (1, 1), "rabenseifner": (5, 1 / 4), "ring": (9, 1 / 8), "auto": (0, 0)}

    def rows(self, slower=1.0):
        return [
            {
                "machine": "m",
                "ranks": 4,
                "algorithm": name,
                "bytes": size,
                "predicted_seconds": a + b * size,
                "seconds": (a + b * size) * (slower if name == "rabenseifner" else 1),
            }
            for size in (1, 2, 4, 8, 16, 32 - 1, 64)
            for name, (a, b) in self.LINES.items()
        ]

    def test_changes_are_where_the_lines_cross(self):
        found = crossover.changes(self.rows(), "predicted_seconds")
        self.assertEqual(
            [(low, high) for low, high, _ in found], [("recursive_doubling", "rabenseifner"), ("rabenseifner", "ring")]
        )
        self.assertAlmostEqual(found[0][2], 16 / 3)
        self.assertAlmostEqual(found[1][2], 32)

    def test_what_was_seen_stands_beside_what_was_predicted(self):
        first, second = crossover.compared(self.rows(slower=1.2))  # 1 + n = 6 + 0.3 n, and 6 + 0.3 n = 9 + n/8
        self.assertAlmostEqual(first["predicted"], 16 / 3)
        self.assertAlmostEqual(first["seen"], 5 / 0.7)
        self.assertAlmostEqual(second["seen"], 3 / 0.175)
        never = crossover.compared(self.rows(slower=3))
        self.assertEqual([row["seen"] for row in never], [None, None])

    def test_of_equals_the_first_counts(self):
        twins = self.rows() + [
            dict(r, algorithm="hierarchical", predicted_seconds=r["predicted_seconds"] * (1 - 1e-15))
            for r in self.rows()
            if r["algorithm"] == "ring"
        ]
        self.assertEqual(len(crossover.changes(twins, "predicted_seconds")), 2)


class Findings(InFolder):
    """Each sentence says what its rows say; what is missing is left out."""

    def test_scaling_names_speedup_and_limit_best_machine_first(self):
        for machine, speedup, serial in (("slow", 8.0, 0.05), ("fast", 15.5, 0.01), ("odd", 1.0, None)):
            self.write(
                f"scaling_sim_{machine}",
                [dict(STEP, model="m", ranks=p, speedup=speedup * p / 16) for p in (1, 16)],
                amdahl_serial_fraction=serial,
            )
        said = findings.scaling(self.home).sentence
        self.assertIn(
            "15.5 times as fast on 16 ranks of fast (serial part 1.0 %, so never beyond 100); 8.0 times as fast on 16"
            " ranks of slow (serial part 5.0 %, so never beyond 20); 1.0 times",
            said,
        )

    def test_the_ring_is_compared_on_the_machine_where_it_matters_most(self):
        for machine, slower in (("a", 3), ("b", 7), ("dgx-a100-hdr", 9)):
            self.write(
                f"all_reduce_sim_{machine}",
                [
                    dict(RING, bytes=64 << 20, seconds=1e-3 * factor, algorithm=name, bytes_sent_per_rank_max=sent)
                    for name, factor, sent in (("ring", 1, 112 << 20), ("naive", slower, 448 << 20))
                ],
            )
        self.assertIn(
            "8 ranks of b takes a ring 1 ms and the naive way 7 ms, 7 times as long: its busiest rank sends 112 MiB,"
            " not 448 MiB",
            findings.ring(self.home).sentence,
        )

    def test_a_formula_for_one_kind_of_link_says_where_there_are_two(self):
        rows = [dict(RING, algorithm="naive", ranks=16, predicted_seconds=p) for p in (1.46e-3, 1.7e-3)]
        self.assertEqual(page_module.too_slow({"dgx-a100": {"rows": rows}}), "")
        self.assertEqual(page_module.too_slow({"dgx-a100-hdr": {"rows": [dict(r, ranks=8) for r in rows]}}), "")
        self.assertIn(
            "On dgx-a100-hdr the formula of the naive one is +46 to +70 % off: it gives every message the network’s"
            " link, but 7 of rank 0’s 15 peers share its node.",
            page_module.too_slow({"dgx-a100-hdr": {"rows": rows}}),
        )

    def test_overlap_names_best_and_worst_bucket(self):
        self.write(
            "ddp_sim_box",
            [
                dict(STEP, algorithm="overlap", microbatches=1, bucket_bytes=size, hidden_fraction=hidden)
                for size, hidden in ((1 << 20, 0.66), (25 << 20, 0.4), (100 << 20, None))
            ],
        )
        self.assertIn(
            "66 % of the averaging on box with buckets of 1 MiB (40 % with 25 MiB)",
            findings.overlap(self.home).sentence,
        )

    def test_memory_is_the_ledgers_and_says_how_far_the_formula_is_off(self):
        rows = [
            {
                "stage": stage,
                "ranks": 4,
                "category": kind,
                "moment": "resident",
                "measured_bytes": 4e6 / (1 if stage == 0 else 4),
                "predicted_bytes": 4e6 / (1 if stage == 0 else 4),
            }
            for stage in (0, 3)
            for kind in ("parameters", "gradients", "optimizer")
        ]
        self.write("zero_memory", rows + [dict(rows[0], moment="peak", measured_bytes=1e9)])
        self.assertIn(
            "ZeRO-3 keeps 3 MB of model state on each and DDP 12 MB, 4.0 times as much; the ledger holds what the"
            " formulas say, to the byte",
            findings.memory(self.home).sentence,
        )
        self.write("zero_memory", [dict(rows[0], predicted_bytes=3e6), *rows[1:]])
        self.assertIn("at most 25.0 % off the ledger", findings.memory(self.home).sentence)

    def test_schedules_are_compared_at_the_same_microbatches(self):
        row = {"transfer_seconds": 0, "stages": 4}
        self.write(
            "pipeline",
            [
                dict(row, schedule=name, microbatches=m, bubble_of_total=3 / (m + 3), peak_in_flight=held)
                for name, m, held in (("gpipe", 8, 8), ("gpipe", 32, 32), ("1f1b", 8, 4))
            ],
        )
        self.assertIn(
            "4 stages and 8 microbatches both schedules idle 27.3 % of the time, but GPipe’s fullest stage holds the"
            " activations of 8 microbatches and 1F1B’s of 4",
            findings.bubble(self.home).sentence,
        )

    def test_predictions_are_counted_by_kind_and_calibration_is_none(self):
        found = [
            results(
                "a.json",
                [
                    dict(RING, seconds=1.0, predicted_seconds=1.1),
                    dict(STEP, quiet=True, seconds=1.0, predicted_seconds=0.5),
                    dict(STEP, quiet=True, seconds=2.0, predicted_seconds=1.0),
                    dict(STEP, quiet=True, emulated=True, seconds=1.0, predicted_seconds=1.02),
                    dict(STEP, kind="message", seconds=1.0, predicted_seconds=9.0),
                    dict(STEP, predicted_seconds=None),
                ],
            )
        ]
        self.assertIn(
            "simulated ones by 10.0 % (1 row), measured ones by 100.0 % (2 rows), emulated ones by 2.0 % (1 row)",
            findings.truth(found).sentence,
        )

    def test_the_headline_counts_what_was_measured_quietly(self):
        noisy, quiet = (
            dict(STEP, seconds=1.0, predicted_seconds=0.5, quiet=False),
            dict(STEP, seconds=1.0, predicted_seconds=1.1, quiet=True),
        )
        said = lambda *rows: findings.truth([results("a.json", list(rows))]).sentence
        self.assertIn(
            "measured ones by 10.0 % (1 row on a quiet computer; 100.0 % over all 3 rows)", said(noisy, noisy, quiet)
        )
        self.assertIn(
            "measured ones by an unknown amount, because the computer was not quiet in any row (100.0 % over all 2"
            " rows)",
            said(noisy, noisy),
        )

    def test_what_is_missing_is_left_out(self):
        self.assertEqual(findings.all_of(self.home, []), [])
        self.write(
            "pipeline",
            [
                {
                    "transfer_seconds": 0,
                    "stages": 4,
                    "schedule": "gpipe",
                    "microbatches": 8,
                    "bubble_of_total": 0.2,
                    "peak_in_flight": 8,
                }
            ],
        )
        self.assertIsNone(findings.bubble(self.home))

    def test_the_page_opens_with_them(self):
        self.write(
            "data/all_reduce_sim_b",
            [dict(RING, bytes=64 << 20, algorithm=name, bytes_sent_per_rank_max=1) for name in ("ring", "naive")],
        )
        report = page_module.Report(self.home, reading.read_folder(self.home / "data")[0], False)
        first = page_module.weeks(report, self.home, ROOT)[0]
        self.assertIn("A ring uses every link", first)
        self.assertIn("Code: reference", first)
        self.assertNotIn("ZeRO divides", first)


class Full(unittest.TestCase):
    def test_a_full_report_has_every_table_open_and_prints_it(self):
        parts = [
            '<section id="a"><h2>A</h2><details><summary>The numbers</summary>42</details><details'
            " open>1</details></section>"
        ]
        short, full = html_parts.document("t", parts), html_parts.document("t", parts, full=True)
        self.assertEqual((short.count("<details>"), full.count("<details>"), full.count("<details open>")), (1, 0, 2))
        self.assertNotIn('<body class="full">', short)
        self.assertIn('<body class="full">', full)
        self.assertIn("body:not(.full) #predict { display: none; }", full)


class Failures(InFolder):
    def test_a_step_that_failed_stands_where_its_figure_would(self):
        out = self.home
        self.write("data/a", [STEP])
        (out / "data" / "overhead.failed").write_text("overhead of communication\nno memory <left>\n")
        (out / "data" / "overhead.log").write_text("much\n")
        found, skipped = reading.read_folder(out / "data")
        self.assertEqual(skipped, [])
        report = page_module.Report(out, found, True)
        first = page_module.weeks(report, out, ROOT)
        self.assertIn("no memory &lt;left&gt;", "".join(first[:2]))
        drawn = report.figure("overhead", "alt", "caption", files=["overhead.csv"])
        self.assertIn("overhead of communication failed: no memory &lt;left&gt;", drawn)
        (out / "data" / "overhead.failed").unlink()
        self.assertEqual(page_module.Report(out, found, True).failures(), "")


class LeftOut(InFolder):
    def test_a_section_names_what_only_the_full_report_has(self):
        out = self.home
        self.write("data/a", [STEP])
        self.assertEqual(page_module.Report(out, [], True).later("batch_"), "")
        # The suite's own steps, each said somewhere on the page.
        steps = [
            name
            for path in sorted((ROOT / "bench" / "report").glob("week*.sh"))
            for name in re.findall(r'^ *(?:extra|\$kind) "?([a-z_]+)', path.read_text(encoding="utf-8"), re.M)
        ]
        self.assertGreater(len(steps), 5)
        names = [
            *steps,
            "compress_sgd_none",
            "batch_1e-3_none",
            "batch_1e-3_sqrt",
        ]  # the last are the names that loops make
        for name in names:
            (out / "data" / f"{name}.later").write_text(f"<what> {name.split('_')[0]} gives: {name}\n")
        found, skipped = reading.read_folder(out / "data")
        self.assertEqual(([r.name for r in found], skipped), (["a.json"], []))
        report = page_module.Report(out, found, True)
        self.assertIn(f"{len(names)} more steps", report.run())
        self.assertEqual(
            report.later("batch_"),
            html_parts.note("With <code>./lab report --full</code>: &lt;what&gt; batch gives."),
        )
        asked = []
        report.later = lambda *stems: asked.extend(stems) or ""
        page_module.weeks(report, out, ROOT)
        self.assertEqual([name for name in names if not name.startswith(tuple(asked))], [])


class Compare(unittest.TestCase):
    def test_a_serial_run_by_the_clock_is_measured(self):
        row = {"backend": "sim", "wall_seconds": 1.0}
        self.assertEqual(
            [sources.kind_of(dict(row, machine=name)) for name in ("", "laptop")], ["measured", "simulated"]
        )
        self.assertFalse(sources.is_quiet(dict(row, machine="")))

    def test_virtual_times_differ_by_any_amount_and_measured_ones_beyond_their_intervals(self):
        mine = results(
            "a.json",
            [RING, dict(RING, bytes=1 << 21), STEP, dict(STEP, algorithm="no_overlap"), dict(RING, algorithm="tree")],
        )
        other = results(
            "a.json",
            [
                dict(RING, bytes=1 << 21, seconds=1.000001e-3),
                RING,
                dict(STEP, seconds=0.69),
                dict(STEP, algorithm="no_overlap", seconds=1.0, seconds_low=0.8, seconds_high=1.2),
            ],
        )
        pairs, alone = compare.pairs_of([mine], [other])
        self.assertEqual(
            {(p.a["algorithm"], p.a.get("bytes")): p.differs() for p in pairs},
            {("ring", 1 << 20): False, ("ring", 1 << 21): True, ("overlap", None): False, ("no_overlap", None): True},
        )
        self.assertEqual(alone, {"a.json": 1})
        said = compare.summary(pairs)
        self.assertIn("Simulated: 2 rows, 1 differs; B takes 1 times as long", said[0])
        self.assertIn(
            "Measured: 2 rows, 1 differs; B takes 2 times as long (median of those), furthest off 2 times (a.json).",
            said[1],
        )

    def test_rows_that_say_the_same_are_told_apart_by_their_order(self):
        pairs, alone = compare.pairs_of(
            [results("a.json", [RING, dict(RING, seconds=2e-3)])], [results("a.json", [RING, dict(RING, seconds=4e-3)])]
        )
        self.assertEqual([p.ratio() for p in pairs], [1.0, 2.0])
        self.assertEqual(alone, {})

    def test_the_page_names_both_places_and_what_differs(self):
        text, said = compare.page(
            ("left", "right"),
            [results("a.json", [RING])],
            [results("a.json", [dict(RING, seconds=3e-3)], commit="other00")],
        )
        self.assertEqual(
            said,
            ["Simulated: 1 row, 1 differs; B takes 3 times as long (median of those), furthest off 3 times (a.json)."],
        )
        for word in ("left", "right", "commit other00", "3.000", "dgx-a100"):
            self.assertIn(word, text)
        text, said = compare.page(("left", "right"), [results("a.json", [RING])], [results("a.json", [RING])])
        self.assertEqual(said, ["Simulated: 1 row, none differs."])
        self.assertIn("Nothing.", text)


class WriteUp(InFolder):
    def test_the_questions_are_those_of_the_handouts(self):
        for week in range(21, 26):
            text = writeup.handout(ROOT, week)
            asked = writeup.questions(text)
            self.assertEqual(len(asked), text.count(writeup.ASKED), week)
            self.assertTrue(all(name.startswith(f"{week}.") and len(questions) >= 2 for name, questions in asked), week)
        text = (
            "## 1 One\n### Check yourself\n\n1. Why\n   so?\n2. And?\n\nAnswers: there.\n### Go further\n1. No"
            " question.\n"
        )
        self.assertEqual(writeup.questions(text), [("1 One", ["Why so?", "And?"])])

    def test_it_holds_predictions_figures_questions_and_room(self):
        out = self.home
        (out / "figures").mkdir()
        row = {
            "question": "23.2/bytes",
            "ask": "How many bytes?",
            "guess": 2.0,
            "measured": 4.0,
            "formula": 4.0,
            "unit": "MB",
            "date": "2026-01-02",
        }
        others = dict(row, question="21.2/time"), dict(row, question="23.3/later", measured=None)
        self.write("predictions", [row, *others])
        self.write("data/a", [STEP], code="yours: 23.2")
        (out / "figures" / "tp.png").write_bytes(b"")
        (out / "figures" / "tp.svg").write_text('<svg width="100pt"></svg>')
        report = page_module.Report(out, reading.read_folder(out / "data")[0], False)
        report.figure("tp", "alt", "What <b>it</b> shows.")
        report.figure("gone", "alt", "Without a drawing.")
        writeup.write(report, 23, ROOT, report.drawing)
        text, page = (out / "writeup.md").read_text(), (out / "writeup.html").read_text()
        self.assertIn("Code: yours: 23.2.", text)
        self.assertIn("23.2, How many bytes? I said 2 MB; by formula 4; measured 4 MB, off by -50 %.", text)
        self.assertNotIn("21.2", text.split("## What I measured")[0])
        self.assertNotIn("23.3, ", text.split("## What I measured")[0])
        self.assertIn("![tp](figures/tp.png)\n\nWhat it shows.", text)
        self.assertIn("`gone`: its numbers", text)
        asked = [question for _, questions in writeup.questions(writeup.handout(ROOT, 23)) for question in questions]
        self.assertTrue(all(question in text for question in asked))
        self.assertEqual(text.count("- [ ] "), len(writeup.CHECKLIST))
        self.assertIn("<svg", page)
        self.assertEqual(page.count("<textarea"), 1 + 1 + 2 + len(asked))  # in three sentences; why; of two figures
        self.assertEqual(page.count('type="checkbox"'), len(writeup.CHECKLIST))


class Sheets(InFolder):
    def test_week_25_asks_what_its_data_answers(self):
        row = {"chunks": 1, "stages": 16, "accumulate": 192, "bubble_of_ideal": 0.088}
        self.write("phantom_175b", [row])
        ((question, unit, predicted, measured, how),) = predict.everything_together(self.home)
        self.assertIn("192 microbatches", question)
        self.assertAlmostEqual(predicted, 100 * 15 / 192)
        self.assertAlmostEqual(measured, 8.8)
        page = predict.section_of(self.home)
        self.assertIn("Week 25", page)
        self.assertNotIn("Week 24", page)

    def test_the_page_names_what_predicts(self):
        here = {"predicted_from": "a ping-pong", "alpha_seconds": 1e-6, "beta_seconds_per_byte": 1e-10}
        self.assertIn("α = 1 µs, 1/β = 10.00 GB/s", page_module.prices_of(here))
        self.assertEqual(
            page_module.prices_of({"predicted_from": "a host, by ./lab calibrate"}), "from a host, by ./lab calibrate"
        )

    def test_what_pages_load_some_step_writes(self):
        steps = "".join(path.read_text() for path in (ROOT / "bench" / "report").glob("*.sh"))
        names = re.findall(r'\$data/([^"]*?)\.(?:json|csv)"', steps)
        names += re.findall(r'^ *(?:step|extra|\$kind) "?((?:\$\{[^}]*\}|[^":\s])+).* rows ', steps, re.M)
        written = [re.sub(r"\$\{[^}]*\}|\$\w+", "*", name) for name in names]
        patterns = [re.compile(".*".join(map(re.escape, name.split("*"))) + "$") for name in written]
        for path in HERE.glob("*.py"):
            if path.name.startswith("report_"):
                continue
            for name in re.findall(r'load(?:_csv)?\((?:self\.|report\.)?data, "(\w[\w-]*)"\)', path.read_text()):
                self.assertTrue(
                    any(p.match(name) for p in patterns),
                    f"{path.name} loads {name}, which no step of bench/report writes",
                )
