"""Amdahl's and Gustafson's law: fitted to speedups, as ./lab scale fits them, and drawn as a line with its 95 %
interval as a shade."""

import math
from dataclasses import dataclass

LAWS = {"amdahl": lambda s, p: 1 / (s + (1 - s) / p), "gustafson": lambda s, p: s + (1 - s) * p}
OF_SCALING = {"strong": "amdahl", "weak": "gustafson"}
amdahl = LAWS["amdahl"]  # speedup of p ranks where the share s of the work is serial

ENOUGH = 3  # numbers of ranks, 1 among them, that a fit needs; with one more it has an interval
DESCRIBES = 0.1  # a law that misses a point by more than this share of it is not the law of these points


@dataclass(frozen=True)
class Fit:
    """The serial fraction of a law; without a number, `why` says why there is none. low and high are None where there
    are too few points for an interval."""

    law: str
    serial: float = None
    low: float = None
    high: float = None
    worst: tuple = None  # (ranks, law over speedup − 1) of the point that it misses by most
    why: str = ""

    def sentence(self):
        name = f"{self.law.capitalize()}’s law"
        if self.serial is None:
            return f"{name}: {self.why}."
        fraction = f"serial fraction {self.serial:.3f} ({self.interval()})"
        ranks, miss = self.worst
        if abs(miss) > DESCRIBES:
            side = "above" if miss > 0 else "below"
            return (
                f"{name} does not describe these points: fitted with a {fraction} it is {100 * abs(miss):.0f} % {side}"
                f" the one at {ranks:,} ranks."
            )
        end = f"; if it held beyond them, no speedup would exceed {1 / self.serial:.3g}" if self.bounds() else ""
        return f"{name}: {fraction}, at most {100 * abs(miss):.1f} % off its points{end}."

    def interval(self):
        return f"95 %: {self.low:.3f} to {self.high:.3f}" if self.low is not None else "too few points for an interval"

    def bounds(self):
        return self.law == "amdahl" and self.serial > 0


def fit_of_context(context, rows):
    """The Fit that one of our studies left in its context, of the rows that it was fitted to; None where there is
    none."""
    law = OF_SCALING.get(rows[0].get("scaling"))
    s, low, high = (context.get(f"{law}_serial_fraction{end}") for end in ("", "_low", "_high"))
    if s is None:
        return None
    return checked(law, {row["ranks"]: row["speedup"] for row in rows}, s, low, high)


def checked(law, speedups, s, low, high):
    """A Fit within 0 and 1, and where it misses these points by most."""
    s = min(1.0, max(0.0, s))
    worst = max(((p, LAWS[law](s, p) / value - 1) for p, value in speedups.items()), key=lambda miss: abs(miss[1]))
    return Fit(law, s, None if low is None else max(0.0, low), None if high is None else min(1.0, high), worst)


def fitted(law, speedups):
    """The Fit of a law to {ranks: speedup}, 1 among the ranks: that of tools/scale/law.cpp."""
    if len(speedups) < ENOUGH:
        return Fit(law, why=f"no fit, which needs {ENOUGH} numbers of ranks, and here are {len(speedups)}")
    s, reach = (amdahls if law == "amdahl" else gustafsons)(speedups)
    interval = len(speedups) > ENOUGH
    most = s + reach if interval else s
    if s > 1 + 1e-9:
        return Fit(law, why="no serial fraction describes these points: more ranks are slower")
    if most < -1e-9:
        return Fit(law, why="no serial fraction describes these points: ranks are faster than their share")
    return checked(law, speedups, s, *((s - reach, s + reach) if interval else (None, None)))


def amdahls(speedups):
    """(s, half of its interval): times 1/S on a · 1/p + b · (1 − 1/p), s = b/a, least squares of relative errors; the
    error of s from a second fit around the first, as exercise 21.10 has it."""
    times = {p: 1 / value for p, value in speedups.items()}

    def two(first):
        """Coefficients of first(p) and 1 − 1/p, and the standard error of the second."""
        rows = [(first(p) / t, (1 - 1 / p) / t) for p, t in times.items()]  # each over its time: relative errors
        aa, ab, bb = (sum(row[i] * row[k] for row in rows) for i, k in ((0, 0), (0, 1), (1, 1)))
        ay, by = (sum(row[i] for row in rows) for i in (0, 1))
        size = aa * bb - ab * ab
        a, b = (bb * ay - ab * by) / size, (aa * by - ab * ay) / size
        left = sum((1 - a * x - b * y) ** 2 for x, y in rows)
        return a, b, math.sqrt(left / (len(rows) - 2) * aa / size)

    a, b, _ = two(lambda p: 1 / p)
    s = b / a
    a, _, error = two(lambda p: 1 / p + s * (1 - 1 / p))
    return s, student_t95(len(times) - 2) * error / a


def gustafsons(speedups):
    """(s, half of its interval): p − S on s · (p − 1), least squares, as exercise 25.4 has it."""
    rows = [(p - 1, p - value) for p, value in speedups.items() if p > 1]
    squares = sum(x * x for x, _ in rows)
    s = sum(x * y for x, y in rows) / squares
    left = sum((y - s * x) ** 2 for x, y in rows)
    return s, student_t95(len(rows) - 1) * math.sqrt(left / (len(rows) - 1) / squares)


def student_t95(freedom):
    """The quantile 0.975 of Student's distribution, by bisection of its integral: Simpson's rule over the angle."""
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(math.pi)

    def inside(t):
        end, steps = math.atan(t / math.sqrt(freedom)), 200
        weights = (1 if i in (0, steps) else 4 if i % 2 else 2 for i in range(steps + 1))
        return (
            scale * end / steps / 3 * sum(w * math.cos(end * i / steps) ** (freedom - 1) for i, w in enumerate(weights))
        )

    low, high = 1.9, 13.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if inside(middle) < 0.475 else (low, middle)
    return (low + high) / 2


def draw_law(axis, fit, most, colour, line):
    """From 1 to `most` ranks; returns whether there is a number to draw."""
    if fit is None or fit.serial is None:
        return False
    law, p = LAWS[fit.law], [most ** (k / 40) for k in range(41)]
    interval = f" ({fit.low:.3f} to {fit.high:.3f})" if fit.low is not None and fit.high is not None else ""
    axis.plot(
        p,
        [law(fit.serial, n) for n in p],
        color=colour,
        linestyle=line,
        linewidth=1,
        label=f"{fit.law.capitalize()}, s = {fit.serial:.3f}{interval}",
    )
    if interval:
        low, high = ([law(end, n) for n in p] for end in (fit.low, fit.high))
        axis.fill_between(p, high, low, color=colour, alpha=0.1, linewidth=0)
    return True
