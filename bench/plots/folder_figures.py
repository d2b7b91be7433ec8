"""The figures of ./lab report --from DIR: one function for each kind in folder.py."""

from folder import BREAKDOWN, PARTS, fits_of, held, left_out, memory_parts
from gradients_figures import compressed_sums
from laws import DESCRIBES, draw_law
from memory import memory as memory_figure
from results import bytes_text, seconds_text
from roofline_figures import roofline
from row_words import MESH, breakdown, has_width, n_of, on, what
from sources import kind_of
from style import (
    COLOURS,
    Drawing,
    distinct,
    doubling_axis,
    figure_legend,
    label_ends,
    look,
    marks,
    name_bars,
    over,
    plain_log_axis,
    size_axis,
    speedup_axis,
    stacked_bars,
    stamp,
    subplots,
    title,
    whiskers,
)
from timeline_figures import timeline_figure


def ranks_axis(axis, rows):
    ticks = sorted({r["ranks"] for r in rows})
    doubling_axis(axis, ticks, "ranks")


def speedup_said(chart, found):
    """What the figure shows: the best curve's end, or the law that fails to describe its points."""
    if len(found) == 1 or all(r.get("reported") for rows in found.values() for r in rows):
        label, rows = max(found.items(), key=lambda item: max(r["ranks"] for r in item[1]))
        last = max(rows, key=lambda r: r["ranks"])
        words = f"{last['ranks']} ranks are {last['speedup']:.3g} times as fast as one"
        return f"{words}, an efficiency of {100 * last['efficiency']:.0f} %"
    fits = [fit for rows in found.values() for fit in fits_of(chart, rows) if fit.serial is not None]
    bad = [fit for fit in fits if abs(fit.worst[1]) > DESCRIBES]
    if not bad:
        return ""
    worst = max(bad, key=lambda fit: abs(fit.worst[1]))
    ranks, miss = worst.worst
    return (
        f"{worst.law.capitalize()}’s law does not describe every curve: it lies {100 * abs(miss):.0f} %"
        f" {'above' if miss > 0 else 'below'} a point at {ranks} ranks"
    )


def speedup(chart, found):
    """Panels: speedup, with the law that a file's study fitted; efficiency. Whiskers are 95 % intervals."""
    figure, axes = subplots(2, 10, 4.2)
    title(figure, speedup_said(chart, found))
    for i, (label, mine) in enumerate(found.items()):
        fits = [fit for fit in fits_of(chart, mine) if fit and fit.serial is not None]
        for axis, field, scale in ((axes[0][0], "speedup", 1), (axes[0][1], "efficiency", 100)):
            line = "none" if fits and field == "speedup" else distinct(i)["linestyle"]
            points = axis.errorbar(
                [r["ranks"] for r in mine],
                [scale * r[field] for r in mine],
                yerr=whiskers(mine, field, scale) if any(has_width(r, field) for r in mine) else None,
                capsize=3,
                clip_on=False,
                **{**distinct(i), "linestyle": line},
            )
            points[0].set_label(label + n_of(mine))  # of its line, which the legend lists beside the curve's laws
        for fit, line in zip(fits, (":", "-.")):
            draw_law(axes[0][0], fit, max(r["ranks"] for r in mine), distinct(i)["color"], line)
    rows = [r for mine in found.values() for r in mine]
    most = max(r["ranks"] for r in rows)
    fewest = min(r["ranks"] for r in rows) if rows[0].get("reported") else 1
    axes[0][0].plot([fewest, most], [fewest, most], color="#bbbbbb", linewidth=1, label="ideal")
    over = f"speedup, that of {fewest} ranks = {fewest}" if fewest > 1 else "speedup, T(1) / T(p)"
    speedup_axis(axes[0][0], most, over, min(r["speedup"] for r in rows))
    axes[0][1].axhline(100, color="#bbbbbb", linewidth=1)
    axes[0][1].set_ylim(0, 105 * max(1, *(r["efficiency"] for r in rows)))
    axes[0][1].set_ylabel("efficiency, %")
    for axis in axes[0]:
        ranks_axis(axis, [*rows, {"ranks": fewest}])  # where "ideal" begins
    figure_legend(figure, axes[0][0], 2)
    return figure


MORE = (
    ("microbatch", "microbatches of {}"),
    ("microbatches", "m = {}"),
    ("bucket_bytes", "{} buckets"),
    ("tokens_per_rank", "{} tokens"),
    ("d_model", "d = {}"),
    ("transfer_seconds", "hop {:.2g} s"),
)


def bar_names(rows, where=False):
    """What each bar is of, in one line: what it measures, and of the rest what differs between the rows of its command,
    whose name is in front where there are several; with `where` the machine; and the file of those that are alike."""
    commands = {r.get("command") for r in rows}
    fields = {command: differing([r for r in rows if r.get("command") == command]) for command in commands}
    names = [(f"{r['command']}: " if len(commands) > 1 else "") + bar_name(r, fields[r.get("command")]) for r in rows]
    names = [f"{name}, {on(r)}" for name, r in zip(names, rows)] if where else names
    return [
        (
            name
            if names.count(name) == 1 or "file" not in fields[r.get("command")]
            else f"{name} [{r['file'].removesuffix('.json')}]"
        )
        for name, r in zip(names, rows)
    ]


def differing(rows):
    """The fields in which some of these rows differ, of those that name them."""
    return {
        field
        for field in (*(f for f, _ in MESH + MORE), "model", "ranks", "scaling", "file")
        if len({str(r.get(field)) for r in rows}) > 1
    }


def bar_name(row, differs):
    parts = ["" if row.get("program") else what(row).replace("_", " ")]
    if "model" in differs and row.get("model"):
        parts.append(str(row["model"]))
    parts.append(" ".join(f"{letters} {row[field]}" for field, letters in MESH if field in differs and row.get(field)))
    for field, words in MORE:
        if field in differs and row.get(field):
            parts.append(words.format(bytes_text(row[field]) if field == "bucket_bytes" else row[field]))
    if "ranks" in differs and row.get("ranks"):
        parts.append(f"p = {row['ranks']}")
    if row.get("scaling"):
        parts.append(row["scaling"])
    named = ", ".join(p for p in parts if p)
    return named or f"p = {row.get('ranks', 1)}"


def breakdown_bars(axis, rows):
    """A bar for each row, in parts; whiskers: its interval; beside it n. Steps of very different length are drawn as
    shares."""
    parts = [breakdown(r) for r in rows]
    totals = [sum(p.values()) for p in parts]
    column = Drawing.layout.stacked  # narrow: what stands beside bars and below them gets two lines
    shares = max(totals) > 8 * min(totals)  # as shares the times, with their intervals, are a column at the right
    scales = [100 / t for t in totals] if shares else [1e3 if max(totals) < 1 else 1] * len(rows)
    places = {on(r) for r in rows}
    names = bar_names(rows, where=len(places) > 1)
    left = stacked_bars(axis, names, {part: [scale * p[part] for scale, p in zip(scales, parts)] for part in BREAKDOWN})
    for i, (row, scale) in enumerate(zip(rows, scales)):
        low, high = row.get("seconds_low"), row.get("seconds_high")
        spread = has_width(row, "seconds")
        if spread and not shares:
            ends = [[scale * (row["seconds"] - low)], [scale * (high - row["seconds"])]]
            axis.errorbar([scale * row["seconds"]], [i], xerr=ends, color="black", capsize=3, linewidth=1)
        words = [seconds_text(totals[i])] if shares else []
        words += [f"n = {row['samples']}"] if row.get("samples") and kind_of(row) != "simulated" else []
        if shares and spread and not Drawing.layout.wide:
            interval = f"{seconds_text(low)} to {seconds_text(high)}"
            words = [f"{', '.join(words)}\n{interval}"] if column else [f"{words[0]} ({interval})", *words[1:]]
        axis.annotate(
            ", ".join(words),
            (100 if shares else max(left[i], scale * (high or 0)), i),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            fontsize=10,
            annotation_clip=False,
        )
    axis.margins(x=0.02, y=0.02)
    axis.set_xlim(0, 100 if shares else None)
    worst = max(parts, key=lambda p: p["exposed"] / sum(p.values()))
    k = parts.index(worst)
    if worst["exposed"] and len(rows) > 1:
        share = 100 * worst["exposed"] / totals[k]
        title(axis.figure, f"Exposed communication is at most {share:.0f} % of a step ({names[k]})")
    unit = "share of a step, %" if shares else f"time per step, {'ms' if scales[0] > 1 else 's'}"
    where = [f"({places.pop()})"] if len(places) == 1 else []
    axis.set_xlabel(("\n" if column else " ").join([unit, *where]))


def memory_bars(axis, rows):
    stacked_bars(axis, bar_names(rows), {part: [memory_parts(r)[part] for r in rows] for part in PARTS}, 1e9)
    axis.set_xlabel("GB on the fullest rank")


def bytes_bars(axis, rows):
    ledger = [r["measured_bytes"] / 1e6 for r in rows]
    axis.barh(range(len(rows)), ledger, 0.72, color=COLOURS[0], alpha=0.85, label="ledger")
    formula = [((r["predicted_bytes"] + (r.get("explained_bytes") or 0)) / 1e6, i) for i, r in enumerate(rows)]
    marks(axis, formula, "|", 12, markeredgewidth=2, label="formula")
    names = [(name, r.get("category"), r.get("moment")) for name, r in zip(bar_names(rows), rows)]
    name_bars(axis, [", ".join(filter(None, name)) for name in names])
    axis.set_xlabel("MB")


def gains(axis, rows):
    """How much shorter a step would be without each cost; the limit stands out."""
    for i, row in enumerate(rows):
        gained, limit = max(0, 100 * row["gained"]), bool(row.get("limit"))
        colour, hatch = COLOURS[1 if limit else 0], "//" if limit else ""
        axis.barh(i, gained, 0.7, color=colour, hatch=hatch, edgecolor="white", alpha=0.85)
        inside = gained >= 50
        axis.annotate(
            f"{gained:.0f} %" + (", the limit" if limit else ""),
            (gained, i),
            xytext=(-3 if inside else 3, 0),
            ha="right" if inside else "left",
            color="white" if inside else "black",
            weight="bold" if inside else "normal",
            textcoords="offset points",
            va="center",
            fontsize=10,
        )
    axis.set_xlim(0, 100)
    axis.set_xticks([0, 50, 100])
    axis.set_xlabel("shorter without it, %")


def gains_bars(axis, rows):
    gains(axis, rows)
    several = len({r["file"] for r in rows}) > 1
    name_bars(axis, [f"{r['cost']}" + (f" [{r['file'].removesuffix('.json')}]" if several else "") for r in rows])


BARS = {"breakdown": breakdown_bars, "memory": memory_bars, "bytes": bytes_bars, "gains": gains_bars}


def bars_figure(chart, rows):
    """A horizontal bar for each row."""
    figure, ((axis,),) = subplots(1, 8, bars=len(rows))
    BARS[chart.kind.name](axis, rows)
    if axis.get_legend_handles_labels()[0]:
        figure_legend(figure, axis, 4)
    return figure


DIRECT = 9  # curves that have room for their names at their ends
FEW = 4  # curves next to which others can be told apart


def overlap(a, b):
    """Whether the intervals of two times overlap, of which at least one has width."""
    ends = lambda row, end: row.get(f"seconds_{end}") or row["seconds"]
    wide = has_width(a, "seconds") or has_width(b, "seconds")
    return a is b or wide and ends(a, "low") <= ends(b, "high") and ends(b, "low") <= ends(a, "high")


def bandwidth_said(found):
    """The fastest for the largest array, beside the library's own where that is measured; or those whose intervals
    overlap the fastest one's, which are not ranked."""
    most = max(r["bytes"] for rows in found.values() for r in rows)
    last = {label: r for label, rows in found.items() for r in rows if r["bytes"] == most}
    copy = next((label for label in last if label.startswith("memory copy")), None)
    ours = {label: r for label, r in last.items() if not label.startswith(("library", "gloo", "memory copy"))}
    if not ours:
        return ""
    best = max(ours, key=lambda label: ours[label]["busbw_gb_per_s"])
    library = next((r for label, r in last.items() if label.startswith("library")), None)
    memory = [f"a copy in memory {last[copy]['busbw_gb_per_s']:.3g}"] if copy else []
    rivals = ours | ({"the library’s own": library} if library else {})
    alike = sorted(
        (label for label, r in rivals.items() if overlap(r, ours[best])), key=lambda label: rivals[label]["seconds"]
    )
    if len(alike) > 1:
        rates = [f"{rivals[label]['busbw_gb_per_s']:.3g}" for label in (alike[-1], alike[0])]
        words = f"For {bytes_text(most)} the intervals of {', '.join(alike[:-1])} and {alike[-1]} overlap"
        return "; ".join([f"{words}: {' to '.join(rates)} GB/s", *memory])
    beside = [f"the library’s own {library['busbw_gb_per_s']:.3g}"] if library else []
    beside += memory
    return f"For {bytes_text(most)} {best} reaches {ours[best]['busbw_gb_per_s']:.3g} GB/s" + (
        f"; {', '.join(beside)}" if beside else ""
    )


def bandwidth(chart, found):
    """Left: bus bandwidth with intervals. Right: time. Predicted: dotted, on the right; on the left as well where few
    curves are."""
    figure, ((busbw, times),) = subplots(2, 10, 4.6)
    title(figure, bandwidth_said(found))
    dotted = dashed = False
    counts, ends = {n_of(rows) for rows in found.values()}, []
    for i, (label, rows) in enumerate(found.items()):
        look_of_it, sizes = distinct(i), [r["bytes"] for r in rows]
        named = label + (n_of(rows) if len(counts) > 1 else "")
        spread = whiskers(rows, "busbw_gb_per_s") if any(has_width(r, "seconds") for r in rows) else None
        busbw.errorbar(sizes, [r["busbw_gb_per_s"] for r in rows], yerr=spread, capsize=2, label=named, **look_of_it)
        times.plot(sizes, [1e6 * r["seconds"] for r in rows], **look_of_it)
        ends.append((sizes[-1], 1e6 * rows[-1]["seconds"], label, look_of_it["color"]))
        said = [r for r in rows if r.get("predicted_seconds")]
        alone = len(said) == 1  # a line of one point cannot be seen
        line = {"color": look_of_it["color"], "linestyle": ":", "linewidth": 1}
        line |= {"marker": "_" if alone else "", "markersize": 16, "markeredgewidth": 1.5}
        if said:
            times.plot([r["bytes"] for r in said], [1e6 * r["predicted_seconds"] for r in said], **line)
            dotted, dashed = dotted or not alone, dashed or alone
        if said and len(found) <= FEW:
            predicted = [r["busbw_gb_per_s"] * r["seconds"] / r["predicted_seconds"] for r in said]
            busbw.plot([r["bytes"] for r in said], predicted, **line)
    for axis, words in ((busbw, "busbw, GB/s"), (times, "time, µs")):
        size_axis(axis, sorted({r["bytes"] for rows in found.values() for r in rows}), 4)
        axis.set_ylabel(words)
        plain_log_axis(axis.yaxis)
    if len(found) > DIRECT:
        figure_legend(figure, busbw, 4)  # above the panels, where it covers no curve
    else:
        label_ends(times, ends)
    if dotted or dashed:
        how = " and ".join(sorted({kind_of(r) for r in chart.rows}))
        times.plot([], [], color="#555555", marker="o", label=how)
        line = {"linestyle": ":" if dotted else "none"} | ({"marker": "_", "markersize": 16} if dashed else {})
        times.plot([], [], color="#555555", label="predicted", **line)
        times.legend()
    return figure


def compression(_, found):
    """Panels: bytes over the ring's, then time over the ring's for each place and size."""
    return compressed_sums({where + n_of(rows): rows for where, rows in found.items()})


def throughput(_, found):
    figure, axes = subplots(1, 7, 4.0)
    for i, (label, mine) in enumerate(found.items()):
        points, wide = over(mine, "ranks", "tokens_per_second"), any(has_width(r, "seconds") for r in mine)
        spread = whiskers(mine, "tokens_per_second") if wide else None
        axes[0][0].errorbar(*zip(*points), yerr=spread, capsize=3, label=label + n_of(mine), **distinct(i))
    ranks_axis(axes[0][0], [r for mine in found.values() for r in mine])
    plain_log_axis(axes[0][0].yaxis)
    axes[0][0].set_ylabel("tokens per second, all ranks")
    figure_legend(figure, axes[0][0], 2)
    return figure


def bubble(chart, found):
    figure, ((axis,),) = subplots(1, 8, 4.0)
    dashes = False
    for i, (label, rows) in enumerate(found.items()):
        axis.plot(*zip(*over(rows, "microbatches", "bubble_of_total", 100)), label=label, **look(i))
        said = [r for r in rows if r.get("predicted_bubble_of_total") is not None]
        marks(axis, over(said, "microbatches", "predicted_bubble_of_total", 100), "_", 10)
        dashes = dashes or bool(said)
    words = "microbatches (dashes: formula)" if dashes else "microbatches"
    doubling_axis(axis, sorted({r["microbatches"] for r in chart.rows}), words)
    axis.set_ylim(0, None)
    axis.set_ylabel("idle / total, %")
    figure_legend(figure, axis, 2)
    return figure


def memory_by_stage(chart, found):
    rows = [r for rows in found.values() for r in rows]
    return memory_figure({"context": chart.files[0].context, "rows": rows})


def losses(_, rows):
    """Of each step, and of the validations."""
    figure, axes = subplots(1, 7, 3.6)
    for field, label, i in (("loss", "training", 0), ("validation_loss", "validation", 1)):
        at = [(r["step"], r[field]) for r in rows if r.get(field) is not None]
        if at:
            few = {} if len(at) < 30 else {"marker": ""}
            axes[0][0].plot(*zip(*at), label=label, **{**look(i), **few})
    axes[0][0].set_xlabel("step")
    axes[0][0].set_ylabel("loss, nats per token")
    axes[0][0].legend(fontsize=7.5)
    return figure


def timeline(chart, _):
    return timeline_figure(chart.files[0].trace)


# Figures by kind. Each draws a Chart, with only as much as its figure has room for.
DRAW = (bandwidth, bubble, compression, losses, memory_by_stage, roofline, speedup, throughput, timeline)
OF_KIND = {draw.__name__: draw for draw in DRAW} | dict.fromkeys(BARS, bars_figure)


def draw(chart):
    """The figure of a Chart, which says what it has no room for; None where its kind has none, or no number to show."""
    kind, shown = chart.kind, held(chart)
    figure = OF_KIND[kind.name](chart, shown) if kind.name in OF_KIND and (shown or not kind.find) else None
    if figure and left_out(chart):
        stamp(figure, left_out(chart))
    return figure
