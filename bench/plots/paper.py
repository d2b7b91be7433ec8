"""What a text about the results can include: for each figure its caption and its table, in LaTeX. Standard library only."""

import html
import re
from dataclasses import dataclass

from html_parts import cell

SPECIAL = {"\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
           "×": r"$\times$", "·": r"$\cdot$", "−": r"$-$", "µ": r"$\mu$", "α": r"$\alpha$", "β": r"$\beta$", "γ": r"$\gamma$", "Ψ": r"$\Psi$", "≥": r"$\ge$", "≤": r"$\le$", "→": r"$\to$",
           "…": r"\dots{}", "–": "--", "’": "'", "“": "``", "”": "''", "−": r"$-$", "²": r"$^2$", "⁻": r"$^-$", "¹": r"$^1$", "⁶": r"$^6$", "⁷": r"$^7$", "⁹": r"$^9$", "∞": r"$\infty$"}
LONGEST = 60  # rows of a table


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
    return html.unescape(re.sub(r"<[^>]*>", "", text)).replace("\u202f", " ").strip()


def latex(text):
    return "".join(SPECIAL.get(letter, letter) for letter in text)


def tabular(rows, columns):
    """A LaTeX tabular of a table of the page, for booktabs."""
    cells = [[plain(str(cell(row, column))) for column in columns.values()] for row in rows[:LONGEST]]
    sides = ["r" if all(re.fullmatch(r"[-+−–\d.,()% ]*( ?[a-zA-Zµ/]{1,5})?|–|yes", line[i]) for line in cells) else "l" for i in range(len(columns))]
    head = " & ".join(latex(name.strip()) for name in columns)
    body = "\n".join("  " + " & ".join(map(latex, line)) + r" \\" for line in cells)
    more = f"% {len(rows) - LONGEST} more rows in the JSON file\n" if len(rows) > LONGEST else ""
    return f"\\begin{{tabular}}{{{''.join(sides)}}}\n  \\toprule\n  {head} \\\\\n  \\midrule\n{body}\n  \\bottomrule\n\\end{{tabular}}\n{more}"


def caption(entry):
    text = plain(entry.caption)
    return latex(text) + "".join(f" {{\\footnotesize {latex(line)}}}" for line in map(plain, entry.provenance))


def write_paper(folder, entries):
    """folder/NAME.tex, a table for each figure; folder/figures.tex, which includes figures with their captions."""
    folder.mkdir(parents=True, exist_ok=True)
    blocks = ["% Needs graphicx and booktabs. NAME_column.pdf is 3.3 inches wide, NAME_page.pdf 7; NAME.tex is the table.\n"]
    for entry in entries:
        if entry.rows and entry.columns:
            (folder / f"{entry.name}.tex").write_text(tabular(entry.rows, entry.columns), encoding="utf-8")
        if (folder / f"{entry.name}_column.pdf").exists():
            blocks.append(f"\\begin{{figure}}\n  \\centering\n  \\includegraphics{{{entry.name}_column.pdf}}\n  \\caption{{{caption(entry)}}}\n  \\label{{fig:{entry.name}}}\n\\end{{figure}}\n")
    (folder / "figures.tex").write_text("\n".join(blocks), encoding="utf-8")


def write_captions(folder, entries):
    """folder/captions.md: a caption for each slide."""
    folder.mkdir(parents=True, exist_ok=True)
    shown = [e for e in entries if (folder / f"{e.name}.png").exists()]
    (folder / "captions.md").write_text("".join(f"## {e.name}\n\n{plain(e.caption)}\n\n" + "".join(f"*{plain(line)}*\n\n" for line in e.provenance) for e in shown), encoding="utf-8")
