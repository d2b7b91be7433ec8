"""Whose code runs in ./lab … --mine, exercise by exercise: a variant of each answer, which does or says a little more,
must change a figure of every program of the simulator that links the exercise, where the same code twice gives the same
figures. For a clone with nothing to lose in labs/, which is left with the reference's answers.

  python3 .ci/effects.py [EXERCISE …]
"""

import json
import math
import pathlib
import shlex
import subprocess
import sys

LABS, SOLUTIONS, ANSWERS = pathlib.Path("labs"), pathlib.Path("solutions"), pathlib.Path("build/default/answers")
RESULT = pathlib.Path("build/effects.json")


def waste(rank):
    """A megabyte that is written for nothing: a few microseconds of virtual time."""
    return (
        f"  {{\n    Rank here = {rank};\n    Slice waste = here.allocate(std::size_t{{1}} << 18, DType::f32,"
        " Category::buffer);\n    fill(here, waste, 0);\n  }"
    )


def after(line, more):
    return line, f"{line}\n{more}"


# By exercise: file, and the replacements in it.
VARIANTS = {
    "21.0": ("first_messages", [after("void broadcast(Rank me, Slice data, int root) {", waste("me"))]),
    "21.1": ("naive_all_reduce", [after("void naive_all_reduce(Rank me, Slice data) {", waste("me"))]),
    "21.2": (
        "ring_all_reduce",
        [
            after("  ring_all_gather(me, data);", "  ring_all_gather(me, data);"),
            after("void ring_reduce_scatter(Rank me, Slice data) {", waste("me")),
        ],
    ),
    "21.3": (
        "halving_doubling",
        [
            after("void recursive_doubling_all_reduce(Rank me, Slice data) {", waste("me")),
            after("void rabenseifner_all_reduce(Rank me, Slice data) {", waste("me")),
        ],
    ),
    "21.4": (
        "hierarchical_all_reduce",
        [after("  ring_all_gather(groups.node, data);", "  ring_all_gather(groups.node, data);")],
    ),
    "21.5": (
        "cost_model",
        [after("double ring_all_reduce_seconds(CostModel cost, int ranks, double bytes) {", "  bytes *= 2;")],
    ),
    "21.7": ("ddp", [after("  all_reduce(dp, gradients);", "  all_reduce(dp, gradients);")]),
    "21.8": (
        "large_batch",
        [
            after(
                "double scaled_rate(RateRule rule, double rate, std::size_t base_batch, std::size_t batch) {",
                "  rate /= 2;",
            )
        ],
    ),
    "21.9": (
        "compression",
        [
            after(
                "std::size_t top_k_count(std::size_t elements, double density) {",
                "  density = std::min(1.0, 2 * density);",
            )
        ],
    ),
    "21.10": (
        "scaling_laws",
        [
            after("double speedup(double serial_seconds, double parallel_seconds) {", "  serial_seconds *= 2;"),
            after("double karp_flatt(double speedup, int ranks) {", "  speedup *= 0.9;"),
            after("double amdahl_speedup(double serial_fraction, int ranks) {", "  serial_fraction /= 2;"),
        ],
    ),
    "21.12": (
        "local_sgd",
        [after("double local_sgd_bytes(const OuterSgd& how, int ranks, double elements) {", "  elements *= 2;")],
    ),
    "22.1": (
        "memory_calculator",
        [
            after(
                "ModelState model_state(double parameters, int stage, int ranks, Recipe recipe) {", "  parameters *= 2;"
            ),
            after(
                "double bytes_sent(double parameters, int stage, int ranks, int microbatches, Recipe recipe) {",
                "  parameters *= 2;",
            ),
        ],
    ),
    "22.2": ("zero1", [after("  week21::ring_reduce_scatter(dp, bucket);", waste("dp"))]),
    "22.3": ("zero2", [after("      week21::ring_reduce_scatter(queue, whole);", waste("queue"))]),
    "22.4": ("fsdp", [after("      week21::ring_reduce_scatter(queue, sums);", waste("queue"))]),
    "22.5": (
        "mixed_precision",
        [
            after("Precision precision_of(std::string_view name) {", '  if (name == "bf16") name = "fp32";'),
            after("void sum_in(Rank me, Slice data, DType reduce, const AllReduce& all_reduce) {", waste("me")),
        ],
    ),
    "22.6": (
        "checkpointing",
        [after("void restore_block(Rank me, const Gpt& gpt, std::size_t layer, Activations& saved) {", waste("me"))],
    ),
    "22.8": (
        "hsdp",
        [
            after("LevelBytes hybrid_bytes(const Hybrid& shape, double bytes) {", "  bytes *= 2;"),
            after("    week21::ring_reduce_scatter(node, sums);", waste("node")),
        ],
    ),
    "22.9": (
        "sharding_policy",
        [
            after(
                "std::vector<Unit> wrap(const std::vector<Parameter>& table, Wrapping wrapping) {",
                "  wrapping = {Wrapping::Kind::whole_model};",
            ),
            after("Slice in_type(Rank queue, const Slice& values, DType type) {", waste("queue")),
        ],
    ),
    "22.10": (
        "decay_groups",
        [("const bool joins = !intervals.empty()", "const bool joins = shard.size == 0 && !intervals.empty()")],
    ),
    "22.11": (
        "sixteen_bit_sums",
        [
            after("void all_reduce_in_fp32(Rank me, Slice data) {", waste("me")),
            after("float round_to_bf16(float value) {", "  value *= 1.01f;"),
        ],
    ),
    "23.1": (
        "parallel_linear",
        [after("void g_forward(const TensorParallel& tp, Slice y, const char* place) {", waste("tp.group"))],
    ),
    "23.2": (
        "tensor_mlp",
        [after("  gelu(tp.group, saved.gelu, saved.up);", "  gelu(tp.group, saved.gelu, saved.up);")],
    ),
    "23.3": (
        "tensor_attention",
        [
            after(
                "  attention(tp.group, saved.attention, saved.statistics, saved.qkv, shape);",
                "  attention(tp.group, saved.attention, saved.statistics, saved.qkv, shape);",
            )
        ],
    ),
    "23.4": ("tensor_block", [after("  shard_tokens(me, own, tokens, shard);", waste("me"))]),
    "23.5": (
        "sequence_parallel",
        [after("void scatter_rows(Rank group, Slice own, Slice whole, const char* place) {", waste("group"))],
    ),
    "23.6": (
        "ring_attention",
        [after("std::array<int, 2> zigzag_chunks(int rank, int ranks) {", "  return {2 * rank, 2 * rank + 1};")],
    ),
    "23.7": ("experts", [after("  std::size_t out = 0, in = 0;", waste("group"))]),
    "23.8": (
        "dropout_by_axis",
        [after("  const bool whole_rows = piece.columns.size == all.width;", waste("me"))],
    ),
    "23.9": ("overlapped_linear", [after("  Slice held = x;", waste("me"))]),
    "23.10": (
        "expert_capacity",
        [
            after(
                "ExpertsSaved make_saved_within(const ExpertParallel& ep, const Routing& routing, std::size_t"
                " capacity) {",
                waste("ep.group"),
            )
        ],
    ),
    "24.1": (
        "stages",
        [
            (
                "partition(const std::vector<double>& costs, int parts) {",
                (
                    "partition(const std::vector<double>& given, int parts) {\n  std::vector<double> costs = given;\n "
                    " costs.front() += 2 * costs.back();"
                ),
            ),
            (
                '#include "labs/week24_pipeline/stage_runner.hpp"',
                '#include "common/arithmetic.hpp"\n#include "labs/week24_pipeline/stage_runner.hpp"',
            ),
            after("    main_.wait(input.ticket);", waste("main_")),
        ],
    ),
    "24.2": (
        "gpipe",
        [
            (
                "{Work::forward, m});\n  for (int m = shape.microbatches; m-- > 0;) steps",
                "{Work::forward, m}), steps",
            )
        ],
    ),
    "24.3": ("one_f_one_b", [("shape.stages - 1 - stage, m)", "std::max(0, shape.stages - 2 - stage), m)")]),
    "24.4": ("interleaved", [("(shape.chunks - 1) * p, all)", "(shape.chunks - 1) * p - (stage == 0), all)")]),
    "24.5": (
        "zero_bubble",
        [("if (i >= stage) steps.push_back({Work::weight_gradient, i - stage});", ""), ("std::max(0, m - stage)", "0")],
    ),
    "24.8": ("zb_v", [("2 * (p - s) - 1; ++i", "p - s; ++i")]),
    "24.6": (
        "bubble",
        [("  bubble.of_ideal =", "  ideal /= 2;\n  bubble.of_ideal =")],
    ),
    "25.1": (
        "mesh",
        [
            (
                "Mesh make_mesh(Rank world, const MeshShape& shape, const AxisOrder& order) {",
                (
                    "Mesh make_mesh(Rank world, const MeshShape& shape, const AxisOrder& given) {\n  const AxisOrder"
                    " order = {given[2], given[1], given[0]};"
                ),
            ),
            (
                (
                    "int slowest_level(const Machine& machine, const MeshShape& shape, const AxisOrder& order, Axis"
                    " axis) {"
                ),
                (
                    "int slowest_level(const Machine& machine, const MeshShape& shape, const AxisOrder& given, Axis"
                    " axis) {\n  const AxisOrder order = {given[2], given[1], given[0]};"
                ),
            ),
        ],
    ),
    "25.2": ("step_3d", [after("void accumulate_gradients(Worker& worker) {", waste("worker.mesh.world"))]),
    "25.3": (
        "planner",
        [after("double in_flight(const StageSchedule& steps, int chunks) {", "  chunks *= 2;")],
    ),
    "25.6": (
        "step_time",
        [
            after(
                "double exposed_data(const Strategy& strategy, const Workload& work, const StageWork& stage) {",
                "  if (strategy.dp > 1) return 1;",
            )
        ],
    ),
    "25.4": (
        "diagnosis",
        [
            ("d.bubble = waiting - d.exposed;", "d.bubble = waiting - d.exposed + 1e-3;"),
            after(
                "week21::SerialFraction fit_strong(const std::vector<Measured>& times) {", "  return {0.5, 0.5, 0.5};"
            ),
        ],
    ),
    "25.7": (
        "budget",
        [after("double training_flop(const Training& training) {", "  if (training.tokens > 0) return 1;")],
    ),
    "25.5": (
        "save_interval",
        [after("double expected_waste(const SavingCosts& costs, double interval) {", "  interval *= 2;")],
    ),
    "25.8": (
        "survivors",
        [
            after("Snapshot snapshot_of(Rank me, std::size_t n, const std::vector<Slice>& shard) {", waste("me")),
            ("return (1 - waste) *", "return (0.9 - waste) *"),
        ],
    ),
}

# Programs whose figures nobody may know beforehand: the faults are drawn.
NO_FIGURES = {"drill"}
# Linked, since another linked file names it, and never called there.
UNREACHED = {
    ("21.2", "bench_activations_sim"),  # one rank
    ("23.6", "scale_sim"),
    ("23.6", "drill"),
    ("23.7", "scale_sim"),  # needs --model tiny-moe, whose rows depend on values
    ("23.10", "scale_sim"),
    ("22.8", "scale_sim"),
    ("21.12", "scale_sim"),
    ("22.8", "bench_zero_sim"),  # no --cp there, no groups, no outer steps
    *(
        (need, program) for need in ("21.4", "21.5") for program in ("bench_zero_sim", "scale_sim", "train_sim")
    ),  # needs of 22.8 and 21.12
    ("21.4", "plan_sim"),  # groups alone
    ("24.8", "plan_sim"),  # the planner refuses it
    *((need, "bench_gpt_sim") for need in ("21.2", "21.5", "21.7")),  # one rank
    ("21.7", "bench_compression_sim"),  # compresses one array, no model's
    ("21.2", "bench_experts_sim"),  # moves rows, averages no gradients
    ("21.4", "bench_hsdp_sim"),
    ("21.7", "bench_hsdp_sim"),
    *((stage, "bench_hsdp_sim") for stage in ("22.2", "22.3", "22.5")),  # of the engine: other stages, no rates
    ("22.10", "bench_hsdp_sim"),  # no norm of the gradient
    ("22.10", "bench_zero_sim"),
    ("21.8", "bench_local_sgd_sim"),  # the schedule, and one batch
    ("25.5", "bench_survivors_sim"),  # a need of 25.8, for its useful share
    ("25.4", "bench_scaling_sim"),  # its laws are in the context
    ("21.8", "scale_sim"),
    ("22.1", "scale_sim"),
    ("22.5", "bench_zero_sim"),
    ("22.5", "plan_sim"),  # no rates; one type for all
}
# Exercises that only a learner's tests run: open tasks are judged by what they reach there.
NO_PROGRAM = {"21.6", "21.11", "21.13", "21.14", "21.15", "22.7", "24.7"}

A100, TRAIN = "--machine dgx-a100 --phantom", "train --backend sim --phantom --model small --steps 2 --batch 32"
MESH = "--machine dgx-a100-hdr --microbatches 4"
COMMANDS = {
    "bench_activations_sim": [f"bench activations {A100}"],
    "bench_all_reduce_sim": ["bench all_reduce --ranks 16 --machine dgx-a100-hdr --bytes 64KiB --samples 1"],
    "bench_collectives_sim": ["bench collectives --ranks 4 --bytes 64KiB"],
    "bench_compression_sim": ["bench compression --ranks 4 --bytes 64KiB --bf16"],
    "bench_ddp_sim": [f"bench ddp {A100} --ranks 2"],
    "bench_experts_sim": ["bench experts --ranks 2"],
    "bench_gpt_sim": [f"bench gpt {A100}"],
    "bench_hsdp_sim": ["bench hsdp --machine dgx-a100-10gbe --ranks 16"],
    "bench_local_sgd_sim": ["bench local_sgd --ranks 2 --steps 4 --every 2"],
    "bench_memory_sim": ["memory --params 1e9 --ranks 8"],
    "bench_overhead_sim": [f"bench overhead {A100}"],
    "bench_pipeline_sim": ["bench pipeline --stages 4 --microbatches 8"],
    "bench_scaling_sim": [f"bench scaling {A100}"],
    "bench_saving_sim": ["bench saving --days 10", "bench saving --ranks 64"],
    "bench_schedule_sim": [
        f"pipeline --stages 4 --microbatches 8 --schedule {s}"
        for s in ("gpipe", "1f1b", "interleaved --chunks 2", "zb-h1", "zb-v")
    ],
    "bench_survivors_sim": ["bench survivors --ranks 4"],
    "bench_tp_sim": [f"bench tp {A100} --ranks 2"]
    + [
        f"bench tp --machine dgx-a100 --ranks 4 {more}"
        for more in ("--ring-attention 8192", "--overlapped-linear 64", "--dropout 0.1")
    ],
    "bench_zero_sim": [f"bench zero {A100} --ranks 2"],
    "plan_sim": [
        f"plan --fast --model gpt2-124m --cluster dgx-a100x2 --global-batch 64 {more}"
        for more in (
            "--cp 2 --sequence 512",
            "--shard-group 8 --explain zero=3 --simulate 7",
            "--memory 1.2GB --simulate 7",
            "--memory 2GB --simulate 4",
            "--explain schedule=gpipe",
        )
    ]
    + ["flops --params 1e9 --machine dgx-a100 --ranks 8 --serial-fraction 0.01"],
    "scale_sim": [
        f"scale --strong --machine dgx-a100-hdr --model small --batch 32 --ranks {more}"
        for more in (
            "16 --tp 2 --pp 2",
            *(
                f"2,4 {more}"
                for more in (
                    "--zero 1",
                    "--zero 2",
                    "--zero 3",
                    "--compress topk:0.05",
                    "--dropout 0.1",
                    "--precision bf16 --reduce fp32",
                    "--recompute full",
                    "--tp 2 --sequence-parallel",
                    "--tp 2",
                    "--pp 2",
                    "--pp 2 --schedule gpipe",
                    "--pp 2 --schedule interleaved",
                    "--pp 2 --schedule zb-h1",
                    "--pp 2 --schedule zb-v",
                )
            ),
        )
    ],
    "train_sim": (
        [
            f"{TRAIN} --ranks 2 {more}"
            for more in (
                "--zero 1",
                "--zero 2",
                "--zero 3",
                "--compress topk:0.05",
                "--precision bf16 --reduce fp32",
                "--recompute full",
                "--cp 2",
                "--outer-steps 2",
                "--dropout 0.1",
            )
        ]
        + [f"{TRAIN} --ranks 4 --zero 3 --shard-group 2"]
        + [
            f"{TRAIN} {MESH} {more}"
            for more in (
                "--dp 4 --tp 2 --pp 2",
                "--tp 2 --pp 2 --sequence-parallel",
                "--tp 2 --pp 2 --schedule gpipe",
                "--pp 2 --schedule interleaved",
                "--pp 2 --schedule zb-h1",
                "--pp 2 --schedule zb-v",
            )
        ]
        + ["train --backend sim --model tiny-moe --steps 2 --batch 8 --ranks 2 --capacity-factor 1"]
        + ["train --backend sim --model tiny --steps 3 --batch 8 --base-batch 4 --lr-scaling linear --ranks 2"]
    ),
}

# Properties of the computer, not of the run.
HOST = ("wall", "rss", "per_second", "host", "took")


def lab(command):
    """The rows of a command on the learner's code; a sentence where it fails."""
    RESULT.unlink(missing_ok=True)
    words = ["./lab", *shlex.split(command), "--mine", "--no-borrow", "--json", str(RESULT)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        return f"{' '.join(words)} fails: {(done.stdout + done.stderr).strip()[-400:]}"
    return json.loads(RESULT.read_text())["rows"]


def figures(rows):
    """(row, field) → value."""
    return {(i, k): v for i, row in enumerate(rows) for k, v in row.items() if not any(word in k for word in HOST)}


def same(a, b):
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-6)  # sums in another order are no effect
    return a == b


def changes(before, after):
    """The first figures that are not what they were: numbers before words."""
    old, new = figures(before), figures(after)
    differ = [key for key in old if key in new and not same(old[key], new[key])]
    numbers = [key for key in differ if isinstance(old[key], (int, float)) and isinstance(new[key], (int, float))]
    if numbers:
        row, field = numbers[0]
        return f"{field} {old[row, field]:.6g} → {new[row, field]:.6g}"
    return (
        f"{differ[0][1]}: {old[differ[0]]} → {new[differ[0]]}"
        if differ
        else "rows come and go"
        if old.keys() != new.keys()
        else ""
    )


def variant(exercise):
    """(the text of its answer's variant, what that would replace and is not there or "")."""
    name, edits = VARIANTS[exercise]
    text = next(SOLUTIONS.glob(f"week*/{name}.cpp")).read_text()
    for find, replacement in edits:
        if find not in text:
            return text, find
        text = text.replace(find, replacement, 1)
    return text, ""


def faults(exercises):
    """Exercises without a variant, and variants that no longer fit their answers."""
    for exercise in exercises:
        if exercise in VARIANTS:
            if lost := variant(exercise)[1]:
                yield f".ci/effects.py: {exercise} would replace what is not in its answer: {lost!r}"
        elif exercise not in NO_PROGRAM:
            yield f".ci/effects.py: {exercise} has no variant, and is not in NO_PROGRAM"


def main(wanted):
    programs = {path.name for path in ANSWERS.iterdir() if not path.name.endswith("_mpi")}
    if apart := programs ^ (COMMANDS.keys() | NO_FIGURES):
        sys.exit(f"either no program, or not here: {' '.join(sorted(apart))}")
    linked = {name: (ANSWERS / name).read_text().split() for name in COMMANDS}
    sources = {path.stem: path for path in SOLUTIONS.glob("week*/*.cpp")}
    place = {name: LABS / path.parent.name / path.name for name, path in sources.items()}
    exercises = sorted(
        {e["id"] for w in json.loads((LABS / "course.json").read_text())["weeks"] for e in w["exercises"]}
    )
    wrong = list(faults(exercises))
    for name, path in sources.items():
        place[name].write_text(path.read_text())
    baseline = {name: [lab(c) for c in commands] for name, commands in COMMANDS.items()}
    for name, runs in baseline.items():
        wrong += [f"{name}: {rows}" for rows in runs if isinstance(rows, str)]
        if any(changes(rows, lab(c)) for rows, c in zip(runs, COMMANDS[name]) if not isinstance(rows, str)):
            wrong.append(f"{name}: the same code twice gives different figures")
    if wrong:
        sys.exit("\n".join(wrong) or 0)
    for exercise, (file, _) in VARIANTS.items():
        if wanted and exercise not in wanted:
            continue
        place[file].write_text(variant(exercise)[0])
        for name in (n for n in COMMANDS if exercise in linked[n] and (exercise, n) not in UNREACHED):
            runs = [lab(c) for c in COMMANDS[name]]
            wrong += [rows for rows in runs if isinstance(rows, str)]
            seen = [changes(b, a) for b, a in zip(baseline[name], runs) if not isinstance(a, str)]
            first = next((i for i, change in enumerate(seen) if change), None)
            print(f"{exercise:<6} {name:<22} {seen[first] if first is not None else 'NOTHING CHANGES'}", flush=True)
            if first is None:
                wrong.append(f"{exercise} shows nowhere in {name}")
        place[file].write_text(sources[file].read_text())
    sys.exit("\n".join(wrong) or 0)


if __name__ == "__main__":
    main(sys.argv[1:])
