#!/usr/bin/env python3
"""Writes the report's page: python3 bench/plots/page.py outputs/report [--from DIR] [--style paper|slides]. Standard
library only.

Figures are inlined, so index.html stands alone; a figure that was not drawn leaves its table. Beside it stands
methods.md.
"""

import html
import pathlib
import shutil
import sys
from typing import NamedTuple

import accuracy
import claims
import collectives
import combined
import crossover
import findings
import folder
import folder_page
import gradients
import pipeline
import plan_page
import predict
import prices
import run_page
import tensor
import writeup
from arguments import arguments
from html_parts import context_table, document, figure, inline_svg, note, section, table
from methods import methods
from paper import Entry, write_captions, write_paper
from reading import read_folder
from results import NCCL_8_A100, by, bytes_text, load, load_all, load_csv, losses, off, percent, seconds_text
from row_words import columns
from sources import CONTRADICTS, counted, failures, left_out, provenance, source_line, span, superlinear, turns_left_out


def prices_of(context):
    """Where a measured run's predictions come from, in words: ./lab calibrate's file, or the run's own ping-pong."""
    if "alpha_seconds" not in context:
        return f"from {context['predicted_from']}"
    return (
        "from a ping-pong and an addition of the same run (two parameters each): α ="
        f" {seconds_text(context['alpha_seconds'])}, 1/β = {1e-9 / context['beta_seconds_per_byte']:.2f} GB/s"
    )


class Drawn(NamedTuple):
    """What a figure shows: its kind (figures.DRAW), what is drawn, and the (context, rows) that this is from."""

    kind: str
    data: tuple
    sources: list

    def source_line(self):
        return source_line([context for context, _ in self.sources], [row for _, rows in self.sources for row in rows])


class Report:
    """What was measured, and the sections that show it."""

    def __init__(self, out, found, matplotlib=True, price=None, skipped=()):
        self.out, self.data, self.entries = out, out / "data", []
        self.drawn, self.remarks = {}, []  # by the figure's name; what is said on the terminal
        self.skipped, self.matplotlib, self.price = skipped, matplotlib, price
        self.found = {results.name: results for results in found}
        self.failed, self.left_out = failures(self.data), left_out(self.data)

    def results(self, stems):
        """The Results of these files, as far as they are there."""
        return [self.found[f"{stem}.json"] for stem in stems if f"{stem}.json" in self.found]

    def draw(self, name, kind, data, sources=()):
        """figures.py is to draw it."""
        of_chart = kind == "chart" and [(r.context, by(data[0].rows, file=r.name)) for r in data[0].files]
        self.drawn[name] = Drawn(kind, data, of_chart or [(results.context, results.rows) for results in sources])

    def figure(
        self,
        name,
        alt,
        caption,
        rows=None,
        columns=None,
        files=(),
        data=(),
        kind="",
        sources=None,
        drawn_from=None,
        drawable=True,
        lacking="",
        printed="",
    ):
        """A figure with its caption, the contexts of its files (or of `sources`) under it, its table, and links to the
        files.

        data: what is drawn, by the function of its kind, or of its name; nothing where the first of it is empty.
        drawn_from: the files whose rows these are, where not all of the sources. lacking: why these rows give no
        figure. Not drawable: nobody expects one. printed: the caption in a paper, where it is another."""
        asked, files = files, [f for f in files if (self.data / f).exists()]
        if sources is None:
            sources = self.results(dict.fromkeys(f.rsplit(".", 1)[0] for f in files))
        if data and data[0]:
            self.draw(name, kind or name, data, sources if drawn_from is None else self.results(drawn_from))
        lines = provenance(sources)
        failed = [
            f"{self.failed[stem][0]} failed: {self.failed[stem][1]}"
            for stem in dict.fromkeys(f.rsplit(".", 1)[0] for f in asked)
            if stem in self.failed
        ]
        missing = (
            "; ".join(failed)
            or lacking
            or ("the figure was not drawn" if self.matplotlib else "the figure needs matplotlib")
        )
        self.entries.append(Entry(name, printed or caption, lines, rows or [], columns or {}))
        return figure(
            self.out,
            name,
            alt,
            caption,
            table(rows, columns) if rows else "",
            files,
            lines,
            missing if drawable else "",
        )

    def failures(self):
        """Steps that gave nothing: what would have stood on the page, and why it does not."""
        rows = [{"step": name, "what": what, "why": why} for name, (what, why) in self.failed.items()]
        return (
            section(
                "failed",
                "Steps that failed",
                [
                    note("Their results are missing below. Their logs are in data/."),
                    table(rows, {"step": "step", "what": "what", "why": "why"}, text=True),
                ],
            )
            if rows
            else ""
        )

    def later(self, *stems):
        """One line on the steps of these names, or beginnings of names, that run with --full alone: what they are, up
        to its colon."""
        found = dict.fromkeys(what.split(":")[0] for name, what in self.left_out.items() if name.startswith(stems))
        return note(f"With <code>./lab report --full</code>: {html.escape('; '.join(found))}.") if found else ""

    def drawing(self, name):
        path = self.out / "figures" / f"{name}.svg"
        return inline_svg(path, name, name.replace("_", " ")) if path.exists() else ""

    def run(self):
        contexts = [(results.name, results.context) for results in self.found.values()]
        if not contexts:
            sys.exit(f"page: no results in {self.data}")
        has_mpi = (self.data / "all_reduce_mpi.json").exists()
        mpi = "" if has_mpi else note("This build has no MPI: what is measured on processes is left out.")
        short = self.left_out and note(
            "The short report: fewer sizes and samples than with <code>./lab report --full</code>, which has"
            f" {counted(len(self.left_out), 'more step')}."
        )
        parts = [
            context_table(contexts),
            short or "",
            note('How it was measured: <a href="methods.md">methods.md</a>.'),
            mpi,
            self.speed(),
        ]
        return section("run", "What was run", parts)

    def speed(self):
        rows = [
            dict(data=kind, **r)
            for kind in ("real", "phantom")
            for results in [load(self.data, f"speed_{kind}")]
            if results
            for r in results["rows"]
        ]
        if not rows:
            return ""
        columns = {
            "ring all-reduce of 64 KiB on 1,024 ranks": lambda r: "real data" if r["data"] == "real" else "prices only",
            "virtual": lambda r: seconds_text(r["seconds"]),
            "predicted": lambda r: seconds_text(r["predicted_seconds"]),
            "this computer": lambda r: seconds_text(r["wall_seconds"]),
            "million messages/s": lambda r: f"{r['messages'] / r['wall_seconds'] / 1e6:.2f}",
            "memory": lambda r: f"{r['peak_rss_bytes'] / 1e6:.0f} MB",
            "verified": lambda r: r["verified"],
        }
        return table(rows, columns)

    def bandwidth(self):
        shown = columns("machine, p, array, algorithm, time, predicted, error, algbw, busbw GB/s")
        simulated = load_all(self.data, "all_reduce_sim")
        rows = [
            r
            for results in simulated.values()
            for r in results["rows"]
            if r["bytes"] in (4096, 1 << 20, 64 << 20, 512 << 20)
        ]
        yield self.figure(
            "busbw_simulated",
            "Two panels of bus bandwidth over array size, ring and naive, for four machines; the ring climbs "
            "towards each machine's link, the naive one falls far below it. Stars: published NCCL measurements.",
            "<b>Simulated.</b> The course's own all-reduce in virtual time on machine files; predictions by"
            " exercise 21.5. Stars: NCCL on 8 A100 as published (stas00/ml-engineering), not measured here."
            + published(simulated.get("dgx-a100"))
            + too_slow(simulated),
            rows,
            shown,
            [f"all_reduce_sim_{m}.csv" for m in simulated],
            (simulated, findings.best_ring(simulated)),
        )
        yield crossover.part_of(self)
        measured = load(self.data, "all_reduce_mpi")
        if measured:
            c = measured["context"]
            yield self.figure(
                "busbw_measured",
                "Bus bandwidth over array size of all-reduce algorithms and the library's own, with intervals;"
                " beside it their times, and those predicted as dotted lines.",
                f"<b>Measured</b> on {c['machine']} with {measured['rows'][0]['ranks']} processes"
                f" ({c['versions'].get('mpi', 'MPI')}); medians of {span([r['samples'] for r in measured['rows']])}"
                " samples with 95 % intervals (below 6 samples their range), contenders in turn in one run."
                f"{selection(measured['rows'])} <i>library</i> is"
                f" MPI_Allreduce{', <i>gloo</i> ' + c['gloo'] if 'gloo' in c else ''}. Predicted {prices_of(c)},"
                f" never from the all-reduces.{of_tables(c)}",
                measured["rows"],
                shown,
                ["all_reduce_mpi.csv"],
                (folder.chart_of("bandwidth", [self.found["all_reduce_mpi.json"]]),),
                "chart",
            )
        yield collectives.part_of(self)
        yield self.accuracy()
        yield self.later("calibrate", "all_reduce_", "collectives_", "crossover_")

    def accuracy(self):
        found = accuracy.predicted(self.data, load)
        if not found:
            return ""
        return self.figure(
            "predicted_measured",
            "Measured over predicted time of all-reduces and training steps on MPI processes, both axes logarithmic,"
            " beside the diagonal.",
            "<b>Predicted and measured</b> on this computer’s processes. Hollow: the computer was not quiet, since a"
            " small message or addition changed by more than 5 % within the run or against the calibration, or the"
            " row’s own interval spans more than a factor of 2; then the prediction is for another computer. Errors are"
            " max(p/s, s/p) − 1 for p predicted and s measured, in the figure medians of the quiet rows.",
            accuracy.medians(found),
            {
                "program": "program",
                "what": "algorithm",
                "quiet rows": "quiet",
                "their median error": lambda r: percent(r["median_quiet"]),
                "all rows": "rows",
                "median error of all": lambda r: percent(r["median"]),
            },
            [f"{stem}.json" for stem in accuracy.STEMS],
            (found,),
        )

    def overhead(self):
        results = load(self.data, "overhead")
        if not results:
            return
        shown = {
            "parameters": lambda r: f"{r['parameters'] / 1e6:g} M",
            "link GB/s": "link_gb_per_s",
            "compute": "compute_seconds",
            "averaging": "seconds",
        } | columns("predicted, error, efficiency")
        yield self.figure(
            "overhead",
            "Seconds to average the gradients over link bandwidth for five model sizes, and the efficiency that"
            " follows.",
            "<b>Simulated</b> ring all-reduces of fp32 gradients between two ranks; predictions leave out"
            " latency and additions. Efficiency without overlap hardly depends on the model's size: compute and"
            " communication both grow with it. It depends on the tokens per step: twice as many halve the"
            " overhead. Grey: links, named at the right.",
            results["rows"],
            shown,
            ["overhead.csv"],
            (results["rows"],),
        )
        yield claims.overhead(results)

    def scaling(self):
        machines = load_all(self.data, "scaling_sim")
        if not machines:
            return
        emulated, measured = load(self.data, "scaling_emulated"), load(self.data, "scaling_mpi")
        studies = {f"{machine}, simulated": results for machine, results in machines.items()}
        if emulated:
            studies[f"{emulated['rows'][0]['machine']}, emulated"] = emulated
        if measured:
            studies["this computer, measured"] = measured
        rows = [r for results in studies.values() for r in results["rows"]]
        several = [r for r in measured["rows"] if r["ranks"] > 1] if measured else []
        here = (
            f" Measured: {several[0]['model']} on this computer, T(1) in turn with each T(p):"
            f" {seconds_text(several[0]['serial_seconds'])}; efficiencies are refused where ranks exceed usable cores."
            if several
            else ""
        )
        sleeping = (
            f" <b>Emulated</b>: {emulated['rows'][0]['model']} on up to {max(r['ranks'] for r in emulated['rows'])}"
            f" real processes that are delayed to the modelled times of {emulated['rows'][0]['machine']}."
            if emulated
            else ""
        )
        simulated = next(iter(machines.values()))["rows"][0]
        alone = ", ".join(f"{m} {seconds_text(r['rows'][0]['serial_seconds'])}" for m, r in machines.items())
        yield self.figure(
            "amdahl",
            "Speedup over ranks, both axes logarithmic, with fitted Amdahl curves and those for 0.99 and 0.9"
            " beside simulated, emulated and measured points; the fits' residuals; weak-scaling efficiency.",
            f"<b>Simulated</b>: {simulated['model']} with fp32 gradients, {simulated['tokens_per_rank']:g}"
            " tokens per step in total (strong) or per rank (weak), DDP with overlap; T(1) is the serial step"
            f" without DDP on the same machine ({alone}). f: the parallel part of Amdahl’s law, fitted to each"
            " study’s points (95 %), and as the course has it. Whiskers: 95 %. Hollow: the computer was not"
            f" quiet.{sleeping}{here}",
            rows,
            columns("machine, scaling, variant, p, time, predicted, error, speedup, efficiency, Karp–Flatt"),
            [f"scaling_sim_{m}.csv" for m in machines] + ["scaling_emulated.csv", "scaling_mpi.csv"],
            (studies, findings.laws(machines)),
        )
        for sentence in superlinear(self.found["scaling_mpi.json"]) if measured else ():
            yield note(html.escape(f"{sentence}."))
        yield self.later("scaling_")
        yield claims.amdahl(machines)

    def ddp(self):
        shown = columns("machine, p, bucket, microbatches, variant, time, predicted, error, exposed, hidden")
        machines = load_all(self.data, "ddp_sim")
        yield self.figure(
            "timeline",
            "Two Gantt charts of one DDP step on one axis: without overlap the rank waits for the average of each"
            " bucket, with overlap buckets are averaged while the backward pass continues.",
            "<b>Simulated</b>, PCIe box, 2 ranks. Without overlap averaging begins after each bucket and the rank"
            " waits; with overlap buckets are averaged on the queue “comm” while the backward pass continues. Drawn"
            " from the runs' traces, not from a formula.",
            files=["timeline.json", "timeline_no_overlap.trace", "timeline_overlap.trace"],
            data=(
                {
                    "without overlap": self.data / "timeline_no_overlap.trace",
                    "with overlap": self.data / "timeline_overlap.trace",
                },
            ),
            kind="twins",
        )
        if machines:
            yield self.figure(
                "buckets",
                "What a step takes beyond its computing, without and with overlap, over bucket size, for two machines.",
                "<b>Simulated.</b> Predicted: from a serial step and 21.5's price of each bucket. Small"
                " buckets pay latency, large ones start late; the tied embedding's gradient is ready last and can"
                " hardly be hidden.",
                [r for results in machines.values() for r in results["rows"]],
                shown,
                [f"ddp_sim_{m}.csv" for m in machines],
                (machines,),
            )
        measured, emulated, simulated = (load(self.data, name) for name in ("ddp_mpi", "ddp_emulated", "ddp_laptop"))
        if measured:
            yield (
                note(
                    f"<b>Measured</b> on {measured['rows'][0]['ranks']} MPI processes, medians of"
                    f" {span([r['samples'] for r in measured['rows']])} samples. Computing and communicating share"
                    " this computer's cores, so overlap can hide little:"
                )
                + table(measured["rows"], shown)
            )
        if emulated and simulated:
            for row, twin in zip(emulated["rows"], simulated["rows"]):
                row["simulated_seconds"] = twin["seconds"]
            beside = columns("simulated") | {
                "emulated / simulated": lambda r: off(r["seconds"], r["simulated_seconds"])
            }
            yield (
                note(
                    f"<b>Emulated</b> by {emulated['rows'][0]['ranks']} MPI processes on {emulated['context']['cores']}"
                    f" cores: real arithmetic and real messages, delayed to {emulated['rows'][0]['emulate_scale']:g}"
                    " times the modelled times of the machine, reported in its seconds; beside the simulator's:"
                )
                + table(emulated["rows"], shown | beside)
            )
        yield self.later("ddp_")

    def parts(self):
        chart = folder.by_wall_clock(list(self.found.values()))
        if not chart:
            return
        yield self.figure(
            "step_parts",
            "Bars of steps by wall clock, in parts: computing, exposed communication, idle, other; with"
            " intervals and the number of samples.",
            "<b>Measured</b> on this computer’s processes, and <b>emulated</b>: DDP (overlap on and off),"
            " layers that ranks share, the stages of ZeRO, a pipeline of four stages. " + folder.caption(chart),
            chart.rows,
            chart.kind.columns,
            [results.name for results in chart.files],
            (chart,),
            "chart",
        )

    def training(self):
        serial, ddp = load_csv(self.data, "train_serial"), load_csv(self.data, "train_ddp")
        if not serial or not ddp:
            return
        shown, named, gap = losses({"serial": serial, "DDP": ddp})
        yield self.figure(
            "training",
            "Training loss of the serial program and of DDP lying on each other, and their difference.",
            "<b>Real arithmetic.</b> The GPT on the shipped corpus, the same global batch; largest difference"
            f" {gap:.2g} nats, from another order of additions.",
            shown,
            named,
            ["train_serial.csv", "train_ddp.csv"],
            (serial, {"DDP": ddp}),
            "losses",
        )

    def precision(self):
        names = {
            "fp32": "fp32",
            "bf16": "bf16",
            "fp16": "fp16",
            "fp16_low": "fp16, scale stuck at 2⁻¹⁷",
            "fp16_low_grows": "fp16, scale grows from 2⁻¹⁷",
        }
        runs = {name: load_csv(self.data, f"precision_{name}") for name in names}
        if not all(runs.values()):
            return
        shown = []
        for name, rows in runs.items():
            last = [float(r["loss"]) for r in rows[-10:]]
            scales = [float(r["loss_scale"]) for r in rows]
            shown.append(
                {
                    "run": names[name],
                    "loss": sum(last) / len(last),
                    "scale": scales[-1] if name.startswith("fp16") else None,
                    "falls": sum(b < a for a, b in zip(scales, scales[1:])) if name.startswith("fp16") else None,
                }
            )
        yield self.figure(
            "precision",
            "Training losses of five runs: fp32, bf16 and fp16 with a loss scale fall together, fp16 with a"
            " scale that is stuck far too low does not learn, and with a scale that may grow it catches up;"
            " beside it the scales over steps.",
            "<b>Real arithmetic.</b> The GPT on the shipped corpus. A scale of 2⁻¹⁷ makes gradients as small as"
            " those of a batch 2¹⁷ times as large: fp16 rounds them to 0. Each fall of the scale is a step that"
            " overflowed on the device and was skipped there; the host read only the log.",
            shown,
            {
                "run": "run",
                "loss, last 10 steps": lambda r: f"{r['loss']:.3f}",
                "scale at the end": lambda r: "–" if r["scale"] is None else f"{r['scale']:g}",
                "overflows": lambda r: "–" if r["falls"] is None else r["falls"],
            },
            [f"precision_{name}.csv" for name in names],
            (runs,),
        )

    def zero(self):
        weighed, stages = load(self.data, "zero_memory"), load_all(self.data, "zero_sim")
        mpi = load(self.data, "zero_mpi")
        memory = load(self.data, "memory")
        if memory:
            yield self.figure(
                "memory",
                "Three panels of GPU memory against the number of GPUs, for 7, 13 and 175 billion parameters; each"
                " ZeRO stage falls further, dashed lines mark the memory of known GPUs.",
                "<b>By formula</b> (22.1): parameters, gradients and optimizer state on each GPU, 16 bytes per"
                " parameter; no activations. <code>./lab memory --params 7e9 --plot …</code>",
                files=["memory.csv", "memory.json"],
                data=(memory,),
            )
        if weighed:
            rows = [r for r in weighed["rows"] if "category" in r and r["category"] != "activations"]
            shown = {
                **columns("stage, p, kind, when"),
                "formula, bytes": lambda r: f"{r['predicted_bytes']:.0f}",
                "ledger, bytes": lambda r: f"{r['measured_bytes']:.0f}",
                "why they differ": "reason",
            }
            yield self.figure(
                "zero_memory",
                "Bars of memory of one rank for each stage and number of ranks; values, gradients and optimizer"
                " state shrink with p where the stage shards them.",
                "<b>Measured</b> by the memory ledger in the simulator: the model <code>small</code> in bf16. Full"
                " bars are at rest; dotted ones exist during the step: units that a piece of the model uses,"
                " gathered ahead, or being reduced. Every difference from Ψ/p is named in the table.",
                rows,
                shown,
                ["zero_memory.csv", "zero_memory.json"],
                (weighed["rows"],),
            )
        if stages:
            rows = [r for results in stages.values() for r in results["rows"] if "seconds" in r]
            shown = {
                **columns("machine, p"),
                "tokens per rank": "tokens_per_rank",
                **columns("stage, step"),
                "of DDP": lambda r: f"{r['throughput_of_stage0']:.3f}",
                **columns("communication, exposed"),
                "AdamW": "optimizer_seconds",
                "MB sent": lambda r: f"{r['bytes_sent_per_rank'] / 1e6:.1f}",
                "by formula": lambda r: f"{r['predicted_bytes_sent_per_rank'] / 1e6:.1f}",
            }
            yield self.figure(
                "zero_throughput",
                "Throughput of ZeRO-1, 2 and 3 against plain DDP on three machines: below 1 on slow links for"
                " ZeRO-3, above 1 over NVLink.",
                "<b>Simulated</b>: GPT-2 355M in bf16, 4 sequences per rank, one unit per block, one gathered"
                " ahead. Grey: the 5 to 15 % that a course text gives for FSDP. ZeRO-3 sends half as much again,"
                " but each GPU does 1/p of AdamW’s update. ZeRO-1 and -2 gather the values after it, where nothing"
                " hides them: they fall behind DDP where a long backward pass hides all of its all-reduces.",
                rows,
                shown,
                [f"zero_sim_{name}.csv" for name in stages],
                (stages,),
            )
        hybrid = load_all(self.data, "hsdp_sim")
        if hybrid:
            rows = [r for results in hybrid.values() for r in results["rows"]]
            shown = {
                **columns("machine, p, m"),
                "sharding": "method",
                "state of a rank": lambda r: bytes_text(r["state_bytes"]),
                "a node sends inside": lambda r: bytes_text(r["bytes_inside_node"]),
                "to others": lambda r: bytes_text(r["bytes_across_nodes"]),
                **columns("communication"),
                "by formula": "predicted_communication_seconds",
                **columns("step"),
            }
            yield self.figure(
                "hybrid_sharding",
                "Bars of the seconds of a step under full and hybrid sharding on three machines: across slow"
                " networks hybrid sharding is far below, inside one node it is not.",
                "<b>Simulated</b>: GPT-2 1.5B in bf16, 2 sequences per rank and microbatch (22.8). <i>hybrid:g</i>"
                " holds one copy of the state per g ranks. Communication is timed without prefetch. Where each GPU"
                " has a port, a flat ring uses one of a node's eight and hybrid sharding all of them; NCCL's rings"
                " use all.",
                rows,
                shown,
                [f"hsdp_sim_{name}.csv" for name in hybrid],
                (hybrid,),
            )
        if mpi:
            times = {r["stage"]: r["optimizer_seconds"] for r in mpi["rows"] if "seconds" in r}
            yield note(
                "Measured on 2 MPI processes, 5 M parameters in fp32, medians of one run: AdamW takes"
                f" {times[1] / times[0]:.2f} of plain DDP’s time with ZeRO-1, {times[2] / times[0]:.2f} with"
                f" ZeRO-2, {times[3] / times[0]:.2f} with ZeRO-3."
            )
        emulated = load(self.data, "zero_emulated")
        for r in emulated["rows"] if emulated else []:
            if r.get("algorithm") == "zero3":
                yield note(
                    f"Emulated, {r['ranks']} MPI processes that do real arithmetic and sleep until a"
                    f" {r['machine']}'s times have passed, the model {r['model']}, {r['tokens_per_rank']} tokens"
                    f" per rank: ZeRO-3 exposes {100 * r['exposed_seconds'] / r['communication_seconds']:.0f} % of"
                    f" its communication, and reaches {r['throughput_of_stage0']:.2f} of plain DDP’s throughput."
                )
        yield self.later("memory", "zero_", "hsdp_")

    def activations(self):
        results = load(self.data, "activations")
        if not results:
            return
        rows = [r for r in results["rows"] if r.get("algorithm")]
        shown = {
            **columns("attention, recompute"),
            "formula, bytes": lambda r: f"{r['predicted_bytes']:,}",
            "ledger, bytes": lambda r: f"{r['measured_bytes']:,}",
            "apart": lambda r: f"{r['measured_bytes'] - r['predicted_bytes']} B",
            "FLOP": lambda r: f"{r['flop']:.4g}",
            "more FLOP": lambda r: percent(r["extra_flop"] / (r["flop"] - r["extra_flop"])),
            "time": "seconds",
            "more time": lambda r: percent(r["relative_seconds"] - 1),
        }
        yield self.figure(
            "activations",
            "Stacked bars of activation memory for five ways of keeping or recomputing, each ending at the"
            " ledger's peak; beside them FLOP and time that recomputation adds.",
            f"<b>Simulated</b>: {rows[0]['model']} in {rows[0]['dtype']}, {rows[0]['batch_sequences']} ×"
            f" {rows[0]['sequence_tokens']} tokens on {rows[0]['machine']}. Bytes are the memory ledger's, FLOP"
            " are counted by the runtime; full recomputation runs every block's forward again, which is a"
            " third of the blocks' work and less of the whole.",
            rows,
            shown,
            ["activations.csv"],
            (rows, [r for r in results["rows"] if not r.get("algorithm")]),
        )


def selection(rows):
    """Which turns measured medians are without, in one sentence."""
    sizes = {r["bytes"] for r in rows}
    chosen = {r["bytes"] for r in rows if r.get("turns_left_out")}
    if not chosen:
        return ""
    return (
        f" At {len(chosen)} of {counted(len(sizes), 'size')} {turns_left_out(rows)} turns are left out"
        f"{', but for gloo' if by(rows, algorithm='gloo') else ''}: probes beside them were more than 5 % off the"
        " calibration, so the medians are of the computer in its calibrated state alone."
    )


def of_tables(context):
    """Why predictions may fall where arrays grow, in one sentence."""
    if "predicted_from" not in context:
        return ""
    return (
        " Each is priced with messages of its own sizes, as calibrated, and is therefore no straight line: it falls"
        " where a larger message was faster."
    )


def too_slow(machines):
    """In one sentence, how far the formula of the naive all-reduce is off where messages take links of two kinds."""
    for machine, results in machines.items():
        rows = [r for r in by(results["rows"], algorithm="naive") if r.get("predicted_seconds")]
        if not rows or not prices.has_nodes(machine):
            continue
        inside = prices.machine_named(machine)["levels"][-2]["ranks"]
        errors = sorted(100 * (r["predicted_seconds"] / r["seconds"] - 1) for r in rows)
        if rows[0]["ranks"] > inside:
            return (
                f" On {machine} the formula of the naive one is {errors[0]:+.0f} to {errors[-1]:+.0f} % off: it gives"
                f" every message the network’s link, but {inside - 1} of rank 0’s {rows[0]['ranks'] - 1} peers share"
                " its node."
            )
    return ""


def published(results):
    """How far the simulated ring lies from NCCL's published bandwidths."""
    rings = {r["bytes"]: r["busbw_gb_per_s"] for r in results["rows"] if r["algorithm"] == "ring"} if results else {}
    ratios = sorted(rings[size] / busbw for size, busbw in NCCL_8_A100 if size in rings)
    if not ratios:
        return ""
    return (
        f" The simulated ring has {ratios[0]:.2f} to {ratios[-1]:.2f} of their bandwidth: our ring is a different"
        " program from NCCL, which chooses among several algorithms and protocols, and the machine file has only one"
        " latency."
    )


SECTIONS = {  # of each week, for whose steps' data they are: name, title, and what yields the parts
    21: (
        ("bandwidth", "Collectives: bus bandwidth", Report.bandwidth),
        ("overhead", "Communication overhead", Report.overhead),
        ("scaling", "Strong and weak scaling", Report.scaling),
        ("ddp", "The DDP step: what overlap hides", Report.ddp),
        ("parts", "By wall clock: where a step’s time goes", Report.parts),
        ("training", "Training on text: serial and DDP", Report.training),
        ("large-batch", "A larger batch: which rate?", gradients.larger_batches),
        ("compression", "Compressed gradients: bytes, time, and what the model loses", gradients.compressions),
    ),
    22: (
        ("zero", "ZeRO: what each stage holds, sends and costs", Report.zero),
        ("precision", "Mixed precision: what fp16 loses, and a scale that adapts itself", Report.precision),
        ("activations", "Activations: kept, or recomputed", Report.activations),
    ),
    23: (("tensor", "Tensor parallelism: what ranks that share a layer send", tensor.parts),),
    24: (("pipeline", "Pipelines: bubble and memory of the schedules", pipeline.parts),),
    25: (("combined", "Everything together: plans, meshes, and what limits a run", combined.parts),),
}


def weeks(report, out, root, only=None):
    """What was found and run, then the sections of every week; or of one alone, without findings and claims."""
    return [
        "" if only else findings.opening(report),
        report.failures(),
        report.run(),
        predict.learners(out),
        predict.section_of(out / "data"),
        *(
            section(name, title, parts(report))
            for week, of_week in SECTIONS.items()
            if only in (None, week)
            for name, title, parts in of_week
        ),
        "" if only else claims.ledger(root / "docs" / "learn" / "claims.md"),
    ]


def keep(options, found):
    """Beside the page, what was read of somebody's files."""
    root = options.folder.parent if options.folder.is_file() else options.folder
    for results in found:
        target = options.out / "data" / results.kept_as()
        target.parent.mkdir(parents=True, exist_ok=True)
        if results.kept:
            target.write_text(results.kept, encoding="utf-8")
        else:
            shutil.copyfile(root / results.name, target)
        if results.trace:
            shutil.copyfile(results.trace, target.with_suffix(".trace"))


def of_folder(report, options, found, skipped):
    """The page of somebody's results: what was read of their files stands beside it."""
    if options.folder.is_file() and skipped:
        sys.exit(f"report: {skipped[0][0]} {skipped[0][1]}")
    report.remarks += [f"skipped {name}: it {why}" for name, why in skipped]
    report.remarks += [sentence for results in found for sentence in (*said_of(results), *superlinear(results))]
    if not found:
        sys.exit(
            "\n".join(
                f"report: {said}" for said in (*report.remarks, f"{options.folder} holds no results: nothing to draw")
            )
        )
    keep(options, found)
    return [
        *folder_page.sections(report, found, skipped),
        section("methods", "How it was measured", [note('<a href="methods.md">methods.md</a>')]),
    ]


def said_of(results):
    return [f"{results.name}: {remark}" for remark in results.remarks]


ROOT = pathlib.Path(__file__).resolve().parents[2]


def build(options):
    """(the Report, the parts of its page)."""
    found, skipped = read_folder(options.folder or options.out / "data", options.machine)
    report = Report(options.out, found, not options.no_matplotlib, options.price, skipped)
    if options.of:
        return report, {"run": run_page, "plan": plan_page}[options.of].sections(report, options.out)
    if options.folder:
        return report, of_folder(report, options, found, skipped)
    return report, weeks(report, options.out, ROOT, options.week)


def main():
    options = arguments(__doc__)
    title = {"run": "Lockstep: a run", "plan": "Lockstep: what to rent"}.get(options.of, "Lockstep: the report")
    report, parts = build(options)
    found, skipped = list(report.found.values()), report.skipped
    for said in report.remarks:
        print(f"report: {said}", file=sys.stderr)
    (options.out / "index.html").write_text(
        document(title, parts, options.full, [results.reported() for results in found]),
        encoding="utf-8",
    )
    (options.out / "methods.md").write_text(methods(found, skipped if options.folder else ()), encoding="utf-8")
    if options.week:
        writeup.write(report, options.week, ROOT, report.drawing)
    if "paper" in options.style:
        write_paper(options.out / "paper", report.entries)
    if "slides" in options.style:
        write_captions(options.out / "slides", report.entries)
    if any(why.startswith(CONTRADICTS) for _, why in skipped):
        sys.exit(1)


if __name__ == "__main__":
    main()
