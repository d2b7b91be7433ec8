#!/usr/bin/env python3
"""A report's page as Markdown, which hosts of repositories show: python3 bench/plots/markdown.py REPORT OUT. Standard
library only.

REPORT is a folder with index.html and figures/. OUT gets README.md, the figures that it shows, and in tables/ the
numbers that the page folds away below them.
"""

import html.parser
import pathlib
import re
import sys

BLOCKS = {"p", "figcaption", "summary", "h1", "h2", "h3", "article"}


class Markdown(html.parser.HTMLParser):
    """Reads the page once; `lines` is what to write, `figures` the names of drawings it shows."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.lines, self.figures = [], []
        self.text, self.row, self.rows = "", None, None
        self.skipped = 0  # inside a drawing, a style or a script
        self.link = None

    def flush(self, before="", after=""):
        text = re.sub(r"\s+", " ", self.text).strip()
        self.text = ""
        if text:
            self.lines += [before + text + after, ""]

    def handle_starttag(self, tag, attributes):
        have = dict(attributes)
        if tag == "svg" and not self.skipped and "data-figure" in have:
            self.flush()
            self.figures.append(have["data-figure"])
            alt = have.get("aria-label", "").replace("[", "(").replace("]", ")")
            self.lines += [f"![{alt}](figures/{have['data-figure']}.svg)", ""]
        if self.skipped or tag in ("svg", "style", "script", "nav", "title", "button", "input"):
            self.skipped += tag != "input"
        elif tag in BLOCKS:
            self.flush()
        elif tag == "details":
            self.flush()
            self.lines += ["<details>"]
        elif tag == "table":
            self.rows = []
        elif tag == "tr":
            self.row = []
        elif tag in ("b", "strong"):
            self.text += "**"
        elif tag in ("i", "em"):
            self.text += "*"
        elif tag == "a":
            self.link = (len(self.text), have.get("href", ""))

    def handle_endtag(self, tag):
        if self.skipped:
            self.skipped -= 1
        elif tag in ("h1", "h2", "h3"):
            self.flush("#" * int(tag[1]) + " ")
        elif tag == "summary":
            self.flush("<summary>", "</summary>")
        elif tag in BLOCKS:
            self.flush()
        elif tag == "details":
            self.lines += ["</details>", ""]
        elif tag in ("td", "th"):
            self.row.append(re.sub(r"\s+", " ", self.text).strip().replace("|", "\\|"))
            self.text = ""
        elif tag == "tr":
            self.rows.append(self.row)
        elif tag == "table":
            self.end_table()
        elif tag in ("b", "strong"):
            self.text += "**"
        elif tag in ("i", "em"):
            self.text += "*"
        elif tag == "a" and self.link:
            self.end_link()

    def handle_data(self, data):
        if not self.skipped:
            self.text += data

    def end_link(self):
        """Only what is beside the page here, and the web, stays a link."""
        start, target = self.link
        self.link = None
        if target.startswith(("http", "methods.md", "figures/")) and not target.endswith((".pdf", ".png")):
            self.text = f"{self.text[:start]}[{self.text[start:]}]({target})"

    def end_table(self):
        head, *body = self.rows or [[]]
        if body:
            self.lines += ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
            self.lines += ["| " + " | ".join(row) + " |" for row in body] + [""]
        self.rows = None


FOLDED = re.compile(r"<details>\n<summary>(?P<what>.*?)</summary>\n(?P<table>.*?)\n</details>", re.S)
FIGURE = re.compile(r"!\[.*?\]\(figures/(.*?)\.svg\)")
TITLE = re.compile(r"^#+ (.*)$", re.M)


def apart(page):
    """The page with a link in the place of what it folds away, and that: names of files to their text."""
    tables = {}

    def link(folded):
        before = page[: folded.start()]
        figures, titles = FIGURE.findall(before), TITLE.findall(before)
        name = figures[-1] if figures else "table"
        while name in tables:
            name += "_more"
        tables[name] = f"# {titles[-1]}\n\n{folded['table'].strip()}\n"
        return f"[{folded['what']}](tables/{name}.md)"

    return FOLDED.sub(link, page), {f"{name}.md": text for name, text in tables.items()}


def small(svg):
    """The drawing with tenths of a point, and without indents and what no viewer shows."""
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.S)
    svg = re.sub(r"\n\s+", "\n", svg)
    return re.sub(r'\b(?:d|x|y)="[^"]*"', lambda place: re.sub(r"(\.\d)\d+", r"\1", place[0]), svg)


def main(report, out):
    page = Markdown()
    page.feed((report / "index.html").read_text())
    page.close()
    page.flush()
    (out / "figures").mkdir(parents=True, exist_ok=True)
    for name in dict.fromkeys(page.figures):
        (out / "figures" / f"{name}.svg").write_text(small((report / "figures" / f"{name}.svg").read_text()))
    text, tables = apart(re.sub(r"\n{3,}", "\n\n", "\n".join(page.lines)).strip() + "\n")
    (out / "README.md").write_text(text)
    (out / "tables").mkdir(exist_ok=True)
    for name, table in tables.items():
        (out / "tables" / name).write_text(table)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: markdown.py REPORT OUT")
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
