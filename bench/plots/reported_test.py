"""Tests of numbers that somebody brings along: CSV files, logs of torchrun, output of nccl-tests. See test.sh."""

import json
import pathlib
import re
import subprocess
import tempfile
import unittest

import folder
import html_parts
import laws
import methods
import nccl_tests
import prices
import reading
import reported
import torch_logs
from report_cases import CONTEXT, STEP
from sources import Unusable

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
THREE = "ranks,samples_per_s\n1,100\n2,190\n4,350\n8,600\n"


def refused(text):
    try:
        reported.read_csv(text, "a.csv")
    except Unusable as why:
        return str(why)
    raise AssertionError("it should be refused")


def rows_of(text, *fields):
    return [tuple(row.get(field) for field in fields) for row in reported.read_csv(text, "a.csv").rows]


class Csv(unittest.TestCase):
    def test_two_columns_give_speedup_efficiency_and_laws(self):
        results = reported.read_csv(THREE, "runs/ddp.csv")
        self.assertEqual([row["model"] for row in results.rows], ["ddp"] * 4)
        self.assertEqual([round(row["speedup"], 6) for row in results.rows], [1, 1.9, 3.5, 6])
        self.assertEqual([round(row["efficiency"], 6) for row in results.rows], [1, 0.95, 0.875, 0.75])
        self.assertAlmostEqual(results.rows[3]["karp_flatt"], (1 / 6 - 1 / 8) / (1 - 1 / 8))
        self.assertEqual([fit.law for fit in results.fits["ddp"]], ["amdahl", "gustafson"], "it does not say which")
        (chart,) = folder.charts([results])
        said = folder.caption(chart)
        for words in (
            "reported by you",
            "If the batch was one for all ranks: Amdahl’s law: serial fraction 0.047 (95 %",
        ):
            self.assertIn(words, said)
        for claim in ("wall clock", "median", "**Measured", "serial program", "samples each"):
            self.assertNotIn(claim, said + methods.methods([results]))

    def test_names_and_numbers_as_people_write_them(self):
        speedups = lambda text: [round(s, 3) for (s,) in rows_of(text, "speedup")]
        for text in (
            "GPUs\tTokens / sec\n1\t1,000\n2\t1,900\n",
            "\ufeffworld_size;Zeit;seconds\n1;x;0,19\n\n2;x;0,10\n",
            "# machine: 2 × L40S\nnproc,step_time_ms\n1,19\n2,10\n",
            "p,img/s/gpu\n1,100\n2,95\n",
            "p,throughput,tokens_per_s\n1,100,9\n2,190,8\n",
            "ranks,speedup\n1,1\n2,1.9x\n",
            "# ranks samples/s\n1 100\n2 190\n",
            "#gpus,samples/s,\r\n1,100,\r\n2,190,\r\n",
            '"Number of GPUs","img/sec"\n1,"1,000"\n2,"1,900"\n',
            "nodes,tokens_per_s\n1,100\n2,190\n",
            "nodes,gpus,tokens_per_s\n1,1,100\n1,2,190\n",
            "p,efficiency (%)\n1,100\n2,95\n",
            "ranks,efficiency\n1,100%\n2,95 %\n",
        ):
            self.assertEqual(speedups(text), [1, 1.9], text)
        results = reported.read_csv("# machine: 2 × L40S\nranks,s\n1,19\n2,10\n", "a.csv")
        self.assertEqual(results.context, {"machine": "2 × L40S"})

    def test_what_is_missing_is_said_at_once_with_a_file_that_works(self):
        why = refused("name,loss\na,2\n")
        for words in (
            "lacks a column of ranks",
            "lacks a column of what was measured: samples_per_s",
            reported.EXAMPLE,
        ):
            self.assertIn(words, why)
        reported.read_csv(reported.EXAMPLE, "a.csv")
        self.assertIn("no line of names", refused("1,100\n2,190\n"))
        self.assertIn("the unit of 'time': call it seconds or ms", refused("ranks,time\n1,2\n"))
        self.assertIn("has two columns of ranks: ranks, gpus", refused("ranks,gpus,s\n1,1,2\n"))
        self.assertIn("has no rows", refused("ranks,seconds\n"))
        self.assertIn("lacks a column of what was measured", refused("ranks,images_per_gpu\n1,32\n"))

    def test_all_that_is_wrong_with_rows_is_said_at_once(self):
        why = refused("ranks,samples_per_s,low,high\n1,100,102,98\n2,fast,1,2\n-3,9,8,10\n4,,,\n,7,6,8\n8,0,,\n")
        for words in (
            "row 2: 'fast' for samples_per_s is no number",
            "row 3: -3 is no number of ranks",
            "row 5 does not say its ranks",
            "row 6: samples_per_s is 0, not above 0",
            "on 2 ranks, 4 ranks, 8 ranks there is no samples per second",
        ):
            self.assertIn(words, why)
        self.assertIn(
            "on 1 rank 100 does not lie between low 102 and high 98", refused("p,tok/s,low,high\n1,100,102,98\n")
        )

    def test_columns_that_disagree_are_refused(self):
        self.assertIn("on 1 rank 100 does not lie between high 98", refused("p,tok/s,high\n1,100,98\n"))
        why = refused(THREE.replace("_s\n", "_s,speedup\n").replace("8,600", "8,600,60"))
        self.assertEqual(why, "contradicts itself: a speedup of 60 on 8 ranks, but its samples per second give 6")
        self.assertIn("more than 16 is not believed", refused("ranks,speedup\n1,1\n8,60\n"))
        self.assertIn("speedup of 60 on 8 ranks, where 8 is ideal", refused("ranks,samples_per_s\n1,100\n8,6000\n"))
        self.assertIn(
            "an efficiency of 0.9 on 2 ranks; speedup / ranks is 0.75",
            refused("p,speedup,efficiency\n1,1,1\n2,1.5,0.9\n"),
        )
        self.assertIn(
            "samples per second times seconds is 64 samples on 1 rank and 171.2 on 8",
            refused("ranks,samples_per_s,seconds\n1,100,0.64\n8,1600,0.107\n"),
        )

    def test_rate_and_time_together_say_which_scaling_it_is(self):
        for scaling, times in (("strong", (0.64, 0.337, 0.183)), ("weak", (0.64, 0.674, 0.731))):
            rows = "".join(f"{p},{rate},{t}\n" for p, rate, t in zip((1, 2, 4), (100, 190, 350), times))
            results = reported.read_csv("ranks,samples_per_s,seconds\n" + rows, "a.csv")
            self.assertEqual({row["scaling"] for row in results.rows}, {scaling})
            self.assertEqual([fit.law for fit in results.fits["a"]], [laws.OF_SCALING[scaling]])
            self.assertIn(f"{scaling} scaling, as rate times seconds says", results.remarks)

    def test_times_alone_are_of_one_batch_unless_they_do_not_fall(self):
        results = reported.read_csv("ranks,seconds\n1,0.64\n2,0.34\n", "a.csv")
        self.assertIn("taken as strong scaling", results.remarks[0])
        flat = "ranks,seconds{}\n1,0.64{}\n2,0.66{}\n4,0.7{}\n"
        self.assertIn("a column scaling has to say strong", refused(flat.format(*[""] * 4)))
        weak = rows_of(flat.format(",scaling", *[",weak"] * 3), "speedup", "efficiency")
        self.assertAlmostEqual(weak[2][0], 4 * 0.64 / 0.7)
        strong = rows_of(flat.format(",scaling", *[",strong"] * 3), "speedup")
        self.assertAlmostEqual(strong[2][0], 0.64 / 0.7)
        self.assertIn("scaling is strong or weak, not 'big'", refused(flat.format(",scaling", *[",big"] * 3)))

    def test_low_and_high_become_those_of_the_speedup(self):
        _, (low, high) = rows_of(
            "ranks,samples_per_s,low,high\n1,100,98,102\n2,190,185,194\n", "speedup_low", "speedup_high"
        )
        self.assertAlmostEqual(low, 185 / 102)
        self.assertAlmostEqual(high, 194 / 98)
        _, (low, high) = rows_of("ranks,s,low,high\n1,10,9,11\n2,5,4,6\n", "speedup_low", "speedup_high")
        self.assertAlmostEqual(low, 9 / 6)
        self.assertAlmostEqual(high, 11 / 4)

    def test_other_columns_of_words_are_curves_and_repeated_runs_one_point(self):
        text = "strategy,gpus,tokens_per_s,run\n" + "".join(
            f"{name},{p},{rate * p},{run}\n"
            for name in ("ddp", "fsdp")
            for p in (1, 2)
            for run, rate in ((1, 100), (2, 90), (3, 120))
        )
        results = reported.read_csv(text, "a.csv")
        self.assertEqual(
            [(r["model"], r["ranks"]) for r in results.rows], [("ddp", 1), ("ddp", 2), ("fsdp", 1), ("fsdp", 2)]
        )
        one = results.rows[0]
        self.assertEqual([one[f"tokens_per_second{end}"] for end in ("", "_low", "_high")], [100, 90, 120])
        self.assertEqual(one["samples"], 3)
        self.assertEqual(results.remarks, ["not read: run"])
        (chart,) = folder.charts([results])
        self.assertEqual(list(folder.held(chart)), ["ddp", "fsdp"])

    def test_without_one_rank_the_fewest_are_ideal_and_no_law_is_fitted(self):
        results = reported.read_csv("gpus,tokens_per_s\n8,80\n16,152\n32,270\n", "a.csv")
        self.assertEqual([row["speedup"] for row in results.rows], [8, 15.2, 27])
        self.assertEqual((results.fits["a"], "karp_flatt" in results.rows[1]), ([], False))
        self.assertIn("no row on 1 rank", results.remarks[0])

    def test_a_table_has_no_column_that_says_nothing(self):
        (chart,) = folder.charts([reported.read_csv(THREE, "ddp.csv")])
        shown = {name: html_parts.cell(chart.rows[3], column) for name, column in folder.columns_of(chart).items()}
        self.assertEqual(shown["rate"], "600 samples/s")
        self.assertEqual(set(shown), {"from", "how", "p", "what", "rate", "speedup", "efficiency", "Karp–Flatt"})

    def test_the_same_in_a_json_file_needs_no_context(self):
        with tempfile.TemporaryDirectory() as home:
            path = pathlib.Path(home) / "a.json"
            rows = [{"ranks": p, "samples_per_second": rate} for p, rate in ((1, 100), (2, 190), (4, 350), (8, 600))]
            path.write_text(json.dumps({"rows": rows}))
            ((results,), _) = reading.read_folder(path)
            self.assertEqual([round(row["speedup"], 6) for row in results.rows], [1, 1.9, 3.5, 6])
            path.write_text(
                json.dumps({"rows": [{"ranks": p, "speedup": s} for p, s in ((2, 1.9), (4, 3.5), (8, 6.0))]})
            )
            ((results,), _) = reading.read_folder(path)
            self.assertEqual([round(fit.serial, 3) for fit in results.fits[None]], [0.047, 0.264])

    def test_the_file_in_the_documentation_works(self):
        text = (ROOT / "docs" / "use" / "report.md").read_text()
        (example,) = (block for block in text.split("```\n") if block.startswith("ranks,"))
        self.assertEqual([row["ranks"] for row in reported.read_csv(example, "ddp.csv").rows], [1, 2, 4, 8])
        self.assertTrue(example.startswith(reported.EXAMPLE))


class Laws(unittest.TestCase):
    def test_the_fits_are_those_of_lab_scale(self):
        # tools/scale/scale_test.cpp has the same numbers.
        speedups = {1: 1.0, 2: 1.9, 4: 3.5, 8: 6.0}
        fit = laws.fitted("amdahl", speedups)
        for found, known in zip((fit.serial, fit.low, fit.high), (0.0472445213, 0.0443124152, 0.0501766274)):
            self.assertAlmostEqual(found, known, 9)
        fit = laws.fitted("gustafson", speedups)
        for found, known in zip((fit.serial, fit.low, fit.high), (0.2644067797, 0.1187365747, 0.4100769847)):
            self.assertAlmostEqual(found, known, 9)

    def test_a_law_that_does_not_describe_the_points_says_so(self):
        few = laws.fitted("amdahl", {1: 1.0, 2: 1.9})
        self.assertEqual(few.sentence(), "Amdahl’s law: no fit, which needs 3 numbers of ranks, and here are 2.")
        self.assertIn("too few points for an interval", laws.fitted("amdahl", {1: 1.0, 2: 1.9, 4: 3.5}).sentence())
        self.assertIn(
            "does not describe these points", laws.fitted("amdahl", {1: 1, 2: 2, 4: 4, 8: 8, 16: 5}).sentence()
        )
        self.assertIn("more ranks are slower", laws.fitted("amdahl", {1: 1.0, 2: 0.7, 4: 0.5, 8: 0.3}).sentence())
        self.assertIn("faster than their share", laws.fitted("amdahl", {1: 1.0, 2: 2.4, 4: 5.0}).sentence())

    def test_students_quantiles(self):
        for freedom, known in ((1, 12.706), (2, 4.303), (5, 2.571), (30, 2.042)):
            self.assertAlmostEqual(laws.student_t95(freedom), known, 3)


class Logs(unittest.TestCase):
    def of(self, **logs):
        found, skipped = torch_logs.of_logs({name.replace("__", "/") + ".log": text for name, text in logs.items()})
        return {r.name: [(row["model"], row["ranks"]) for row in r.rows] for r in found}, found, dict(skipped)

    def test_what_programs_print_is_read(self):
        for line, known in (
            ("throughput: 1,234.5 samples/s", ("samples_per_second", False, 1234.5)),
            ("loss 3.1 | tok/sec: 1497812.3", ("tokens_per_second", False, 1497812.3)),
            ("{'train_runtime': 12.3, 'train_samples_per_second': 123.4}", ("samples_per_second", False, 123.4)),
            ("RunningAvgSamplesPerSec=99.1, CurrSamplesPerSec=120.1", ("samples_per_second", False, 120.1)),
            ("step: 10  loss:  7.1  memory: 30GiB  tps: 5,123  mfu: 30%", ("tokens_per_second", True, 5123)),
            ("12.5k tokens/s/GPU", ("tokens_per_second", True, 12500)),
            ("img/s: 812", ("images_per_second", False, 812)),
            (" iteration 10/100 | elapsed time per iteration (ms): 1234.5 | x", ("seconds", False, 1.2345)),
            ("iter 100: loss 3.1, time 123.45ms, mfu 30%", ("seconds", False, 0.12345)),
            ("step time: 0.25 s", ("seconds", False, 0.25)),
            ("global_step: 9, train_step_timing in s: 1.5, x: 2", ("seconds", False, 1.5)),
            ("Epoch: [0][ 10/5005]\tTime  0.345 ( 0.456)\tData  0.0 (0.1)", ("seconds", False, 0.345)),
            ("\x1b[31mstep:  1  \x1b[32mloss: 12.2\x1b[34mtps: 1,234\x1b[0m", ("tokens_per_second", True, 1234)),
        ):
            field, each, (value,) = torch_logs.rates(line)
            self.assertEqual((field, each), known[:2], line)
            self.assertAlmostEqual(value, known[2], msg=line)
        self.assertEqual(torch_logs.rates("elapsed time 0:03, loss 3.1")[2], [])

    def test_the_lowest_rank_speaks_for_all(self):
        text = "".join(f"[default{r}]:{100 + r} samples/s\n" for r in (1, 0, 2))
        self.assertEqual(torch_logs.rates(text)[2], [100])

    def test_ranks_are_printed_or_named(self):
        ranks = lambda name, text="": torch_logs.ranks_of(name, text)
        self.assertEqual(ranks("ddp_8gpus.log"), (8, "ddp"))
        self.assertEqual(ranks("titan-4.log"), (4, "titan"))
        self.assertEqual(ranks("gpus16/run.log"), (16, "run"))
        self.assertEqual(ranks("a.log", "[rank0]: world_size=8"), (8, "a"))
        self.assertEqual(ranks("a.log", "torchrun --nnodes 2 --nproc-per-node 8 t.py"), (16, "a"))
        self.assertEqual(ranks("fsdp2.log")[0], None)
        with self.assertRaisesRegex(Unusable, "called ddp_8gpus.log and prints a world size of 4"):
            ranks("ddp_8gpus.log", "world size: 4")

    def test_a_folder_of_logs_is_a_study(self):
        line = lambda value: f"warm-up {0.1 * value} samples/s\n" + f"{value} samples/s\n" * 8
        found, (results,), skipped = self.of(ddp_1gpu=line(100), ddp_2gpu=line(190), fsdp_1gpu=line(90), notes="hello")
        self.assertEqual(found, {"logs_samples_per_second.csv": [("ddp", 1), ("ddp", 2), ("fsdp", 1)]})
        self.assertIn("prints no throughput", skipped["notes.log"])
        self.assertEqual((results.rows[1]["samples"], round(results.rows[1]["speedup"], 6)), (9, 1.9))
        again = reported.read_csv(results.kept, "again.csv")
        self.assertEqual([(row["model"], row["ranks"]) for row in again.rows], found[results.name])
        _, _, skipped = self.of(run=line(100))
        self.assertIn("not on how many ranks: call it run_8gpus.log, or print world_size=8", skipped["run.log"])

    def test_logs_beside_our_results_are_those_of_our_commands(self):
        with tempfile.TemporaryDirectory() as home:
            root = pathlib.Path(home)
            (root / "mine").mkdir()
            for folder_of_it in (root, root / "mine"):
                (folder_of_it / "job_2gpus.log").write_text("100 samples/s\n")
            (root / "step.json").write_text(json.dumps({"context": CONTEXT, "rows": [STEP]}))
            found, skipped = reading.read_folder(root)
        self.assertEqual(([r.name for r in found], skipped), (["logs_samples_per_second.csv", "step.json"], []))
        self.assertEqual([row["samples"] for row in found[0].rows], [1])

    def test_a_rate_of_each_is_times_the_ranks(self):
        _, (results,), _ = self.of(titan_1="tps: 3,000\n", titan_2="tps: 2,900\n")
        self.assertEqual([row["tokens_per_second"] for row in results.rows], [3000, 5800])

    def test_an_interval_is_of_order_statistics(self):
        self.assertEqual(torch_logs.order_statistics([1, 2, 3]), (1, 3))
        self.assertEqual(torch_logs.order_statistics(list(range(1, 21))), (6, 15))  # known: n = 20


HEAD = """# nccl-tests version 2.17.6 nccl-headers=22304 nccl-library=22304
# Collective test starting: all_reduce_perf
# Using devices
#  Rank  0 Group  0 Pid  40529 on    node-a device  0 [0000:07:00] NVIDIA A100-SXM4-80GB
#  Rank  1 Group  0 Pid  40529 on    node-a device  1 [0000:0a:00] NVIDIA A100-SXM4-80GB
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
"""
SMALL = "4096 1024 float sum -1    30.00    0.14    0.14       0    31.00    0.13    0.13       0\n"
LARGE = "67108864 16777216 float sum -1   671.09  100.00  100.00       0   700.00   95.87   95.87     N/A\n"


class NcclTests(unittest.TestCase):
    def refused(self, text, name="a.out"):
        with self.assertRaises(Unusable) as raised:
            nccl_tests.of_output(text, name, None)
        return str(raised.exception)

    def test_what_it_prints_is_read(self):
        self.assertTrue(nccl_tests.is_output(HEAD))
        results = nccl_tests.of_output(HEAD + SMALL + LARGE, "a.out", None)
        self.assertEqual(results.context["machine"], "2 × NVIDIA A100-SXM4-80GB, 1 host")
        self.assertEqual(results.context["versions"], {"nccl": "2.23.4"})
        self.assertEqual(
            [(r["algorithm"], r["bytes"]) for r in results.rows][:2], [("out of place", 4096), ("in place", 4096)]
        )
        self.assertAlmostEqual(results.rows[2]["busbw_gb_per_s"], 100.0, 2)
        (chart,) = folder.charts([results])
        self.assertEqual(chart.kind.name, "bandwidth")
        self.assertEqual(list(folder.held(chart)), ["all-reduce, out of place", "all-reduce, in place"])
        self.assertIn("reported by you", folder.caption(chart))
        self.assertNotIn("predicted", folder.caption(chart))

    def test_what_is_missing_or_wrong_is_said(self):
        bare = HEAD.replace("# Collective test starting: all_reduce_perf\n", "")
        bare = "\n".join(line for line in bare.splitlines() if "Rank" not in line) + "\n"
        why = self.refused(bare)
        for words in ("a program's name (all_reduce_perf …)", "on how many GPUs", "rows of sizes"):
            self.assertIn(words, why)
        self.assertIn("busbw is 1.75 times algbw, and on the 2 ranks that it names it is 1 times",
                      self.refused(HEAD + LARGE.replace("100.00  100.00", "100.00  175.00")))  # fmt: skip
        self.assertIn(
            "algbw is 50 GB/s, and bytes / time 100",
            self.refused(HEAD + LARGE.replace("100.00  100.00", " 50.00   50.00")),
        )
        wrong = nccl_tests.of_output(HEAD + SMALL.replace("   0    31", "   3    31"), "a.out", None)
        self.assertIn("3 values were wrong (the column #wrong)", wrong.remarks)

    def document(self):
        seen = {"time": 671.08864, "alg_bw": 100.0, "bus_bw": 75.0, "nwrong": None}
        return {
            "version": 3,
            "args": ["./build/all_gather_perf", "-g", "4"],
            "env": ["TOKEN=secret"],
            "nccl_version": 22304,
            "config": {"ngpus": 4},
            "devices": [{"rank": r, "hostname": "b", "device_info": "NVIDIA H100"} for r in range(4)],
            "results": [{"size": 67108864, "count": 1, "type": "float", "redop": "none", "root": "-1",
                         "out_of_place": seen, "in_place": None}],
        }  # fmt: skip

    def test_its_json_is_read_and_its_environment_is_not_kept(self):
        with tempfile.TemporaryDirectory() as home:
            path = pathlib.Path(home) / "ag.json"
            path.write_text(json.dumps(self.document()))
            ((results,), skipped) = reading.read_folder(path, prices.machine_named("dgx-h100"))
        self.assertEqual((skipped, len(results.rows)), ([], 1))
        (row,) = results.rows
        self.assertEqual((row["collective"], row["ranks"], row["algorithm"]), ("all_gather", 4, "out of place"))
        self.assertAlmostEqual(row["busbw_gb_per_s"], 75.0)
        self.assertNotIn("secret", results.kept)
        self.assertEqual(json.loads(results.kept)["rows"], results.rows)
        self.assertIn("predicted on dgx-h100: what NCCL reaches", folder.caption(folder.charts([results])[0]))

    def test_predictions_are_those_of_the_suite(self):
        # ./lab bench all_reduce --machine …: library_seconds. tools/plan/library_test.cpp has some of them.
        for machine, ranks, size, seconds in (
            ("dgx-a100", 8, 4096, 4.38e-05),
            ("dgx-a100", 8, 64 << 20, 0.0007502682187058171),
            ("dgx-a100", 4, 1 << 20, 7.739273815008322e-05),
            ("dgx-a100-hdr", 16, 64 << 20, 0.0008110538297872341),
            ("dgx-a100-10gbe", 16, 1 << 20, 0.0010224887000849616),
            ("dgx-h100-ndr", 16, 4096, 7.561116076294277e-05),
        ):
            found = prices.all_reduce_seconds(prices.machine_named(machine), ranks, size)
            self.assertAlmostEqual(found / seconds, 1, 12, (machine, ranks, size))
        small = prices.machine_named("dgx-a100")
        self.assertEqual(prices.of_collective(small, "all_reduce", 16), (None, "it holds 8 ranks, and here are 16"))
        self.assertEqual(prices.of_collective(small, "sendrecv", 2)[0], None)


class AsAWhole(unittest.TestCase):
    def report(self, files, source, *arguments):
        home = tempfile.TemporaryDirectory()
        self.addCleanup(home.cleanup)
        root = pathlib.Path(home.name)
        for name, text in files.items():
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_text(text)
        command = ["sh", str(ROOT / "bench" / "report" / "report.sh"), "--from", str(root / source)]
        done = subprocess.run(
            [*command, "--output", str(root / "out"), *arguments], capture_output=True, text=True, check=False
        )
        # Drops the progress, which it only prints where it takes long.
        done.stderr = re.sub(r"^\[\d+/\d+\] .*\n", "", done.stderr, flags=re.M)
        return done, root / "out"

    def test_a_csv_and_nothing_else(self):
        done, out = self.report({"ddp.csv": THREE}, "ddp.csv", "--style", "paper")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        page = (out / "index.html").read_text()
        self.assertIn("serial fraction 0.047", page)
        self.assertNotIn("Every number says how it came about", page)
        self.assertEqual((out / "data" / "ddp.csv").read_text(), THREE)
        self.assertIn("Student’s t at 95 %", (out / "methods.md").read_text())
        printed = (out / "paper" / "figures.tex").read_text()
        self.assertIn("\\caption{Speedup and efficiency. Efficiency is speedup over p.", printed)
        self.assertNotIn("by you.}", printed)
        table = (out / "paper" / "speedup_1.tex").read_text()
        self.assertIn("600 samples/s", table)

    def test_a_csv_that_lacks_something_is_one_message(self):
        done, out = self.report({"ddp.csv": "name,speed\na,1\n"}, "ddp.csv")
        self.assertEqual(done.returncode, 1)
        self.assertTrue(done.stderr.startswith("report: ddp.csv lacks a column of ranks"), done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertFalse((out / "index.html").exists())

    def test_a_folder_of_each(self):
        files = {
            "mine/ddp.csv": THREE,
            "mine/a_1gpu.log": "10 samples/s\n",
            "mine/a_2gpus.log": "19 samples/s\n",
            "mine/nccl.txt": HEAD + SMALL + LARGE,
            "mine/wrong.csv": "ranks,speedup\n1,1\n8,60\n",
        }
        done, out = self.report(files, "mine", "--machine", "dgx-a100")
        self.assertEqual(done.returncode, 1, "one of them contradicts itself")
        self.assertIn("skipped wrong.csv: it contradicts itself", done.stderr)
        self.assertEqual(
            sorted(path.name for path in (out / "data").iterdir()),
            ["ddp.csv", "logs_samples_per_second.csv", "nccl.txt.json"],
        )
        page = (out / "index.html").read_text()
        for words in ("Bus bandwidth, reported by you", "Dotted: predicted on dgx-a100", "read from 2 logs"):
            self.assertIn(words, page)

    def test_a_machine_that_is_not_known(self):
        done, _ = self.report({"ddp.csv": THREE}, "ddp.csv", "--machine", "dgx")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--machine dgx: neither a file NAME.json nor one of a10-pair", done.stderr)


if __name__ == "__main__":
    unittest.main()
