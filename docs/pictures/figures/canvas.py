"""An SVG picture in the course's look. A colour has one meaning in every figure, and none is told by colour alone: what
moves is dotted, what waits is hatched, what is not here has a dashed border, and boxes say what they are."""

import math
from xml.sax.saxutils import escape

LIGHT = {
    "paper": "#ffffff",
    "ink": "#1c2430",
    "soft": "#55606e",
    "line": "#c8ced6",
    "cell": "#f2f4f7",
    "edge": "#8b96a3",
    "compute": "#0072b2",
    "compute-fill": "#d3e7f6",
    "second-fill": "#93c6ea",
    "comm": "#a86f00",
    "comm-fill": "#ffedc2",
    "comm-dot": "#f0d08a",
    "wait": "#7d8794",
    "wait-fill": "#f4f4f4",
    "wait-dash": "#b9c0c8",
    "memory": "#00795a",
    "memory-fill": "#cdeee2",
    "memory-dot": "#6fc3a8",
    "stop": "#b3261e",
}
DARK = {
    "paper": "#0d1117",
    "ink": "#e6edf3",
    "soft": "#a3afbc",
    "line": "#3d4754",
    "cell": "#1c232d",
    "edge": "#657180",
    "compute": "#5bb0e6",
    "compute-fill": "#12395a",
    "second-fill": "#235f91",
    "comm": "#f0b13c",
    "comm-fill": "#4a3508",
    "comm-dot": "#6e500f",
    "wait": "#8994a1",
    "wait-fill": "#1c232d",
    "wait-dash": "#525d69",
    "memory": "#35c39a",
    "memory-fill": "#0c4434",
    "memory-dot": "#1a6b54",
    "stop": "#ff8a80",
}

# Of a box: what it stands for, its fill and its border. Patterns tell kinds of memory apart, lightness kinds of work.
KINDS = {
    "compute": ("compute-fill", "compute"),
    "second": ("second-fill", "compute"),
    "third": ("paper", "compute"),
    "comm": ("comm-fill", "comm"),
    "wait": ("wait-fill", "wait"),
    "memory": ("memory-fill", "memory"),
    "second-memory": ("memory-fill", "memory"),
    "third-memory": ("memory-fill", "memory"),
    "cell": ("cell", "edge"),
    "paper": ("paper", "edge"),
}

# Over a fill: dots for what moves, slanted lines for what waits, others for kinds of memory.
DOT, SLANT = '<circle cx="{0}" cy="{0}" r=".9" class="comm-dot"/>', "M0 0L6 6M-1 5L1 7M5 -1L7 1"
PATTERNS = {
    "comm": DOT.format(1.5) + DOT.format(4.5),
    "wait": '<path d="M0 6L6 0M-1 1L1 -1M5 7L7 5" class="wait-dash"/>',
    "second-memory": f'<path d="{SLANT}" class="memory-dash"/>',
    "third-memory": f'<path d="{SLANT}M0 6L6 0M-1 1L1 -1M5 7L7 5" class="memory-dash"/>',
}


def variables(colours):
    return "".join(f"--{name}:{colour};" for name, colour in colours.items())


BOXES = "".join(f".{kind}{{fill:var(--{fill});stroke:var(--{border})}}\n" for kind, (fill, border) in KINDS.items())
STYLE = f"""svg{{{variables(LIGHT)}}}
@media (prefers-color-scheme:dark){{svg{{{variables(DARK)}}}}}
text{{font-family:Helvetica,Arial,sans-serif;font-size:14px;fill:var(--ink)}}
.title{{font-size:17px;font-weight:600}}.head{{font-weight:600}}.bold{{font-weight:700}}
.soft{{fill:var(--soft)}}.small{{font-size:12.5px}}.stop{{fill:var(--stop);font-weight:700}}
.halo{{paint-order:stroke;stroke:var(--paper);stroke-width:5px}}
.mid{{text-anchor:middle}}.end{{text-anchor:end}}
.paper-fill{{fill:var(--paper)}}.comm-dot{{fill:var(--comm-dot)}}
.wait-dash{{stroke:var(--wait-dash);stroke-width:1.5}}
.memory-dash{{stroke:var(--memory-dot)}}
{BOXES}.away{{fill:none;stroke:var(--soft);stroke-dasharray:4 3}}.over{{stroke:none}}
.final{{stroke-width:3}}.final-ink{{stroke:var(--ink);stroke-width:2}}
.rule{{stroke:var(--line);fill:none}}.ink{{stroke:var(--ink);fill:none;stroke-width:1.5}}
.faint{{stroke:var(--soft);fill:none;stroke-opacity:.6}}
.go{{stroke:var(--comm);fill:none;stroke-width:2}}.thin{{stroke-width:1.3}}
.tip{{fill:var(--comm)}}.tip-soft{{fill:var(--soft)}}
.work{{stroke:var(--compute);fill:none;stroke-width:2.5}}.hold{{stroke:var(--memory);fill:none;stroke-width:2.5}}
.limit{{stroke:var(--stop);fill:none;stroke-width:2;stroke-dasharray:6 4}}.tip-stop{{fill:var(--stop)}}
.dash{{stroke-dasharray:6 4}}.dot{{stroke-dasharray:2 3}}.thick{{stroke-width:4}}
"""


def number(value):
    """A coordinate: at most one decimal, so that files stay small and equal."""
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


class Canvas:
    def __init__(self, name, size, title, about):
        """`title` is the figure's message, a sentence, which is also drawn; `about` is for those who cannot see it."""
        self.name, self.title, self.about = name, title, about
        self.width, self.height = size
        self.parts = []
        self.text(16, 28, title, "title")

    def add(self, part):
        self.parts.append(part)

    def text(self, x, y, words, look=""):
        style = f' class="{look}"' if look else ""
        self.add(f'<text x="{number(x)}" y="{number(y)}"{style}>{escape(str(words))}</text>')

    def rect(self, x, y, w, h, kind, radius=0):
        at = f'x="{number(x)}" y="{number(y)}" width="{number(w)}" height="{number(h)}"'
        corner = f' rx="{radius}"' if radius else ""
        self.add(f'<rect {at}{corner} class="{kind}"/>')
        pattern = kind.split()[0]
        if pattern in PATTERNS:
            self.add(f'<rect {at}{corner} class="over" fill="url(#{self.name}-{pattern})"/>')

    def region(self, points, kind):
        """A filled outline."""
        self.path(points, kind, closed=True)
        if kind in PATTERNS:
            d = "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points) + "Z"
            self.add(f'<path d="{d}" class="over" fill="url(#{self.name}-{kind})"/>')

    def box(self, x, y, w, h, kind, label="", look="", radius=3):
        """A box with its name in the middle."""
        self.rect(x, y, w, h, kind, radius)
        if label != "":
            self.text(x + w / 2, y + h / 2 + (4.5 if "small" in look else 5), label, f"mid {look}".strip())

    def line(self, x1, y1, x2, y2, look="rule"):
        self.add(f'<line x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}" class="{look}"/>')

    def path(self, points, look, closed=False):
        d = "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points) + ("Z" if closed else "")
        self.add(f'<path d="{d}" class="{look}"/>')

    def tip(self, x, y, dx, dy, look="tip"):
        """An arrow's head at (x, y), which came along (dx, dy)."""
        length = math.hypot(dx, dy)
        dx, dy = 8 * dx / length, 8 * dy / length
        self.path([(x, y), (x - dx - dy / 2, y - dy + dx / 2), (x - dx + dy / 2, y - dy - dx / 2)], look, closed=True)

    def arrow(self, x1, y1, x2, y2, look="go", tip="tip"):
        length = math.hypot(x2 - x1, y2 - y1)
        back = 6 / length
        self.line(x1, y1, x2 - back * (x2 - x1), y2 - back * (y2 - y1), look)
        self.tip(x2, y2, x2 - x1, y2 - y1, tip)

    def legend(self, x, y, entries, step=None):
        """Kinds of boxes and what they stand for, in a row."""
        for kind, words in entries:
            self.rect(x, y - 11, 22, 13, kind)
            self.text(x + 28, y, words, "small soft")
            x += step or 52 + 6.7 * len(words)

    def patterns(self):
        """Those that the figure uses."""
        return [
            f'<pattern id="{self.name}-{kind}" width="6" height="6" patternUnits="userSpaceOnUse">{shape}</pattern>'
            for kind, shape in PATTERNS.items()
            if any(f"url(#{self.name}-{kind})" in part for part in self.parts)
        ]

    def svg(self):
        size = f'width="{self.width}" height="{self.height}"'
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" {size} role="img" '
            f'aria-labelledby="{self.name}-title {self.name}-desc">'
        )
        lines = [
            head,
            f'<title id="{self.name}-title">{escape(self.title)}</title>',
            f'<desc id="{self.name}-desc">{escape(self.about)}</desc>',
            f"<style>\n{STYLE}</style>",
            f"<defs>{''.join(self.patterns())}</defs>",
            f'<rect {size} class="paper-fill"/>',
            *self.parts,
            "</svg>",
        ]
        return "\n".join(lines) + "\n"
