"""The figures of week 21: all-reduce, links, scaling and the DDP step."""

import laws
from results import NCCL_8_A100, by, bytes_text
from sources import is_quiet
from style import (
    beside_line,
    doubling_axis,
    ink,
    label_ends,
    lines,
    look,
    marks,
    over,
    plain_log_axis,
    size_axis,
    speedup_axis,
    subplots,
    title,
    whiskers,
    wide_and_two,
)


def busbw_simulated(machines, best):
    """busbw over size, one panel for each kind of algorithm. best: what findings.best_ring says."""
    figure, axes = subplots(2, 10, 4.2, sharey=True)
    if best:
        ring, naive, machine = best
        title(
            figure,
            f"On {ring['ranks']} ranks of {machine} a ring reaches"
            f" {ring['busbw_gb_per_s'] / naive['busbw_gb_per_s']:.0f}"
            f" times the bandwidth of the naive all-reduce ({bytes_text(ring['bytes'])})",
        )
    for axis, algorithm in zip(axes[0], ("ring", "naive")):
        rows = {machine: by(results["rows"], algorithm=algorithm) for machine, results in machines.items()}
        found = {
            f"{machine},\np = {mine[0]['ranks']}": over(mine, "bytes", "busbw_gb_per_s")
            for machine, mine in rows.items()
        }
        ends = lines(axis, found)
        if algorithm == "ring":
            marks(axis, NCCL_8_A100, "*", 9)
            axis.annotate(
                "stars: NCCL on 8 A100,\npublished", (0.04, 0.96), xycoords="axes fraction", va="top", fontsize=10
            )
        size_axis(axis, [x for x, _ in list(found.values())[-1]], 4)
        axis.set_yscale("log")
        axis.set_title(f"{algorithm} all-reduce")
    plain_log_axis(axes[0][0].yaxis, (1,))
    axes[0][0].set_ylabel("busbw, GB/s")
    label_ends(axes[0][1], ends)
    return figure


LINKS = ((1.25, "10 GbE"), (12.5, "100 GbE, PCIe 3"), (25, "PCIe 4, HDR"), (235, "NVLink 3"))


def overhead(rows):
    figure, ((seconds, computing),) = subplots(2, 10, 4.2)
    slow, fast = (min(rows, key=lambda r: abs(r["link_gb_per_s"] - bandwidth)) for bandwidth in (1.25, 235))
    title(
        figure,
        f"Without overlap two ranks compute {100 * slow['efficiency']:.0f} % of the time over"
        f" {slow['link_gb_per_s']:g} GB/s, and {100 * fast['efficiency']:.0f} % over {fast['link_gb_per_s']:g} GB/s",
    )
    sizes = list(dict.fromkeys(r["parameters"] for r in rows))
    name = lambda size: f"{size / 1e9:g} G" if size >= 1e9 else f"{size / 1e6:g} M"
    found = {name(size): over(by(rows, parameters=size), "link_gb_per_s", "seconds") for size in sizes}
    ends = lines(seconds, found)
    mine = by(rows, parameters=sizes[0])
    computing.plot(*zip(*over(mine, "link_gb_per_s", "efficiency", 100)), label="simulated", **look(0))
    predicted = over(mine, "link_gb_per_s", "predicted_efficiency", 100)
    computing.plot(*zip(*predicted), color="black", linestyle=":", label="predicted")
    for axis in (seconds, computing):
        axis.set_xscale("log")
        axis.set_xlabel("bandwidth of the link, GB/s")
        axis.set_xlim(0.7, 1.15 * max(r["link_gb_per_s"] for r in rows))
        plain_log_axis(axis.xaxis, (1,))
        for bandwidth, link in LINKS:
            axis.axvline(bandwidth, color="#999999", linewidth=0.7, zorder=0)
    for bandwidth, link in LINKS:  # where no curve is
        beside_line(computing, bandwidth, 0.02 if bandwidth > 2 else 0.3, link)
    seconds.set_yscale("log")
    plain_log_axis(seconds.yaxis, (1,))
    seconds.set_ylabel("seconds to average the gradients")
    seconds.set_title(f"{rows[0]['ranks']} ranks, parameters at the right")
    computing.set_ylim(0, 100)
    computing.set_ylabel("computing, % of a step")
    computing.set_title(f"{rows[0]['tokens_per_rank']:,} tokens, {rows[0]['flop_per_second'] / 1e12:g} TFLOP/s")
    computing.legend(loc="upper left")
    label_ends(seconds, ends)
    return figure


def points_with_whiskers(axis, rows, field, style, scale=1):
    """Points over ranks: hollow where the computer was not quiet."""
    for quiet, fill in ((True, {}), (False, {"markerfacecolor": "none"})):
        mine = [r for r in rows if is_quiet(r) == quiet and r[field] is not None]
        if mine:
            spread = whiskers(mine, field, scale)
            points = zip(*over(mine, "ranks", field, scale))
            axis.errorbar(*points, yerr=spread, capsize=2, **{**style, "linestyle": "none"}, **fill)


def along(low, high):
    return [low * (high / low) ** (k / 60) for k in range(61)]


def law_line(axis, serial, last, most, colour):
    """Amdahl's law up to `most` ranks, dashed beyond the last point. Returns where it ends."""
    for span, dashes in ((along(1, last), "-"), (along(last, most), (0, (4, 3)))):
        line = {"color": colour, "linewidth": 1, "linestyle": dashes}
        axis.plot(span, [laws.amdahl(serial, p) for p in span], **line)
    return most, laws.amdahl(serial, most)


def amdahl(studies, found):
    """Strong scaling with the fitted laws, dashed where no point is; what the fits leave; weak scaling. studies:
    {label: results}; found: what findings.laws says."""
    figure, (speedups, left, weak_axis) = wide_and_two()
    reached = "; ".join(f"{speedup:.1f} times on {ranks} ranks of {machine}" for machine, ranks, speedup, _ in found)
    title(figure, f"A fixed batch stops scaling: {reached}" if found else "")
    points = {
        label: [r for r in results["rows"] if r["speedup"] is not None and r["algorithm"] != "serial"]
        for label, results in studies.items()
    }
    most = max(r["ranks"] for rows in points.values() for r in rows)
    speedups.plot([1, most], [1, most], color="#bbbbbb", linewidth=1)
    ends = [(most, most, "ideal", "#666666")]
    for fraction in (0.99, 0.9):
        last = laws.amdahl(1 - fraction, most)
        line = {"color": "#999999", "linestyle": (0, (1, 1.5)), "linewidth": 1}
        speedups.plot(along(1, most), [laws.amdahl(1 - fraction, p) for p in along(1, most)], **line)
        ends.append((most, last, f"f = {fraction}, the course’s", "#666666"))
    for i, (label, results) in enumerate(studies.items()):
        strong, weak = by(points[label], scaling="strong"), by(points[label], scaling="weak")
        serial = results["context"].get("amdahl_serial_fraction")
        x, y = [r["ranks"] for r in strong], [r["speedup"] for r in strong]
        points_with_whiskers(speedups, strong, "speedup", look(i))
        end, words = (x[-1], y[-1]), label
        if serial is not None:
            words = f"{label}, f = {1 - serial:.3f}".replace(", simulated", "")
            left.plot(x, [100 * (s / laws.amdahl(serial, p) - 1) for p, s in zip(x, y)], **look(i))
            end = law_line(speedups, serial, x[-1], most, look(i)["color"])
        if serial is None and x[-1] < most:  # a line to the names at the right would pass for a curve
            place = {"xytext": (5, -4), "textcoords": "offset points", "va": "top", "fontsize": 10}
            speedups.annotate(words, end, color=ink(look(i)["color"]), **place)
        else:
            ends.append((*end, words, look(i)["color"]))
        weak_axis.plot(*zip(*over(weak, "ranks", "efficiency", 100)), **{**look(i), "marker": None})
        points_with_whiskers(weak_axis, weak, "efficiency", look(i), 100)
    for axis, words in ((speedups, "ranks (dashed: beyond the points)"), (left, "ranks"), (weak_axis, "ranks")):
        doubling_axis(axis, [2**k for k in range(most.bit_length())], words)
    speedup_axis(speedups, most, "speedup, T(1) / T(p)")
    speedups.set_ylim(0.9, 1.15 * most)
    left.axhline(0, color="black", linewidth=0.8)
    left.set_ylabel("above the law, %")
    weak_axis.set_ylim(0, 1.05 * weak_axis.dataLim.ymax)
    weak_axis.set_ylabel("efficiency, %")
    speedups.set_title("strong scaling, with Amdahl’s law", loc="left")
    left.set_title("residuals of the fits", loc="left")
    weak_axis.set_title("weak scaling", loc="left")
    label_ends(speedups, ends)
    return figure


def buckets(machines):
    """What a step takes beyond its computing, without and with overlap, over the size of the buckets."""
    figure, axes = subplots(len(machines), 5 * len(machines), 4.0)
    spans = []
    for axis, (machine, results) in zip(axes[0], machines.items()):
        rows = sorted(by(results["rows"], microbatches=1), key=lambda r: r["bucket_bytes"] or 0)
        plain, hidden = (by(rows, algorithm=name) for name in ("no_overlap", "overlap"))
        found = {
            name: over([r for r in mine if r["bucket_bytes"]], "bucket_bytes", "exposed_seconds", 1e3)
            for name, mine in (("without\noverlap", plain), ("with\noverlap", hidden))
        }
        ends = lines(axis, found, first=1)
        exposed = [y for _, y in found["with\noverlap"]]
        share = 100 * min(exposed) / max(1e3 * r["exposed_seconds"] for r in plain)
        spans.append(f"{min(exposed):.3g} to {max(exposed):.3g} ms on {machine} (at best {share:.0f} %)")
        axis.set_ylim(0, None)
        size_axis(axis, sorted({r["bucket_bytes"] for r in rows if r["bucket_bytes"]}))
        axis.set_xlabel("bucket")
        axis.set_title(f"{machine}, p = {results['rows'][0]['ranks']}, {results['rows'][0]['model']}")
        label_ends(axis, ends)
    title(figure, f"The size of the buckets decides what overlap leaves exposed: {', '.join(spans)}")
    axes[0][0].set_ylabel("exposed communication, ms")
    return figure


ALL = (busbw_simulated, overhead, amdahl, buckets)
