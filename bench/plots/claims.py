"""What the measurements say about claims of the course, and the ledger of all claims. Standard library only."""

import html
import re

from html_parts import note, section, table
from row_words import MACHINE_NAMES


def overhead(results):
    """'20 to 40 % over PCIe, 5 to 10 % over NVLink at two GPUs': for which steps that holds."""
    row = results["rows"][0]
    rate, ranks = row["flop_per_second"], row["ranks"]
    columns = {"claim": "claim", "link": "link", "holds for tokens per rank and step": "range"}
    shown = []
    for name, link, low, high in (
        ("20 to 40 % over PCIe", 25e9, 0.2, 0.4),
        ("20 to 40 % over PCIe", 12.5e9, 0.2, 0.4),
        ("5 to 10 % over NVLink", 235e9, 0.05, 0.1),
    ):
        # The step gets longer by f = c / w, with c = 2 (p−1)/p · 4 bytes / link and w = 6 tokens / rate, a parameter
        # each
        c = 2 * (ranks - 1) / ranks * 4 / link
        tokens = [c / f * rate / 6 for f in (high, low)]
        shown.append({"claim": name, "link": f"{link / 1e9:g} GB/s", "range": f"{tokens[0]:,.0f} to {tokens[1]:,.0f}"})
    return note(
        f"The course's overheads at two GPUs hold for a range of steps, not for a link: at {rate / 1e12:g} TFLOP/s,"
        " fp32 gradients, no overlap and any model size:"
    ) + table(shown, columns)


def amdahl(machines):
    rows = []
    for machine, results in machines.items():
        c, name = results["context"], MACHINE_NAMES.get(machine, machine)
        fitted, high, low = (
            c.get(field)
            for field in ("amdahl_parallel_fraction", "amdahl_serial_fraction_high", "amdahl_serial_fraction_low")
        )
        rows.append(
            {
                "machine": name,
                "fit": "none" if fitted is None else f"{fitted:.4f}",
                "interval": "–" if high is None or low is None else f"{1 - high:.3f} to {1 - low:.3f}",
                "course": "0.99" if "NVLink" in name else "0.9" if "PCIe" in name else "–",
            }
        )
    return note(
        "Amdahl's parallel fraction p, fitted to the simulated strong-scaling curves (exercise 21.10). A wide interval,"
        " or a fit that is not a fraction (none), means that Amdahl is the wrong law: communication is not a fixed"
        " serial part; it grows with p, and computation hides it until there is too little of that."
    ) + table(rows, {"machine": "machine", "fitted p": "fit", "95 % interval": "interval", "the course's p": "course"})


def ledger(path):
    """The tables of docs/learn/claims.md, each under its heading."""
    if not path.exists():
        return ""
    parts, rows = [], []

    def close():
        if len(rows) > 2:
            head = "".join(f"<th>{c}</th>" for c in rows[0])
            body = "".join("<tr>" + "".join(f"<td>{c}</td>" for c in row) + "</tr>" for row in rows[2:])
            parts.append(
                '<div class="scroll" tabindex="0"><table'
                f' class="text"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
            )
        rows.clear()

    for line in map(str.strip, path.read_text().splitlines()):
        if line.startswith("|"):
            rows.append([marked(c.strip()) for c in re.split(r"(?<!\\)\|", line[1:].rstrip("|"))])
            continue
        close()
        if line.startswith("## "):
            parts.append(f"<h3>{marked(line[3:])}</h3>")
    close()
    return section("claims", "Claims of the course, checked", parts)


def marked(text):
    """Inline Markdown: code, bold, links."""
    text = html.escape(text.replace("\\|", "|"))
    text = re.sub(r"`([^`]*)`", r"<code>\1</code>", text)
    text = re.sub(r"\*\*([^*]*)\*\*", r"<b>\1</b>", text)
    text = re.sub(r"(?<!\w)\*([^*\s][^*]*)\*", r"<i>\1</i>", text)
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
