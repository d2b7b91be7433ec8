"""Amdahl's and Gustafson's law as a study fitted them to its points: a line, and its 95 % interval as a shade."""

LAWS = {"strong": ("amdahl", lambda s, p: 1 / (s + (1 - s) / p)), "weak": ("gustafson", lambda s, p: s + (1 - s) * p)}
amdahl = LAWS["strong"][1]  # speedup of p ranks where the share s of the work is serial


def draw_law(axis, context, scaling, most, colour, line):
    """From 1 to `most` ranks, of a study's context; returns whether that holds a fit."""
    name, law = LAWS[scaling]
    s, low, high = (context.get(f"{name}_serial_fraction{end}") for end in ("", "_low", "_high"))
    if s is None:
        return False
    p = [most ** (k / 40) for k in range(41)]
    interval = f" ({low:.3f} to {high:.3f})" if low is not None and high is not None else ""
    axis.plot(
        p,
        [law(s, n) for n in p],
        color=colour,
        linestyle=line,
        linewidth=1,
        label=f"{name.capitalize()}, s = {s:.3f}{interval}",
    )
    if interval:
        axis.fill_between(
            p, [law(min(1, high), n) for n in p], [law(max(0, low), n) for n in p], color=colour, alpha=0.1, linewidth=0
        )
    return True
