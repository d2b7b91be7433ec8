"""Week 21's first figures: who waits for whom, who has heard from whom, and which ports are busy."""

from figures import suite
from figures.axes import ms, spread, time_axis
from figures.canvas import Canvas


def blocked(programs):
    """Runs programs of ("send" or "receive", peer), one step after the other, where a send waits for its receive.
    Returns how many steps each rank has finished when nothing more happens."""
    done = [0] * len(programs)
    moved = True
    while moved:
        moved = False
        for rank, program in enumerate(programs):
            if done[rank] == len(program) or program[done[rank]][0] != "send":
                continue
            peer = program[done[rank]][1]
            if done[peer] < len(programs[peer]) and programs[peer][done[peer]] == ("receive", rank):
                done[rank], done[peer], moved = done[rank] + 1, done[peer] + 1, True
    return done


def blocked_lanes(canvas, y, programs):
    """Where each rank stops, and what it never reaches."""
    finished = blocked(programs)
    for rank, program in enumerate(programs):
        top = y + 62 * rank
        canvas.text(16, top + 20, f"rank {rank}", "head")
        step, peer = program[finished[rank]]
        canvas.box(90, top, 110, 30, "comm", f"{step} to {peer}")
        canvas.box(200, top, 250, 30, "wait", "", radius=0)
        canvas.text(325, top + 46, f"waits for rank {peer} to receive", "mid small soft")
        after, source = program[finished[rank] + 1]
        canvas.box(490, top, 140, 30, "away", f"{after} from {source}")
        canvas.line(450, top - 4, 450, top + 34, "limit")
    canvas.text(640, y + 20, "never", "small stop")
    canvas.text(640, y + 82, "reached", "small stop")


def exchange_lanes(canvas, y, trace):
    """Both ranks' exchange, as the simulator ran it."""
    for rank in range(2):
        top = y + 78 * rank
        begin, end, event = trace.spans(rank, "main: transfers", "transfer")[0]
        canvas.text(16, top + 28, f"rank {rank}", "head")
        for k, (way, peer, *_) in enumerate(sorted(event["args"]["messages"], reverse=True)):
            canvas.box(90, top + 24 * k, 360, 24, "comm", f"{way} {'to' if way == 'send' else 'from'} {peer}", radius=0)
        canvas.text(466, top + 28, f"done after {(end - begin) * 1e6:.3g} µs")
    canvas.arrow(170, y + 12, 170, y + 102)
    canvas.arrow(370, y + 90, 370, y + 48)


def deadlock():
    trace = suite.check_trace("21.0d", "PartnersSwapAtAnySize", 2, 4096)
    programs = [[("send", 1), ("receive", 1)], [("send", 0), ("receive", 0)]]
    c = Canvas(
        "deadlock",
        (720, 408),
        "Two ranks that both send first wait for each other forever",
        "Two swim lanes. Above, each rank sends to the other before it receives: a send of an array too "
        "large to be buffered waits for its receive, which neither rank reaches. Below, both halves of each "
        "rank's exchange begin together, and both ranks finish.",
    )
    c.text(16, 62, "First send, then receive, 16 KiB each: deadlock", "head")
    blocked_lanes(c, 76, programs)
    c.text(16, 218, "Both halves in one exchange: they begin together", "head")
    exchange_lanes(c, 232, trace)
    c.arrow(90, 378, 450, 378, "rule", "tip-soft")
    c.text(460, 382, "time", "small soft")
    return c


def heard(ranks):
    """Dissemination: after each round, whom every rank has heard from."""
    known, rounds, distance = [{r} for r in range(ranks)], [], 1
    while distance < ranks:
        known = [known[r] | known[r - distance] for r in range(ranks)]
        rounds.append((distance, known))
        distance *= 2
    return rounds


def heard_block(canvas, x, y, before, now):
    """For every rank one row, with a cell for each rank that it may have heard from."""
    ranks = len(now)
    for other in range(ranks):
        canvas.text(x + 15 * other + 7.5, y - 6, other, "mid small soft")
    for rank in range(ranks):
        for other in range(ranks):
            kind = "cell" if other not in now[rank] else "memory" if other in before[rank] else "comm"
            canvas.rect(x + 15 * other, y + 28 * rank, 13, 22, kind)


def barrier():
    ranks, rounds = 8, heard(8)
    c = Canvas(
        "barrier",
        (860, 380),
        f"After {len(rounds)} rounds each of {ranks} ranks has heard from all",
        f"A barrier by dissemination on {ranks} ranks. "
        + " ".join(
            f"In round {k} each rank sends to the one {d} further on, and has then heard from {len(known[0])}."
            for k, (d, known) in enumerate(rounds)
        ),
    )
    before, y, x = [{r} for r in range(ranks)], 110, 74
    c.text(x, 74, "at first: 1 rank", "small bold")
    heard_block(c, x, y, before, before)
    for rank in range(ranks):
        c.text(16, y + 28 * rank + 16, f"rank {rank}")
    for k, (distance, known) in enumerate(rounds):
        for rank in range(ranks):
            c.arrow(x + 124, y + 28 * rank + 11, x + 208, y + 28 * ((rank + distance) % ranks) + 11, "go thin")
        x += 214
        c.text(x, 56, f"round {k}", "small bold")
        c.text(x, 74, f"distance {distance}: {len(known[0])} ranks", "small bold")
        heard_block(c, x, y, before, known)
        before = known
    c.legend(16, 362, [("memory", "known before"), ("comm", "new in this round"), ("cell", "not heard from yet")])
    return c


def port_times(trace, ranks):
    """When each rank's ports are busy: {(rank, "in" or "out"): [(from, until)]}."""
    busy = {(r, way): [] for r in range(ranks) for way in ("out", "in")}
    for rank in range(ranks):
        for _, end, event in trace.spans(rank, "main: transfers", "transfer"):
            for way, peer, _, latency, seconds, *_ in event["args"]["messages"]:
                if way == "receive":
                    busy[rank, "in"].append((end - seconds + latency, end))
                    busy[peer, "out"].append((end - seconds, end - latency))
    return busy


def port_rows(canvas, axis, y, busy, ranks):
    for rank in range(ranks):
        top = y + 40 * rank
        canvas.text(16, top + 22, f"rank {rank}")
        for k, way in enumerate(("out", "in")):
            canvas.text(102, top + 18 * k + 12, way, "end small soft")
            canvas.line(axis[0], top + 18 * k + 8, axis[0] + 590, top + 18 * k + 8)
            for begin, end in busy[rank, way]:
                canvas.rect(spread(axis, begin), top + 18 * k, axis[1] * (end - begin), 15, "comm")


def ports():
    ranks, names = 4, ["naive", "ring"]
    _, traces = suite.bench(
        "all_reduce",
        names,
        "--machine",
        "uniform",
        "--ranks",
        str(ranks),
        "--bytes",
        "1MB",
        "--algorithm",
        ",".join(names),
        "--phantom",
    )
    times = [port_times(t, ranks) for t in traces]
    ends = [max(end for spans in busy.values() for _, end in spans) for busy in times]
    c = Canvas(
        "ports",
        (720, 494),
        "Naive keeps rank 0's ports busy, the ring keeps all ports busy",
        "All-reduce of 1 MB on four ranks with links of 1 GB/s: when each rank's port is busy sending and "
        "receiving. Naive, every array passes through rank 0, one after the other, and it takes "
        f"{ms(ends[0])}. In the ring all ports send a quarter of the array in each of six steps, and it "
        f"takes {ms(ends[1])}.",
    )
    axis = (110, 590 / ends[0])
    for busy, end, y, words in zip(times, ends, (62, 256), ("Naive, through rank 0", "Ring")):
        c.text(16, y, f"{words}: {ms(end)}", "head")
        port_rows(c, axis, y + 12, busy, ranks)
    time_axis(c, axis, 432, ends[0], 1)
    c.legend(16, 480, [("comm", "port busy: out sends, in receives; 1 MB on 4 ranks, links of 1 GB/s each way")])
    return c
