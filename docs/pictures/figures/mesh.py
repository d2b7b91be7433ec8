"""Week 25: the mesh."""

from figures.canvas import Canvas

AXES = ("tp", "dp", "pp")  # innermost first


def coordinates(rank, shape):
    """A rank's place on each axis: its digits, tp the last."""
    place = []
    for size in shape:
        place.append(rank % size)
        rank //= size
    return place


def group(rank, axis, shape):
    """The ranks that differ from this one on one axis only."""
    mine = coordinates(rank, shape)
    p = shape[0] * shape[1] * shape[2]
    others = {r: zip(coordinates(r, shape), mine) for r in range(p)}
    return [r for r in range(p) if all(a == b or i == axis for i, (a, b) in enumerate(others[r]))]


LOOKS = ["go thick", "go dash thick", "go dot thick"]
WORDS = ["tensor parallel", "data parallel", "pipeline"]


def corner(place):
    """Where a rank stands: tp to the right, dp into the page, pp down."""
    tp, dp, pp = place
    return 80 + 170 * tp + 92 * dp, 176 + 178 * pp - 62 * dp


def nodes(canvas, at, size):
    """A box around the ranks of each node."""
    for first in range(0, len(at), size):
        xs, ys = zip(*at[first : first + size])
        canvas.rect(min(xs) - 44, min(ys) - 28, max(xs) - min(xs) + 80, max(ys) - min(ys) + 56, "cell", 12)
        canvas.text(max(xs) + 26, max(ys) + 16, f"node {first // size}", "end head")


def groups_of(canvas, marked, shape, size):
    """The groups of the marked rank, in words."""
    canvas.text(440, 92, f"rank {marked} is (tp, dp, pp) = ({', '.join(map(str, coordinates(marked, shape)))})", "head")
    for axis, name in enumerate(AXES):
        y, members = 128 + 56 * axis, group(marked, axis, shape)
        inside = len({r // size for r in members}) == 1
        canvas.line(440, y - 5, 484, y - 5, LOOKS[axis])
        canvas.text(496, y, f"{name} group: ranks {members[0]} and {members[1]}")
        canvas.text(496, y + 19, f"{WORDS[axis]}, {'inside a node' if inside else 'across nodes'}", "small soft")


def mesh():
    shape, size, marked = (2, 2, 2), 4, 5
    p = shape[0] * shape[1] * shape[2]
    at = [corner(coordinates(r, shape)) for r in range(p)]
    c = Canvas(
        "mesh",
        (720, 400),
        "Every rank is in three groups, one per axis of the mesh",
        "Eight ranks as the corners of a cube, tp to the right, dp into the page, pp down, on two nodes of four. "
        + " ".join(f"Rank {marked}'s {name} group is {group(marked, i, shape)}." for i, name in enumerate(AXES)),
    )
    c.text(
        16, 52, "mesh of tp = dp = pp = 2 on nodes of 4, in the order tp, dp, pp: rank = tp + 2 dp + 4 pp", "small soft"
    )
    nodes(c, at, size)
    pairs = [(r, other, axis) for r in range(p) for axis in range(3) for other in group(r, axis, shape) if other > r]
    for r, other, axis in sorted(pairs, key=lambda pair: marked in pair[:2]):
        c.line(*at[r], *at[other], LOOKS[axis] if marked in (r, other) else "faint")
    for r, (x, y) in enumerate(at):
        c.box(x - 20, y - 16, 40, 32, "comm final" if r == marked else "paper", r, "head", 16)
    groups_of(c, marked, shape, size)
    for x, words in ((440, "→ tp"), (520, "↗ dp"), (600, "↓ pp")):
        c.text(x, 318, words)
    return c
