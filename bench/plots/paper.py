"""What a text about the results can include: for each figure its caption and its table, in LaTeX. Standard library
only."""

import html
import re
import unicodedata
from dataclasses import dataclass

from html_parts import cell
from sources import REPORTED

SPECIAL = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    "|": r"$|$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "−": r"$-$",
    "µ": r"$\mu$",
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "γ": r"$\gamma$",
    "Ψ": r"$\Psi$",
    "≥": r"$\ge$",
    "≤": r"$\le$",
    "→": r"$\to$",
    "√": r"$\surd$",
    "∞": r"$\infty$",
    "…": r"\dots{}",
    "–": "--",
    "—": "---",
    "’": "'",
    "“": "``",
    "”": "''",
    "\u202f": "~",
    "\u00a0": "~",
}
LONGEST = 45  # rows of a table: what a page holds


@dataclass
class Entry:
    """A figure of the page."""

    name: str
    caption: str  # HTML
    provenance: list
    rows: list
    columns: dict


def plain(text):
    """HTML without its marks."""
    return html.unescape(re.sub(r"<[^>]*>", "", text)).strip()


def letter(sign):
    """One letter for LaTeX: accents as they are, raised digits raised, what nobody foresaw as a question mark."""
    if sign in SPECIAL or sign.isascii() or sign.isalpha() and unicodedata.name(sign).startswith("LATIN"):
        return SPECIAL.get(sign, sign)
    raised = unicodedata.decomposition(sign).startswith("<super>")
    return f"$^{{{unicodedata.normalize('NFKC', sign).replace('−', '-')}}}$" if raised else "?"


def latex(text):
    return "".join(map(letter, text))


def tabular(rows, columns):
    """A LaTeX tabular of a table of the page, for booktabs."""
    cells = [[plain(str(cell(row, column))) for column in columns.values()] for row in rows[:LONGEST]]
    sides = [
        (
            "r"
            if all(re.fullmatch(r"([-+−–\d.,()% ]|e[-+]\d)*( ?[a-zA-Zµ/]{1,5})?|–|yes", line[i]) for line in cells)
            else "l"
        )
        for i in range(len(columns))
    ]
    head = " & ".join(latex(name.strip()) for name in columns)
    body = "\n".join("  " + " & ".join(map(latex, line)) + r" \\" for line in cells)
    return (
        f"\\begin{{tabular}}{{{''.join(sides)}}}\n  \\toprule\n  {head} \\\\\n  \\midrule\n{body}\n "
        " \\bottomrule\n\\end{tabular}\n"
    )


def caption(entry):
    """What the figure shows, and how its numbers came about; from where, methods.md says."""
    how = [line.partition(" · ")[0] for line in map(plain, entry.provenance)]
    how = [line for line in how if line != REPORTED]
    return latex(plain(entry.caption)) + "".join(f" {{\\footnotesize {latex(line)}.}}" for line in dict.fromkeys(how))


def places(entry):
    return "".join(f"% {plain(line)}\n" for line in entry.provenance)


def fitted(what, width):
    """Made smaller where it is wider than `width`."""
    return f"\\resizebox{{\\ifdim\\width>{width}{width}\\else\\width\\fi}}{{!}}{{{what}}}"


def figure_block(entry):
    drawing = fitted(f"\\includegraphics{{{entry.name}_\\lockstepwidth.pdf}}", "\\linewidth")
    return (
        f"{places(entry)}\\begin{{figure}}\n  \\centering\n  {drawing}\n  \\caption{{{caption(entry)}}}\n"
        f"  \\label{{fig:{entry.name}}}\n\\end{{figure}}\n"
    )


def table_block(entry):
    more = f" The first {LONGEST} of {len(entry.rows)} rows." if len(entry.rows) > LONGEST else ""
    table = fitted(f"\\input{{{entry.name}}}", "\\textwidth")
    return (
        "\\begin{table*}\n  \\centering\\footnotesize\n  \\caption{The numbers of"
        f" figure~\\ref{{fig:{entry.name}}}.{more}}}\n  {table}\n\\end{{table*}}\n"
    )


def write_paper(folder, entries):
    """folder/NAME.tex, a table for each figure; folder/figures.tex and tables.tex, which include them with their
    captions."""
    folder.mkdir(parents=True, exist_ok=True)
    figures = [
        "% Needs graphicx. Of figures 3.3 inches wide; for those of 7 inches \\newcommand{\\lockstepwidth}{page}"
        " before.\n\\providecommand{\\lockstepwidth}{column}\n"
    ]
    tables = ["% Needs graphicx and booktabs. Tables wider than the page are made smaller.\n"]
    for entry in entries:
        drawn = (folder / f"{entry.name}_column.pdf").exists()
        if drawn:
            figures.append(figure_block(entry))
        if entry.rows and entry.columns:
            (folder / f"{entry.name}.tex").write_text(tabular(entry.rows, entry.columns), encoding="utf-8")
            if drawn:
                tables.append(table_block(entry))
    for name, blocks in (("figures", figures), ("tables", tables)):
        flushed = [
            block + ("\\clearpage\n" if i % 8 == 0 else "") for i, block in enumerate(blocks[1:], 1)
        ]  # LaTeX holds no more than 18 floats
        (folder / f"{name}.tex").write_text("\n".join([blocks[0], *flushed]), encoding="utf-8")


def write_captions(folder, entries):
    """folder/captions.md: a caption for each slide."""
    folder.mkdir(parents=True, exist_ok=True)
    shown = [e for e in entries if (folder / f"{e.name}.png").exists()]
    (folder / "captions.md").write_text(
        "".join(
            f"## {e.name}\n\n{plain(e.caption)}\n\n" + "".join(f"*{plain(line)}*\n\n" for line in e.provenance)
            for e in shown
        ),
        encoding="utf-8",
    )
