"""The report's section on week 25: the planner, models that no computer here holds, meshes, what limits a run. Standard
library only."""

import html
import statistics

import folder
from html_parts import note, table
from results import by, load, load_all, load_csv, off, percent
from row_words import columns

STUDIES = {"strong": "strong", "strong_zero1": "strong, ZeRO-1", "weak": "weak"}  # of ./lab scale
PLANTED = ("communication", "bubble", "imbalance", "launch")


def gigabytes(field):
    return lambda r: "–" if r.get(field) is None else f"{r[field] / 1e9:.1f}"


def plans(report):
    results = load(report.data, "plan_gpt3")
    if not results:
        return ""
    rows, refused = by(results["rows"], kind="plan"), by(results["rows"], kind="refused")
    checked = [r for r in rows if r.get("simulated_seconds")]
    errors = [100 * (r["step_seconds"] / r["simulated_seconds"] - 1) for r in checked]
    shown = {
        "": "place",
        **columns("dp, tp, pp"),
        "b": "microbatch",
        **columns("m, schedule, chunks"),
        "ZeRO": "zero",
        **columns("recompute, sequence parallel"),
        "step": "step_seconds",
        **columns("simulated"),
        "error": lambda r: off(r["step_seconds"], r.get("simulated_seconds")),
        **columns("MFU"),
        "days": lambda r: f"{r['days']:.1f}",
        "GB": gigabytes("memory_bytes"),
        "simulated GB": gigabytes("simulated_memory_bytes"),
        "largest overhead": "largest_overhead",
    }
    found = (
        f" The first {len(checked)} were simulated as well (black marks): predictions are {min(errors):+.1f} to"
        f" {max(errors):+.1f} % off."
        if checked
        else ""
    )
    c = results["context"]
    return report.figure(
        "plans",
        "Bars of step time and of memory for the eight best plans, in parts; black marks of the simulator lie at their"
        " ends.",
        f"<b>Predicted</b> by exercises 25.3 and 25.6: {rows[0]['model']} on {rows[0]['cluster']},"
        f" {rows[0]['gpus']:,} GPUs, {rows[0]['global_batch']:,} sequences per step;"
        " dp × tp × pp, the best plan of each mesh, and what limits"
        f" it. {c['candidates']:,} strategies, {c['candidates_per_second']:,.0f} per second on this computer.{found}",
        rows,
        shown,
        ["plan_gpt3.csv", "plan_gpt3.json"],
        (rows[:8],),
    ) + (
        note("Why the others are not valid plans:")
        + table(
            sorted(refused, key=lambda r: -r["count"]),
            {"reason": "reason", "strategies": "count", "such as": "sentence"},
            text=True,
        )
    )


def phantoms(report):
    runs = {name: r for name, r in load_all(report.data, "phantom").items()}
    if not runs:
        return ""
    rows = [dict(results["rows"][0], model=results["context"].get("model", "")) for results in runs.values()]
    rows.sort(key=lambda r: -r["parameters"])
    shown = {
        "parameters": lambda r: f"{r['parameters'] / 1e9:,.0f} billion",
        "dp × tp × pp": lambda r: f"{r['replicas']} × {r['tensor_parallel']} × {r['stages']}",
        "ranks": "ranks",
        "simulated": "simulated_ranks",
        "took": "wall_seconds",
        **columns("step, MFU"),
        "bubble of the ideal": lambda r: percent(r["bubble_of_ideal"]),
        **columns("exposed"),
        "GB": gigabytes("memory_bytes_peak"),
        "TB inside nodes": lambda r: f"{r['bytes_sent_inside_nodes'] / 1e12:.1f}",
        "TB across": lambda r: f"{r['bytes_sent_across_nodes'] / 1e12:.2f}",
    }
    files = [f"phantom_{name}.json" for name in runs]
    largest = rows[0]
    kinds = {
        "parameters": "parameter",
        "gradients": "gradient",
        "optimizer": "optimizer",
        "activations": "activation",
        "all": "memory",
    }
    of_stage = lambda stem, s: f"{largest[f'stage_{stem}_bytes_peak'][s] / 1e9:.2f} GB"
    stages = [
        {"stage": s} | {kind: of_stage(stem, s) for kind, stem in kinds.items()} for s in range(largest["stages"])
    ]
    return report.figure(
        "stage_memory",
        "Memory of a rank over the stages of three models: parameters, gradients and optimizer are nearly level,"
        " activations fall from the first stage to the last.",
        "<b>Simulated</b>, phantom: the 3D step of 25.2 itself on models that no computer here could hold. Peaks by"
        " category, from the memory ledger of each stage. State is level but for the embedding and the head;"
        " activations fall, since stage s of 1F1B holds p − s microbatches. 16-bit values and gradients, fp32 master"
        " state, flash attention, nothing recomputed.",
        stages,
        {name: name for name in ("stage", *kinds)},
        files,
        ({name: r for name, r in runs.items() if "stage_memory_bytes_peak" in r["rows"][0]},),
    ) + report.figure(
        "stage_time",
        "Time of a step over the stages of the same models, in parts: compute dominates, the idle part falls towards"
        " the last stage, whose wait for the first is counted as all-reduces.",
        "<b>Simulated.</b> Where the time of a step goes, stage by stage. The last one ends its backwards first; what"
        " it then waits for is the first stage, with which it shares the tied embedding.",
        rows,
        shown,
        files,
        ({name: r for name, r in runs.items() if "stage_compute_seconds" in r["rows"][0]},),
    )


# Tables of bench/published that came after all costs were fixed: those that tools/plan/validate_test.cpp counts.
LATER = """
    llm-c torchtitan-a100 nemo-5b pytorch-fsdp fms-fsdp pytorch-aws bloom-february bloom-numa
    bloom-fp32-gradients mt-nlg kempner-h200 megatron-moe moe-folding fms-hybrid torchtitan-operations
    torchtitan-tensor torchtitan-float8 torchtitan-float8-tensor nemo-b200 nemo-fp8 nemo-2024
    nemo-2024-context nemo-fp8-context nemo-long-sequence
""".split()


def later_said(rows):
    """How far the points that came later are off, in one sentence: "" where there are none."""
    errors = [r["relative_error"] for r in rows if r["table"] in LATER]
    if not errors:
        return ""
    middle, fast = percent(statistics.median(map(abs, errors))), sum(e < 0 for e in errors)
    return (
        f" {len(errors)} of them were added after all costs were fixed: their median error is {middle}, and {fast}"
        f" {'is' if fast == 1 else 'are'} predicted too fast. Errors made us look for causes: of newer tables only in"
        " the half of their rows that is not shown here (bench/published/learn)."
    )


def validated(report):
    results = load(report.data, "validate")
    if not results:
        return ""
    tables = list(dict.fromkeys(r["table"] for r in results["rows"]))
    rows = []
    for name in tables:
        mine = by(results["rows"], table=name)
        middle = lambda field, mine=mine: statistics.median(abs(r[field]) for r in mine)
        rows.append(
            {
                "table": name,
                "points": len(mine),
                "simple": middle("simple_relative_error"),
                "file": middle("file_relative_error"),
                "predicted": middle("relative_error"),
                "worst": max(abs(r["relative_error"]) for r in mine),
            }
        )
    within = sum(r["predicted"] <= 0.1 for r in rows)
    return report.figure(
        "validated",
        "Dots in a row for each published source: errors of predictions with libraries' prices lie closer to zero than"
        " those of the machine file alone, but for ZeRO-3 of 2021.",
        f"<b>Published</b>: {len(results['rows'])} points that others measured; no parameter was fitted to"
        f" them.{later_said(results['rows'])} {within} of {len(rows)} sources have a median within 10 %;"
        " docs/use/validation.md says what the others lack (<code>./lab validate</code>).",
        rows,
        {
            "source": "table",
            "points": "points",
            "simple arithmetic, median": lambda r: percent(r["simple"]),
            "machine file": lambda r: percent(r["file"]),
            "predicted": lambda r: percent(r["predicted"]),
            "worst": lambda r: percent(r["worst"]),
        },
        ["validate.csv", "validate.json"],
        (results["rows"],),
    )


def meshes(data):
    """{(dp, tp, pp): rows of its CSV}, the serial program's first."""
    found = {tuple(map(int, path.stem.split("_")[1:])): load_csv(data, path.stem) for path in data.glob("mesh_*.csv")}
    return dict(sorted(found.items(), key=lambda item: (item[0][0] * item[0][1] * item[0][2], item[0])))


def mesh_gaps(runs):
    """For each mesh the distances of its losses from the serial program's, step by step."""
    serial = [float(r["loss"]) for r in runs[1, 1, 1]]
    return {
        mesh: [abs(float(r["loss"]) - s) for r, s in zip(rows, serial)]
        for mesh, rows in runs.items()
        if mesh != (1, 1, 1)
    }


def equality(report):
    runs = meshes(report.data)
    if (1, 1, 1) not in runs or len(runs) < 2:
        return ""
    gaps = mesh_gaps(runs)
    rows = [
        {
            "mesh": " × ".join(map(str, mesh)),
            "ranks": mesh[0] * mesh[1] * mesh[2],
            "gap": max(gap),
            "last": float(runs[mesh][-1]["loss"]),
        }
        for mesh, gap in gaps.items()
    ]
    worst = max(rows, key=lambda r: r["gap"])
    return report.figure(
        "mesh_losses",
        "Losses of all meshes of up to 8 ranks lie on the serial program's; bars of the largest distance, all tiny.",
        "<b>Losses</b> of <code>./lab train</code> on the shipped corpus with every (dp, tp, pp) of 2, 4 and 8"
        f" simulated ranks, the same global batch, real arithmetic: at most {worst['gap']:.2g} nats from the serial"
        f" program in {len(runs[1, 1, 1])} steps ({worst['mesh']}), since sums over ranks round in another order.",
        rows,
        {
            "dp × tp × pp": "mesh",
            "ranks": "ranks",
            "largest distance": lambda r: f"{r['gap']:.2g}",
            "last loss": lambda r: f"{r['last']:.6f}",
        },
        [f"mesh_{'_'.join(map(str, mesh))}.csv" for mesh in runs],
        (
            runs[1, 1, 1],
            {row["mesh"]: runs[mesh] for mesh, row in zip(gaps, rows)},
            f"{len(rows)} meshes of up to {max(r['ranks'] for r in rows)} ranks train like the serial program: the"
            f" largest difference is {worst['gap']:.2g} nats ({worst['mesh']})",
            f"{len(rows)} meshes, dp × tp × pp",
        ),
        "losses",
    )


def limits(report):
    runs = load_all(report.data, "why")
    if not runs:
        return ""
    rows = [dict(r, run=name) for name, results in runs.items() for r in results["rows"] if "gained" in r]
    paths = [
        dict(r, run=name) for name, results in runs.items() for r in [r for r in results["rows"] if "path" in r][:3]
    ]
    return (
        report.figure(
            "why_gains",
            "Four panels, one a run: how much shorter its step would be without communication, bubble, imbalance or"
            " launches; the one that was planted gains most.",
            "<b>Replayed.</b> In each run another bottleneck was planted: DDP without overlap over 10 GbE; four stages"
            " with four microbatches; five sequences on four ranks; a tiny model. <code>./lab why</code> replays the"
            " trace without each cost, dependencies kept; the largest gain names the limit.",
            rows,
            {"planted": "run", "without": "cost", **columns("a step, without it, gained, the limit")},
            [f"why_{name}.json" for name in runs],
            ({name: runs[name] for name in PLANTED if name in runs},),
        )
        + note("Most of each run’s critical path:")
        + table(
            paths,
            {
                "planted": "run",
                "on the path": "path",
                "transfers": "transfer",
                "of a step": "seconds",
                "visits": "visits",
            },
        )
    )


def scaling(report):
    studies = {name: r for name in (*STUDIES, "mpi") for r in [load(report.data, f"scale_{name}")] if r}
    if not studies:
        return ""
    rows = [dict(r, run=name) for name, results in studies.items() for r in results["rows"] if "speedup" in r]
    measured = studies.get("mpi")
    here = ""
    if measured:
        last = [r for r in measured["rows"] if "speedup" in r][-1]
        here = f" Measured here on {last['ranks']} MPI processes (n = {last['samples']}): " + (
            "refused, ranks have no core each."
            if last["speedup"] is None
            else f"speedup {last['speedup']:.2f} ({last['speedup_low']:.2f} to {last['speedup_high']:.2f})."
        )
    chart = folder.chart_of("speedup", report.results(f"scale_{name}" for name in STUDIES))
    return report.figure(
        "scaling_fits",
        "Left: speedups over ranks with the laws fitted to them; the strong curves break at 16 ranks, which no law"
        " describes. Right: efficiencies.",
        "<b>Simulated</b>: GPT-2 355M in bf16 on nodes of 8 A100, HDR InfiniBand between (<code>./lab scale</code>)."
        " Dotted: laws fitted to all points, shaded their 95 % intervals, whose width says where a law is the wrong"
        f" one. {html.escape(' '.join(folder.laws_said(chart)) if chart else '')}{here}",
        files=[f"scale_{name}.json" for name in studies],
        data=(chart,),
        kind="chart",
        sources=chart.files if chart else (),
    ) + report.figure(
        "scaling_losses",
        "Bars of each step's ideal and of what it lost to: communication from 16 ranks on, where rings cross nodes.",
        "<b>Simulated</b>: what a step of the same studies loses beyond its ideal, and to what (by 25.4).",
        rows,
        {
            "study": "run",
            **columns("p, step"),
            "speedup": lambda r: "–" if r["speedup"] is None else f"{r['speedup']:.2f}",
            "efficiency": lambda r: percent(r["efficiency"]),
            **columns("Karp–Flatt, limit, diagnosis"),
        },
        [f"scale_{name}.json" for name in studies],
        (
            {
                f"{STUDIES[name]}, p = {r['ranks']}": r
                for name, results in studies.items()
                for r in results["rows"]
                if name in STUDIES and r.get("speedup") is not None
            },
        ),
        drawn_from=[f"scale_{name}" for name in STUDIES],
    )


def parts(report):
    for make in (plans, phantoms, validated, equality, limits, scaling):
        yield make(report)
    yield report.later("plan_", "validate", "phantom_", "mesh_", "trace_", "why_", "scale_")
