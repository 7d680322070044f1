"""A figure as plain data, and its two renderings by matplotlib: PNG and PDF files, and inline SVG for the page.

One style for all: colours that stay apart under each kind of colour blindness, each with a marker and a dash of its own, so that
a figure can be read in grey. In the SVG, colours are CSS variables (`--c0` .. `--c8`, text in `currentColor`): the page gives
them a light and a dark value.
"""

import hashlib
import io
import json
import re
import textwrap
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from utils.files import write_atomically

PALETTE = ("#2159c6", "#eb7100", "#0f995b", "#77455d", "#883700", "#3a97fb", "#562685", "#8192b0", "#1d1f24")
DARK_PALETTE = ("#6b81d9", "#c06014", "#4ceb91", "#a697aa", "#ffc429", "#99cdff", "#a249ff", "#a1775a", "#e8eaed")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
DASHES: tuple[Any, ...] = ("-", "-", "-", (0, (5, 1.5)), (0, (5, 1.5)), (0, (5, 1.5)), (0, (2, 1.2)), (0, (2, 1.2)), (0, (2, 1.2)))
INK = PALETTE[-1]
FORMATS = (".png", ".pdf")
PANEL = (3.4, 2.7)  # inches
ALONE = (5.2, 4.0)
STYLE: Any = {
    "axes.axisbelow": True,
    "axes.edgecolor": INK,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 9,
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "grid.alpha": 0.18,
    "grid.color": INK,
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "mammoth",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


@dataclass(frozen=True)
class Line:
    """A curve with its intervals. `place` picks colour, marker and dash; `n` is the number of seeds.

    A `level` has one value, drawn across the whole panel: a reference such as IID.
    """

    label: str
    place: int
    n: int
    values: tuple[float, ...]
    half_widths: tuple[float | None, ...]
    level: bool = False


@dataclass(frozen=True)
class Bars:
    """Bars of width one side by side from 0 on, in the first colour; those at `marked` in the second."""

    heights: tuple[float, ...]
    half_widths: tuple[float | None, ...]
    marked: tuple[int, ...] = ()


@dataclass(frozen=True)
class Point:
    """A mark at `at` = (x, y) with its interval in each direction; `place` and `n` as of a `Line`."""

    label: str
    place: int
    n: int
    at: tuple[float, float]
    half_widths: tuple[float | None, float | None]


@dataclass(frozen=True)
class Panel:
    """One pair of axes. `ticks`: (position, label) of the x axis (with points, matplotlib's); `rule`: those of an upright line."""

    title: str
    lines: tuple[Line, ...] = ()
    bars: Bars | None = None
    points: tuple[Point, ...] = ()
    ticks: tuple[tuple[float, str], ...] = ()
    rule: tuple[float, str] | None = None


@dataclass(frozen=True)
class Drawing:
    """A figure. `name` is good for a file; `caption`: what the page says instead of the title; `folded`: it shows it on demand.

    With bars the y axis, with points both axes follow their values; an interval much larger than these runs out of the panel.
    """

    name: str
    title: str
    x_label: str
    y_label: str
    panels: tuple[Panel, ...]
    log: bool = False
    caption: str = ""
    folded: bool = False

    @cached_property
    def digest(self) -> str:
        """A digest of all that the figure shows, kept inside its files."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:24]

    @cached_property
    def legend(self) -> tuple[tuple[int, str], ...]:
        """The places and labels of the lines and points in all panels, with how many seeds."""
        marks: list[Line | Point] = [line for panel in self.panels for line in panel.lines]
        marks += [point for panel in self.panels for point in panel.points]
        seeds: dict[tuple[int, str], list[int]] = {}
        for mark in sorted(marks, key=lambda mark: mark.place):
            seeds.setdefault((mark.place, mark.label), []).append(mark.n)
        return tuple((place, f"{label} (n = {_range(counts)})") for (place, label), counts in seeds.items())

    @cached_property
    def y_limits(self) -> tuple[float, float]:
        """What every panel's y axis spans."""
        if any(panel.points for panel in self.panels):
            return self._span(1)
        marks = [mark for panel in self.panels for mark in (*panel.lines, *((panel.bars,) if panel.bars else ()))]
        pairs = [pair for mark in marks for pair in zip(_heights(mark), mark.half_widths, strict=True)]
        if not pairs:
            return (0.7, 10) if self.log else (0, 1)
        values = [value for value, _ in pairs]
        high = max(value + (width or 0) for value, width in pairs)
        low = min(value - (width or 0) for value, width in pairs)
        if self.log:
            return 0.7, max(*values, 1) * 3
        if any(panel.bars for panel in self.panels):
            return max(low, 1.6 * min(0, *values)) * 1.08 if min(values) < 0 else 0, min(high, 1.6 * max(0, *values)) * 1.08 or 1
        return max(0, low - 4) // 10 * 10, min(102, high + 4)

    @cached_property
    def x_limits(self) -> tuple[float, float] | None:
        """What every panel's x axis spans where there are points; None where each panel follows what it shows."""
        return self._span(0) if any(panel.points for panel in self.panels) else None

    def _span(self, axis: int) -> tuple[float, float]:
        """Return what holds zero, the points and, up to a quarter of their spread beyond, their intervals on an axis (0: x)."""
        points = [point for panel in self.panels for point in panel.points]
        values = [0.0, *(point.at[axis] for point in points)]
        spread = max(values) - min(values) or 1.0
        beyond, margin = spread / 4, spread / 20
        widths = [(point.at[axis], point.half_widths[axis] or 0) for point in points]
        low, high = min(value - width for value, width in widths), max(value + width for value, width in widths)
        return max(min(*values, low), min(values) - beyond) - margin, min(max(*values, high), max(values) + beyond) + margin


def _range(counts: list[int]) -> str:
    return str(counts[0]) if len(set(counts)) == 1 else f"{min(counts)}–{max(counts)}"


def _heights(mark: Line | Bars) -> tuple[float, ...]:
    return mark.values if isinstance(mark, Line) else mark.heights


# -- files -------------------------------------------------------------------------------------------------------------------------


def files(path: Path) -> list[Path]:
    """Return the files that a figure at this path consists of: PNG, PDF, and the path's own format if it is another."""
    return [path.with_suffix(suffix) for suffix in dict.fromkeys((path.suffix.lower(), *FORMATS)) if suffix]


def write(drawing: Drawing, path: Path) -> Path:
    """Write a figure as PNG and PDF beside each other, each whole or not at all; returns `path`.

    Raises:
        ValueError: the path's own format is none that matplotlib writes.
        OSError: a file cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for file in files(path):
        write_atomically(file, render(drawing, file.suffix[1:]))
    return path


def is_current(drawing: Drawing, path: Path) -> bool:
    """Whether the files at this path are there and show just this; the digest in them is compared, not the pixels."""
    return all(file.is_file() and drawing.digest.encode() in file.read_bytes() for file in files(path))


def render(drawing: Drawing, kind: str) -> bytes:
    """Return a figure as a file's content; `kind`: png, pdf, svg or another that matplotlib writes."""
    import matplotlib
    from matplotlib.figure import Figure

    count = max(len(drawing.panels), 1)
    across = count if count <= 4 else 3
    down = -(-count // across)
    width = PANEL[0] * across if count > 1 else ALONE[0]
    height = PANEL[1] * down + 0.6 if count > 1 else ALONE[1]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained", dpi=200)
        axes = list(figure.subplots(down, across, squeeze=False).flat)
        for place, (axis, panel) in enumerate(zip(axes, drawing.panels, strict=False)):
            _draw(axis, drawing, panel, first=place % across == 0)
        for axis in axes[len(drawing.panels) :]:
            axis.set_axis_off()
        figure.suptitle(_plain(textwrap.fill(drawing.title, int(11 * width))), fontsize=10)
        if drawing.legend:
            _legend(figure, drawing, max(2, int(width / 1.7)))
        file = io.BytesIO()
        figure.savefig(file, format=kind, metadata=_metadata(kind, drawing.digest))
    return file.getvalue()


def _metadata(kind: str, digest: str) -> dict[str, Any]:
    """Return what goes into a file's head: the digest, and no date, so that the same figure gives the same file."""
    if kind == "png":
        return {"Description": digest, "Software": None}
    if kind == "pdf":
        return {"Subject": digest, "CreationDate": None, "Creator": None, "Producer": None}
    return {"Description": digest, "Date": None} if kind == "svg" else {}


def _legend(figure: Any, drawing: Drawing, across: int) -> None:
    from matplotlib.lines import Line2D

    look = _look if drawing.x_limits is None else _look_of_point
    handles = [Line2D([], [], **look(place)) for place, _ in drawing.legend]
    labels = [_plain(f" {label}") for _, label in drawing.legend]  # one that begins with _ would be left out
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), across), handlelength=3)


# -- panels ------------------------------------------------------------------------------------------------------------------------


def _look(place: int) -> dict[str, Any]:
    """Return how the curve at a place looks; after a round of colours the markers move on by one."""
    turn, colour = divmod(place, len(PALETTE))
    return {
        "color": PALETTE[colour],
        "linestyle": DASHES[colour],
        "marker": MARKERS[(colour + turn) % len(MARKERS)],
        "markersize": 4.5,
        "linewidth": 1.4,
    }


def _look_of_point(place: int) -> dict[str, Any]:
    return _look(place) | {"linestyle": "none", "markersize": 6}


def _plain(text: str) -> str:
    """Return a text in which matplotlib finds no formula."""
    return text.replace("$", r"\$")


def _draw(axis: Any, drawing: Drawing, panel: Panel, first: bool = True) -> None:
    if drawing.log:
        axis.set_yscale("log")
    axis.set_ylim(*drawing.y_limits)
    for line in panel.lines:
        _draw_line(axis, line)
    if panel.bars:
        _draw_bars(axis, panel.bars, drawing.log)
    if drawing.x_limits:
        _draw_points(axis, panel.points, drawing.x_limits)
    if panel.rule:
        _draw_rule(axis, *panel.rule)
    if not panel.lines and not panel.bars and not panel.points:
        axis.annotate("not run", (0.5, 0.5), xycoords="axes fraction", ha="center", alpha=0.6)
    if not drawing.x_limits:
        axis.set_xticks([place for place, _ in panel.ticks], [_plain(label) for _, label in panel.ticks])
    axis.set_title(_plain(panel.title))
    axis.set_xlabel(_plain(drawing.x_label))
    if first:
        axis.set_ylabel(_plain(drawing.y_label))


def _draw_line(axis: Any, line: Line) -> None:
    look = _look(line.place)
    if line.level:
        axis.axhline(line.values[0], **look, clip_on=False)
        width = line.half_widths[0] or 0
        axis.axhspan(line.values[0] - width, line.values[0] + width, color=look["color"], alpha=0.1, linewidth=0)
        return
    stages = range(1, len(line.values) + 1)
    axis.plot(stages, line.values, **look)
    if len(line.values) > 1 and None not in line.half_widths:
        pairs = list(zip(line.values, line.half_widths, strict=True))
        low, high = [value - (width or 0) for value, width in pairs], [value + (width or 0) for value, width in pairs]
        axis.fill_between(stages, low, high, color=look["color"], alpha=0.1, linewidth=0)


def _draw_bars(axis: Any, bars: Bars, log: bool) -> None:
    for place, (height, width) in enumerate(zip(bars.heights, bars.half_widths, strict=True)):
        if height:
            marked = place in bars.marked
            hatch = {"hatch": "////", "edgecolor": "white", "linewidth": 0} if marked else {}
            axis.bar(place + 0.5, height, width=0.82, color=PALETTE[1 if marked else 0], **hatch)
        if width:
            down = min(width, height * 0.9) if log else width
            axis.errorbar(place + 0.5, height, [[down], [width]], color=INK, elinewidth=0.9, capsize=1.5, capthick=0.9)
    axis.set_xlim(-0.3, len(bars.heights) + 0.3)
    axis.axhline(0, color=INK, linewidth=0.8)


def _draw_points(axis: Any, points: tuple[Point, ...], limits: tuple[float, float]) -> None:
    axis.set_xlim(*limits)
    axis.locator_params(axis="x", nbins=5, integer=True)  # short labels: one at the edge is not cut
    axis.axhline(0, color=INK, linewidth=0.8)
    axis.axvline(0, color=INK, linewidth=0.8)
    for point in points:
        across, up = point.half_widths
        bars = {"elinewidth": 0.9, "capsize": 1.5, "capthick": 0.9}
        axis.errorbar(*point.at, yerr=up or None, xerr=across or None, **bars, **_look_of_point(point.place))


def _draw_rule(axis: Any, place: float, label: str) -> None:
    axis.axvline(place, color=INK, linewidth=1, linestyle=(0, (3, 2)))
    axis.annotate(
        _plain(label), (place, 1), xytext=(3, -1), xycoords=("data", "axes fraction"), textcoords="offset points", va="top"
    )


# -- inline SVG --------------------------------------------------------------------------------------------------------------------


def panel_svgs(drawing: Drawing, prefix: str) -> list[str]:
    """Return each panel as an SVG element to put into a page; `prefix` keeps their ids apart from others'."""
    import matplotlib
    from matplotlib.figure import Figure

    found = []
    with matplotlib.rc_context(STYLE):
        for place, panel in enumerate(drawing.panels):
            figure = Figure(figsize=PANEL)
            axis = figure.add_axes((0.165, 0.17, 0.815, 0.72))
            _draw(axis, drawing, panel)
            file = io.StringIO()
            figure.savefig(file, format="svg", transparent=True)
            found.append(_inlined(file.getvalue(), f"{prefix}-{place}-"))
    return found


def _inlined(svg: str, prefix: str) -> str:
    """Return an SVG file's element without what only a file needs, with ids of its own and the page's colours."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r' xmlns(:\w+)?="[^"]*"', "", svg).replace("xlink:href", "href")
    svg = re.sub(r'(?<= id=")|(?<=href="#)|(?<=url\(#)', prefix, svg)
    svg = re.sub(r'(<svg\b[^>]*?) width="[^"]*"', r"\1", re.sub(r'(<svg\b[^>]*?) height="[^"]*"', r"\1", svg, count=1), count=1)
    svg = svg.replace(INK, "currentColor")
    for place, colour in enumerate(PALETTE[:-1]):
        svg = svg.replace(colour, f"var(--c{place})")
    return svg.strip()


def swatch(place: int, line: bool = True) -> str:
    """Return a small SVG element that shows the line (if there is one) and the marker of a place: the page's legend."""
    from matplotlib.markers import MarkerStyle

    look = _look(place)
    marker = MarkerStyle(look["marker"])
    outline: Any = marker.get_path().transformed(marker.get_transform()).to_polygons()[0]
    points = " ".join(f"{18 + 7 * x:.1f},{6 - 7 * y:.1f}" for x, y in outline)
    colour = place % len(PALETTE)
    paint = f"var(--c{colour})" if colour < len(PALETTE) - 1 else "currentColor"
    dash = (
        "" if isinstance(look["linestyle"], str) else f' stroke-dasharray="{" ".join(str(1.6 * d) for d in look["linestyle"][1])}"'
    )
    path = f'<path d="M0 6H36" stroke="{paint}" stroke-width="2"{dash}/>' if line else ""
    return f'<svg class="swatch" viewBox="0 0 36 12" aria-hidden="true">{path}<polygon points="{points}" fill="{paint}"/></svg>'
