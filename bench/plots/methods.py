"""methods.md: how everything in a report was measured, from the contexts of its results and from what really ran.
Standard library only."""

from sources import REPORTED, counted, kind_of, place, span, turns_left_out, without_turns

WAYS = {
    "simulated": (
        "**Simulated.** Every rank is a fiber with a clock of virtual time. A message takes the latencies of its path"
        " plus its bytes over the smallest bandwidth on it, and holds each port for its bytes over that port's"
        " bandwidth; arithmetic takes the larger of FLOP over rate and bytes over memory bandwidth, plus a launch. The"
        " numbers come from machine files, whose values have their sources beside them. Two runs give identical"
        " results: a row has no interval, unless its samples are different steps."
    ),
    "measured": (
        "**Measured.** By the wall clock of the computer that ran it. Ranks start behind a barrier and the slowest one"
        " counts; the first runs warm up and are dropped; contenders take turns within one run, so that a disturbance"
        " meets all of them. A value is the median of n samples; its interval is of order statistics at 95 %, and below"
        " 6 samples their range."
    ),
    "emulated": (
        "**Emulated.** Real processes do real arithmetic and exchange real messages, and each then sleeps until the"
        " modelled time of its operation or transfer has passed, longer by a factor that is divided out again. Overlap,"
        " bubbles and waiting are therefore by wall clock; bandwidths are the machine file's. Medians and intervals as"
        " for what is measured."
    ),
    "replayed": (
        "**Replayed.** A recorded run, played again from its trace without one of its costs; every dependency is kept."
    ),
    "calculated": "**Calculated.** By formula; nothing ran.",
    REPORTED: (
        "**Reported by you.** These rows stand as in their files, or are computed from them: no command of Lockstep"
        " wrote them, and how they were measured, and what their intervals hold, is not known here. Columns that say"
        " the same twice (a rate and a time, a speedup, an efficiency) were compared."
    ),
}


def ways(all_results):
    """Of each way that numbers came about, what ran."""
    lines = []
    for way, words in WAYS.items():
        rows = [(results, row) for results in all_results for row in results.rows if kind_of(row) == way]
        if not rows:
            continue
        lines += [words, ""]
        samples = [row["samples"] for _, row in rows if row.get("samples")]
        machines = sorted({str(row["machine"]) for _, row in rows if row.get("machine") not in (None, "", "host")})
        backends = sorted({str(row["backend"]) for _, row in rows if row.get("backend")})
        facts = [counted(len(rows), "row"), f"from {counted(len({results.name for results, _ in rows}), 'file')}"]
        if way not in ("calculated", REPORTED) and backends:
            facts.append(f"backend {', '.join(backends)}")
        ranks = [row["ranks"] for _, row in rows if isinstance(row.get("ranks"), int)]
        if ranks:
            facts.append(f"{span(ranks)} ranks")
        if way in ("measured", "emulated") and samples:
            facts.append(f"n = {span(samples)}")
        without = len(without_turns([row for _, row in rows]))
        if way in ("measured", "emulated") and (left := turns_left_out([row for _, row in rows])):
            facts.append(
                f"{counted(without, 'row')} {'is' if without == 1 else 'are'} without {left} turns, in which"
                " probes took over 5 % more or less than in the calibration, while at least 5 others did not"
            )
        if way == "emulated":
            facts.append(
                f"slept {span([row['emulate_scale'] for _, row in rows if row.get('emulate_scale')])} times as long as"
                " modelled"
            )
        if machines and way not in ("measured", REPORTED):
            facts.append(f"machine files {', '.join(machines)}")
        verified = [row["verified"] for _, row in rows if isinstance(row.get("verified"), bool)]
        if any(verified) and way != REPORTED:
            rest = (
                ""
                if all(verified)
                else (
                    ", the others not: those of arithmetic alone, of prices without numbers, and of commands that"
                    " compare elsewhere"
                )
            )
            facts.append(
                f"{sum(verified)} of {len(verified)} rows were compared with the exact result before timing{rest}"
            )
        lines += ["; ".join(facts) + ".", ""]
    return lines


FITTED = ("message", "copy", "product")  # what ./lab calibrate fits a machine file to


LAWS = (
    "Speedup is the rate, or T(1)/T(p) (times p for weak scaling), over that of the fewest ranks, and efficiency is"
    " that over p. An interval of a speedup holds the ends of both rows. Amdahl’s serial fraction is fitted to one"
    " time for each number of ranks by least squares of relative errors, Gustafson’s to p − S(p). Karp–Flatt is (1/S −"
    " 1/p) / (1 − 1/p)."
)
INTERVALS = (
    "The interval of a fit is Student’s t at 95 %, of how far the points lie from the law: it says nothing of how well"
    " they were measured, and nothing where the law is the wrong one."
)


def laws(all_results):
    fits = [fit for r in all_results for of_model in r.fits.values() for fit in of_model]
    said = [
        f"- {r.name}{f', {model}' if model else ''}: {fit.sentence()}"
        for r in all_results
        for model, of_model in r.fits.items()
        for fit in of_model
    ]
    intervals = [INTERVALS, ""] if any(fit.low is not None for fit in fits) else []
    return ["## Laws", "", LAWS, "", *intervals, *said, ""] if said else []


def predictions(all_results):
    rows = [
        row for results in all_results for row in results.rows if row.get("predicted_seconds") and row.get("seconds")
    ]
    is_fitted = lambda row: "residual" in row and row.get("kind") in FITTED
    fitted, rows = [row for row in rows if is_fitted(row)], [row for row in rows if not is_fitted(row)]
    if not rows and not fitted:
        return []
    own = sorted(
        {
            (c["alpha_seconds"], c["beta_seconds_per_byte"])
            for c in (results.context for results in all_results)
            if "alpha_seconds" in c and "beta_seconds_per_byte" in c
        }
    )
    lines = [
        "## Predictions",
        "",
        (
            f"{counted(len(rows), 'row')} carry a prediction beside the time. It comes from formulas and a machine file"
            " and is never fitted on what it predicts."
        ),
    ]
    if fitted:
        lines.append(
            f"Not among them: {counted(len(fitted), 'row')} of ./lab calibrate, the messages, copies and square"
            " products that its machine file was fitted to."
        )
    if own:
        values = "; ".join(f"α = {1e6 * alpha:.3g} µs, 1/β = {1e-9 / beta:.3g} GB/s" for alpha, beta in own if beta)
        lines.append(
            "Where no machine file was named, α and β were measured by a ping-pong and an addition in the same run:"
            f" {values}."
        )
    return [*lines, ""]


def efficiencies(all_results):
    rows = [row for results in all_results for row in results.rows if "efficiency" in row and "fits_cores" in row]
    refused = sum(row["efficiency"] is None and not row["fits_cores"] for row in rows)
    if not rows:
        return []
    return [
        "## Speedup and efficiency",
        "",
        (
            "Speedup is T(1)/T(p), times p for weak scaling, and efficiency is that over p. T(1) is a serial program"
            " of the same run, without anything parallel in it. An efficiency is refused where ranks exceed the usable"
            f" cores: {refused} of {counted(len(rows), 'row')} here. Usable cores are those of the affinity mask, two"
            " hardware threads of one core counted once, or the cgroup's quota where it is less."
        ),
        "",
    ]


def code(words):
    return f"`{words.replace('|', chr(92) + '|')}`" if words else ""


def methods(all_results, skipped=()):
    """The text of methods.md for these Results."""
    lines = [
        "# How this was measured",
        "",
        "Generated from the results themselves: what is not said here did not run.",
        "",
        "## Where",
        "",
    ]
    places, ours = {}, [results for results in all_results if not results.reported()]
    for results in all_results:
        places.setdefault(place(results.context), []).append(results)
    for where, of_place in places.items():
        dates = sorted({str(r.context["date"]) for r in of_place if r.context.get("date")})
        between = f", {dates[0]} to {dates[-1]}" if len(dates) > 1 else "".join(f", {date}" for date in dates)
        lines.append(f"- {where}; {counted(len(of_place), 'file')}{between}")
    lines += [
        "",
        "A curve never mixes places, nor simulated numbers with measured ones.",
        "",
        "## How numbers came about",
        "",
        *ways(all_results),
        *predictions(ours),
        *efficiencies(ours),
        *laws(all_results),
        "## Files",
        "",
        "| file | command | date | commit |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {r.name} | {code(r.context.get('command_line')) or r.context.get('command') or '–'} |"
        f" {r.context.get('date', '–')} | {r.context.get('commit', '–')} |"
        for r in all_results
    ]
    remarks = [f"- {r.name}: {remark}." for r in all_results for remark in r.remarks]
    lines += ["", "Taken for granted:", "", *remarks] if remarks else []
    if skipped:
        lines += ["", "Left out:", ""] + [f"- {name}: it {why}" for name, why in skipped]
    return "\n".join(lines) + "\n"
