"""Axes of figures, and numbers with their units."""

import math


def spread(axis, seconds):
    """The place of a time on an axis (x of 0 s, pixels per second)."""
    return axis[0] + seconds * axis[1]


def time_axis(canvas, axis, y, until, step):
    """Ticks every `step` milliseconds, below the rows that end at y."""
    canvas.line(axis[0], y, spread(axis, until), y)
    for tick in range(0, int(until * 1e3) + 1, step):
        x = spread(axis, tick / 1e3)
        canvas.line(x, y, x, y + 5)
        canvas.text(x, y + 19, f"{tick} ms" if tick == 0 else tick, "mid small soft")


def log_place(low, high, begin, length):
    """A logarithmic axis from low to high, `length` long."""
    return lambda value: begin + length * math.log(value / low) / math.log(high / low)


def log_axes(canvas, place_x, place_y, sizes, times):
    for size in sizes:
        x = place_x(size)
        canvas.line(x, place_y(times[0]), x, place_y(times[-1]))
        canvas.text(x, place_y(times[0]) + 20, size_text(size), "mid small soft")
    for seconds in times:
        canvas.line(place_x(sizes[0]), place_y(seconds), place_x(sizes[-1]), place_y(seconds))
        canvas.text(place_x(sizes[0]) - 8, place_y(seconds) + 4, time_text(seconds), "end small soft")


def ms(seconds):
    return f"{seconds * 1e3:.3g} ms"


def time_text(seconds):
    return ms(seconds) if seconds >= 0.999e-3 else f"{seconds * 1e6:.3g} µs"


def size_text(count):
    """Bytes in powers of two."""
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.3g} B"


def gb(count):
    return f"{count / 1e9:.3g} GB"
