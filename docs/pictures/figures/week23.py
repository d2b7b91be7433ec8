"""Week 23: which part of which matrix a rank holds."""
from figures.canvas import Canvas

RANKS = 2
ROWS, NARROW, WIDE = 68, 44, 136  # N rows, C and 4C channels, as drawn


def matrix(canvas, x, middle, shape, part, kind, label=""):
    """A matrix around the height `middle`: dashed as a whole, filled where this rank holds it. `part`: None for all of it,
    or (dimension that is sharded: 0 rows, 1 columns; which shard)."""
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
    c = Canvas("tensor_shards", (860, 488), "Up by columns, Down by rows: the MLP needs one sum, at its end",
               "Megatron's MLP on two ranks. Both hold the whole input x. Each has half of the columns of Up and so computes "
               "half of the columns of h, to which GELU applies element by element. Each has the matching half of the rows "
               "of Down, and its product is a partial sum of the whole y. An all-reduce adds the two.")
    c.text(16, 52, "y = gelu(x · Up) · Down with N tokens and C channels, on two ranks", "small soft")
    heads = [(106, "x", "N × C"), (228, "Up", "C × 4C"), (400, "h = gelu(x · Up)", "N × 4C"), (522, "Down", "4C × C"),
             (598, "partial", "N × C"), (802, "y", "N × C")]
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
    for x, width, words in ((84, 364, "column-parallel: adds dx, in the backward pass only"),
                            (484, 340, "row-parallel: adds y, in the forward pass only")):
        c.line(x, 418, x + width, 418, "ink")
        c.text(x + width / 2, 437, words, "mid small")
    c.legend(16, 472, [("memory", "held by this rank"), ("away", "held by the other rank"), ("second-memory", "partial sum")])
    return c
