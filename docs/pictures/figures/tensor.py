"""Week 23: which part of which matrix a rank holds."""

from figures.canvas import Canvas

RANKS = 2
ROWS, NARROW, WIDE = 68, 44, 136  # N rows, C and 4C channels, as drawn


def matrix(canvas, x, middle, shape, part, kind, label=""):
    """A matrix around the height `middle`: dashed as a whole, filled where this rank holds it. `part`: None for all of
    it, or (dimension that is sharded: 0 rows, 1 columns; which shard)."""
    h, w = shape
    y = middle - h / 2
    if part is None:
        canvas.box(x, y, w, h, kind, label, radius=0)
        return
    dimension, shard = part
    size = (h / RANKS, w) if dimension == 0 else (h, w / RANKS)
    at = (x, y + shard * size[0]) if dimension == 0 else (x + shard * size[1], y)
    canvas.rect(x, y, w, h, "away")
    canvas.box(*at, size[1], size[0], kind, label, radius=0)


def sign(canvas, x, y, words):
    canvas.text(x, y + 6, words, "mid head")


def mlp_of_rank(canvas, rank, middle):
    """One rank's product with its columns of Up, and with its rows of Down."""
    canvas.text(16, middle + 5, f"rank {rank}", "head")
    matrix(canvas, 84, middle, (ROWS, NARROW), None, "memory", "x")
    sign(canvas, 144, middle, "·")
    matrix(canvas, 160, middle, (NARROW, WIDE), (1, rank), "memory", f"Up{'₀₁'[rank]}")
    sign(canvas, 314, middle, "→")
    matrix(canvas, 332, middle, (ROWS, WIDE), (1, rank), "memory", f"h{'₀₁'[rank]}")
    sign(canvas, 484, middle, "·")
    matrix(canvas, 500, middle, (WIDE, NARROW), (0, rank), "memory", f"D{'₀₁'[rank]}")
    sign(canvas, 560, middle, "=")
    matrix(canvas, 576, middle, (ROWS, NARROW), None, "second-memory", f"y{'₀₁'[rank]}")


def tensor_shards():
    c = Canvas(
        "tensor_shards",
        (860, 488),
        "Up by columns, Down by rows: the MLP needs one sum, at its end",
        "Megatron's MLP on two ranks. Both hold the whole input x. Each has half of the columns of Up and "
        "so computes half of the columns of h, to which GELU applies element by element. Each has the "
        "matching half of the rows of Down, and its product is a partial sum of the whole y. An all-reduce "
        "adds the two.",
    )
    c.text(16, 52, "y = gelu(x · Up) · Down with N tokens and C channels, on two ranks", "small soft")
    heads = [
        (106, "x", "N × C"),
        (228, "Up", "C × 4C"),
        (400, "h = gelu(x · Up)", "N × 4C"),
        (522, "Down", "4C × C"),
        (598, "partial", "N × C"),
        (802, "y", "N × C"),
    ]
    for x, name, shape in heads:
        c.text(x, 84, name, "mid head")
        c.text(x, 101, shape, "mid small soft")
    middles = [186, 338]
    for rank, middle in enumerate(middles):
        mlp_of_rank(c, rank, middle)
        matrix(c, 780, middle, (ROWS, NARROW), None, "memory final", "y")
    centre = sum(middles) / 2
    c.rect(680, centre - 22, 44, 44, "comm", 22)
    c.text(702, centre + 7, "Σ", "mid title")
    c.text(702, centre + 40, "all-reduce", "mid small")
    for middle, way in zip(middles, (-1, 1)):
        c.arrow(624, middle - 14 * way, 686, centre + 18 * way)
        c.arrow(720, centre + 18 * way, 776, middle - 14 * way)
    for x, width, words in (
        (84, 364, "column-parallel: adds dx, in the backward pass only"),
        (484, 340, "row-parallel: adds y, in the forward pass only"),
    ):
        c.line(x, 418, x + width, 418, "ink")
        c.text(x + width / 2, 437, words, "mid small")
    c.legend(
        16, 472, [("memory", "held by this rank"), ("away", "held by the other rank"), ("second-memory", "partial sum")]
    )
    return c


P = 4  # ranks, in the figure of sequence parallelism
PLACES = ["norm", "attention", "residual", "norm", "MLP", "residual"]


def held_part(canvas, x, y, sharded):
    """An activation of N rows and C channels, and what rank 0 holds of it: all, its rows, or its heads (columns)."""
    h, w = 76, 64
    canvas.rect(x, y, w, h, "away")
    if sharded == "rows":
        canvas.rect(x, y, w, h / P, "memory")
    elif sharded == "columns":
        canvas.rect(x, y, w / P, h, "memory")
    else:
        canvas.rect(x, y, w, h, "memory")


def collective(canvas, x, y, words):
    """Between two activations: a collective, f, which sends nothing in the forward pass, or only the next layer."""
    if words:
        canvas.box(x, y, 46, 32, "cell" if words == "f" else "comm", words, "head", 14)
    else:
        canvas.arrow(x - 4, y + 16, x + 50, y + 16, "rule", "tip-soft")


def block_row(canvas, y, layouts, before, after):
    """One way through a block: activations, and the collectives before and after its sharded layers."""
    step, sharded_layers = 151, ("attention", "MLP")
    for i, (place, layout) in enumerate(zip(PLACES, layouts)):
        x = 16 + step * i
        canvas.text(x + 32, y - 10, place, "mid")
        held_part(canvas, x, y, layout)
        if i + 1 < len(PLACES):
            words = before if PLACES[i + 1] in sharded_layers else after if place in sharded_layers else ""
            collective(canvas, x + 84, y + 22, words)


def sequence_parallel():
    c = Canvas(
        "sequence_parallel",
        (860, 412),
        "Sequence parallelism shards what tensor parallelism leaves whole",
        f"The activations along one block, and what one of {P} ranks holds of them. With tensor parallelism "
        "norms and residuals are whole on every rank, and inside attention and MLP each rank has its heads "
        "or hidden units. With sequence parallelism each rank has its rows of norms and residuals: "
        "all-gathers and reduce-scatters take the place of all-reduces.",
    )
    c.text(
        16,
        52,
        f"what rank 0 of {P} holds of N rows (down) and their channels (across), in the forward pass",
        "small soft",
    )
    rows = [
        ("Tensor parallelism", f"4 + 12/p = {4 + 12 // P}", ["all", "columns", "all"] * 2, "f", "Σ"),
        ("With sequence parallelism", f"16/p = {16 // P}", ["rows", "columns", "rows"] * 2, "AG", "RS"),
    ]
    for i, (words, kept, layouts, before, after) in enumerate(rows):
        y = 86 + 144 * i
        c.text(16, y, words, "head")
        c.text(844, y, f"a block's activations on a rank: N·C times {kept}", "end")
        block_row(c, y + 36, layouts, before, after)
    c.legend(
        16,
        374,
        [
            ("memory", "held by rank 0"),
            ("away", "the whole activation"),
            ("cell", "f: sends nothing in the forward pass"),
        ],
    )
    c.legend(16, 398, [("comm", "Σ: all-reduce, AG: all-gather, RS: reduce-scatter")])
    return c


KINDS_OF_RANK = {(0, 0): "memory", (0, 1): "second-memory", (1, 0): "compute", (1, 1): "third-memory"}  # (tp, dp)


def shards_of(canvas, x, y, dimension, how):
    """A weight of 8 × 8: whole, after tp, and after dp. Tensor parallelism shards `dimension`, FSDP the rows."""
    canvas.text(x, y - 14, how, "head")
    canvas.box(x, y, 128, 128, "paper", "8 × 8", radius=0)
    canvas.arrow(x + 136, y + 64, x + 178, y + 64)
    canvas.text(x + 157, y + 54, "tp", "mid small")
    canvas.arrow(x + 322, y + 64, x + 364, y + 64)
    canvas.text(x + 343, y + 54, "dp", "mid small")
    w, h = (128, 64) if dimension == 0 else (64, 128)
    for tp in range(2):
        right, down = (0, 64 * tp) if dimension == 0 else (64 * tp, 0)
        canvas.box(x + 186 + right, y + down, w, h, "paper", f"tp {tp}", "small", radius=0)
        for dp in range(2):
            place = (x + 372 + right, y + down + h // 2 * dp)
            canvas.box(*place, w, h // 2, KINDS_OF_RANK[tp, dp], f"tp{tp} dp{dp}", "small", radius=0)


def tensor_then_fsdp():
    c = Canvas(
        "tensor_then_fsdp",
        (560, 424),
        "One weight on a mesh: sharded by tp, then by dp",
        "Two weights of 8 × 8 on a mesh of 2 × 2. parallelize_module shards the first by its rows and the second by "
        "its columns, over tp. fully_shard then shards the rows of what each rank has left over dp, so that each "
        "of four ranks stores a quarter: of the first weight 2 rows of 8, of the second 4 rows of 4.",
    )
    c.text(16, 52, "weights as PyTorch stores them, outputs × inputs", "small soft")
    shards_of(c, 16, 96, 0, "ColwiseParallel: rows, and rows again")
    shards_of(c, 16, 272, 1, "RowwiseParallel: columns, then rows")
    return c
