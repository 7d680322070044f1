"""One HTML page of all experiments: opens from disk, needs no network, and every number leads to the runs that it comes from.

`page.css` and `page.js` are put inside; a content security policy in the page's head forbids everything else.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

from mammoth.experiments import Experiment
from mammoth.report.claims import Outcome
from mammoth.report.drawing import DARK_PALETTE, PALETTE, Drawing, panel_svgs, swatch
from mammoth.report.figures import drawings
from mammoth.report.tables import MEASURES, TITLES, Entry, Table, build
from mammoth.report.verdicts import CLOSE, MATCH, SHARP
from mammoth.results import Row
from utils.files import write_atomically

HERE = Path(__file__).parent
TITLE = "PVBF and its baselines: our runs beside the paper's"
LEAD = (
    "Continual learning with the Parameter Variation Balancing Framework, on an independent implementation. All numbers are made "
    "from the records of runs; select one to see its runs, each with seed, code, machine and data."
)
SCALED_LEAD = "A check of the whole way from run to page, at scale {scale}: no number here is the paper's, no verdict about it."
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
PROVENANCE: tuple[tuple[str, str], ...] = (
    ("run id", "run_id"), ("commit", "commit"), ("source digest", "source_digest"), ("Python", "python"), ("torch", "torch"),
    ("device", "device"), ("threads", "threads"), ("wall time, s", "wall_s"), ("data set", "dataset"), ("data kind", "data"),
    ("data fingerprint", "fingerprint"), ("started", "started"),
)  # fmt: skip
Cell = tuple[str, str]  # row, column


@dataclass(frozen=True)
class Section:
    """An experiment on the page.

    Args:
        tables: one a setting; rows: the runs that they and the drawings are made from.
        command: what makes the runs; shown while there are none.
    """

    title: str
    tables: Sequence[Table] = ()
    rows: Sequence[Row] = ()
    drawings: Sequence[Drawing] = ()
    text: str = ""
    command: str = ""

    @property
    def settings(self) -> list[str]:
        """The settings of the tables; Class-IL where there are none."""
        return list(dict.fromkeys(table.setting for table in self.tables)) or ["class_il"]


def experiment_section(
    experiment: Experiment,
    rows: Sequence[Row],
    settings: Sequence[str] = ("class_il",),
    variations: Sequence[Row] = (),
    text: str = "",
) -> Section:
    """Return an experiment's section: a table a setting, and its figures."""
    tables = [build(experiment, rows, setting) for setting in settings]
    command = f"python -m mammoth.sweep run experiments/{experiment.name}.yaml"
    return Section(experiment.title, tables, rows, drawings(experiment, rows, variations), text, command)


def write_page(
    sections: Sequence[Section], path: Path, claims: Sequence[Outcome] = (), title: str = TITLE, lead: str = LEAD
) -> Path:
    """Write the page, whole or not at all; returns `path`.

    Raises:
        OSError: the file cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, page(sections, claims, title, lead))
    return path


def page(sections: Sequence[Section], claims: Sequence[Outcome] = (), title: str = TITLE, lead: str = LEAD) -> str:
    """Return the page's text."""
    body = [
        _headline(sections, claims, title, lead),
        *(_section(section, f"s{number}") for number, section in enumerate(sections, 1)),
        _claims(claims) if claims else "",
        _provenance(sections),
    ]
    return "\n".join([_head(title), "<body>", "<main>", *filter(None, body), "</main>", _script(), "</body>", "</html>", ""])


def _head(title: str) -> str:
    colours = [
        " ".join(f"--c{place}: {colour};" for place, colour in enumerate(palette[:-1])) for palette in (PALETTE, DARK_PALETTE)
    ]
    palettes = f":root {{ {colours[0]} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {colours[1]} }} }}\n"
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>",
            f"<style>\n{palettes}{_asset('page.css')}</style>",
            "</head>",
        ]
    )


def _asset(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def _script() -> str:
    return f"<script>\n{_asset('page.js')}</script>"


def _anchors(section: Section, anchor: str) -> dict[Cell, str]:
    """Return where on the page each cell's runs are."""
    cells = dict.fromkeys((row["row"], row["column"]) for row in section.rows)
    return {cell: f"{anchor}-runs{place}" for place, cell in enumerate(cells, 1)}


# -- headline ----------------------------------------------------------------------------------------------------------------------


def _headline(sections: Sequence[Section], claims: Sequence[Outcome], title: str, lead: str) -> str:
    runs = {row["run_id"]: row for section in sections for row in section.rows}
    hours = sum(float(row["wall_s"]) for row in runs.values()) / 3600
    begun = sum(bool(section.rows) for section in sections)
    tiles = {
        "runs": str(len(runs)),
        "hours of runs": f"{hours:.1f}",
        "experiments begun": f"{begun} of {len(sections)}",
    }
    verdicts = [entry.verdict for section in sections for table in section.tables for _, line in table.lines for entry in line]
    links = [(f"s{number}", section.title) for number, section in enumerate(sections, 1)]
    links += [("claims", "Claims of the paper")] if claims else []
    links += [("runs", "Runs")]
    nav = "".join(f'<li><a href="#{anchor}">{escape(text)}</a></li>' for anchor, text in links)
    return "\n".join(
        [
            f"<header>\n<h1>{escape(title)}</h1>\n<p>{escape(lead)}</p>",
            '<dl class="tiles">'
            + "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in tiles.items())
            + "</dl>",
            _tally("Numbers beside the paper's", verdicts),
            _tally("Claims", [outcome.verdict for outcome in claims]),
            _guide(),
            f'<nav aria-label="Contents"><ul>{nav}</ul></nav>\n</header>',
        ]
    )


def _tally(what: str, verdicts: Sequence[str]) -> str:
    """Return how often each verdict occurs; nothing if there are none."""
    kinds = [_kind(verdict) for verdict in verdicts if verdict]
    if not kinds:
        return ""
    counts = sorted(((kinds.count(kind), kind) for kind in dict.fromkeys(kinds)), reverse=True)
    items = "".join(f"<li>{_badge(kind, f'{kind} {count}')}</li>" for count, kind in counts)
    return f'<p class="soft">{escape(what)}</p>\n<ul class="tally">{items}</ul>'


def _guide() -> str:
    words = (
        f"match: within {MATCH:g} point of the paper's, or within both 95 % half-widths in quadrature while ours is at most "
        f"{SHARP:g} points. close: within {CLOSE:g} points. differs: further off. undecided: too few runs to tell. cited: a number "
        "that the paper took from elsewhere and that we did not run. A claim holds or does not hold when a two-sided paired t-test "
        "over seeds says so at 5 %, with Holm's correction over the claims. ACC: mean accuracy after the last task (higher is "
        "better); FR: forgetting (lower is better). The best of a column is bold, the second underlined."
    )
    return f'<details class="notes"><summary>How to read it</summary><p>{escape(words)}</p></details>'


def _kind(verdict: str) -> str:
    """Return a verdict without its count: `undecided (3)` is `undecided`."""
    return verdict.split(" (")[0]


def _badge(verdict: str, text: str = "") -> str:
    """Return a verdict as a coloured label; its words say the same as the colour."""
    return f'<span class="badge {escape(_kind(verdict).replace(" ", "-"))}">{escape(text or verdict)}</span>'


# -- an experiment -----------------------------------------------------------------------------------------------------------------


def _section(section: Section, anchor: str) -> str:
    parts = [f'<section id="{anchor}">', f"<h2>{escape(section.title)}</h2>"]
    if section.text:
        parts.append(f"<p>{escape(section.text)}</p>")
    if not section.rows:
        how = f": <code>{escape(section.command)}</code>" if section.command else "."
        parts.append(f"<p>{_badge('not run')} No runs yet{how}</p>")
    runs = _anchors(section, anchor)
    parts += [_table(table, runs, f"{anchor}-t{number}") for number, table in enumerate(section.tables, 1)]
    parts += [_figure(drawing, f"{anchor}-f{number}") for number, drawing in enumerate(section.drawings, 1)]
    return "\n".join([*parts, "</section>"])


def _scroll(table: str, label: str) -> str:
    """Return a table in a box of its own that scrolls sideways, also by keyboard."""
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(label)}">\n{table}\n</div>'


def _table(table: Table, anchors: dict[Cell, str], anchor: str) -> str:
    columns = [(column, len(list(group))) for column, group in groupby(column for column, _ in table.heads)]
    notes = list(dict.fromkeys(entry.paper.note for _, line in table.lines for entry in line if entry.paper and entry.paper.note))
    starts = {0} | {
        place for place, (before, after) in enumerate(zip(table.heads, table.heads[1:], strict=False), 1) if before[0] != after[0]
    }
    lines = []
    for row, entries in table.lines:
        cells = [
            _entry(entry, anchors.get((row, column)), notes, place in starts)
            for place, ((column, _), entry) in enumerate(zip(table.heads, entries, strict=True))
        ]
        lines.append(f'<tr><th scope="row" class="name">{escape(row)}</th>{"".join(cells)}</tr>')
    parts = ["<table>", _table_head(table, columns), "<tbody>", *lines, "</tbody>", "</table>"]
    name = TITLES.get(table.setting, table.setting)
    found = [f'<h3 id="{anchor}">{escape(name)}</h3>', _scroll("\n".join(parts), f"{table.title}, {name}")]
    found += [f'<p class="notes"><sup>{number}</sup> {escape(note)}.</p>' for number, note in enumerate(notes, 1)]
    return "\n".join([*found, f'<p class="notes">{escape(table.footer)}</p>'])


def _table_head(table: Table, columns: Sequence[tuple[str, int]]) -> str:
    measures = "".join(
        _sortable(measure, place, "descending" if measure == "ACC" else "ascending")
        for place, (_, measure) in enumerate(table.heads, 1)
    )
    method = _sortable("Method", 0, "ascending")
    if [column for column, _ in columns] == ["-"]:
        return f"<thead><tr>{method}{measures}</tr></thead>"
    groups = "".join(f'<th scope="colgroup" colspan="{width}">{escape(column)}</th>' for column, width in columns)
    return f"<thead>\n<tr><td></td>{groups}</tr>\n<tr>{method}{measures}</tr>\n</thead>"


def _sortable(text: str, place: int, first: str, kind: str = "") -> str:
    """Return a header that sorts its column: a button, so that it works by keyboard too."""
    button = f'<button type="button" class="sort" data-place="{place}" data-first="{first}">{escape(text)}</button>'
    return f'<th scope="col" aria-sort="none"{f" class={kind!r}" if kind else ""}>{button}</th>'.replace("'", '"')


def _entry(entry: Entry, runs: str | None, notes: Sequence[str], starts: bool) -> str:
    """Return a cell: ours, leading to its runs; below it the paper's and the verdict."""
    classes = [*(["new"] if starts else []), *({1: ["best"], 2: ["second"]}.get(entry.rank, []))]
    sort = f"{entry.ours.mean:.6f}" if entry.ours else ""
    parts = []
    if entry.ours:
        width = "" if entry.ours.half_width is None else f" ± {entry.ours.half_width:.2f}"
        parts.append(_value(f"{entry.ours.mean:.2f}{width}", runs) + f"<small>n = {entry.ours.n}</small>")
    if entry.paper:
        mark = f"<sup>{notes.index(entry.paper.note) + 1}</sup>" if entry.paper.note else ""
        parts.append(f'<span class="paper">paper {escape(entry.paper.text)}{mark}</span>')
    if entry.verdict:
        parts.append(_badge(entry.verdict))
    attributes = f' class="{" ".join(classes)}"' if classes else ""
    return f'<td{attributes} data-sort="{sort}">{"".join(parts) or "–"}</td>'


def _value(text: str, runs: str | None) -> str:
    if runs is None:
        return f'<span class="value">{escape(text)}</span>'
    return f'<a class="value" href="#{runs}">{escape(text)}</a>'


def _figure(drawing: Drawing, anchor: str) -> str:
    """Return a figure, folded if the drawing says so: a legend, and each panel an SVG of its own, to wrap on a phone."""
    legend = "".join(f"<li>{swatch(place, drawing.x_limits is None)}{escape(label)}</li>" for place, label in drawing.legend)
    panels = zip(drawing.panels, panel_svgs(drawing, anchor), strict=True)
    pictures = [
        svg.replace("<svg", f'<svg role="img" aria-label="{escape(f"{drawing.title}. {panel.title}")}"', 1) for panel, svg in panels
    ]
    inside = [f'<ul class="legend">{legend}</ul>' if legend else "", f'<div class="panels">{"".join(pictures)}</div>']
    title = escape(drawing.caption or drawing.title)
    if drawing.folded:
        return f'<details class="figure" id="{anchor}"><summary>{title}</summary>\n' + "\n".join(
            [*filter(None, inside), "</details>"]
        )
    return "\n".join([f'<figure id="{anchor}">', f"<figcaption>{title}</figcaption>", *filter(None, inside), "</figure>"])


# -- claims ------------------------------------------------------------------------------------------------------------------------


def _claims(claims: Sequence[Outcome]) -> str:
    heads = ("claim", "paper", "ours", "n", "p (Holm)", "verdict")
    head = "".join(_sortable(text, place, "ascending", "words" if place == 0 else "") for place, text in enumerate(heads))
    lines = []
    for outcome in claims:
        p = "–" if outcome.p is None else f"{outcome.p:.3f}"
        ours = _value(outcome.ours, "runs") if outcome.n else escape(outcome.ours)
        lines.append(
            f'<tr><td class="words">{escape(outcome.claim.text)}</td><td>{escape(outcome.claim.paper)}</td><td>{ours}</td>'
            f'<td data-sort="{outcome.n}">{outcome.n}</td><td data-sort="{"" if outcome.p is None else outcome.p}">{p}</td>'
            f"<td>{_badge(outcome.verdict)}</td></tr>"
        )
    table = "\n".join(["<table>", f"<thead><tr>{head}</tr></thead>", "<tbody>", *lines, "</tbody>", "</table>"])
    return f'<section id="claims">\n<h2>Claims of the paper</h2>\n{_scroll(table, "Claims of the paper")}\n</section>'


# -- where the numbers come from --------------------------------------------------------------------------------------------------


def _provenance(sections: Sequence[Section]) -> str:
    text = (
        "Each run's whole record, with its arguments and confusion matrices, is in <code>records/&lt;run id&gt;/record.json</code>."
    )
    parts = ['<section id="runs">', "<h2>Runs</h2>", f'<p class="soft">{text}</p>']
    found = [_runs(section, f"s{number}") for number, section in enumerate(sections, 1) if section.rows]
    parts += found or [f"<p>{_badge('not run')} No runs yet.</p>"]
    return "\n".join([*parts, "</section>"])


def _runs(section: Section, anchor: str) -> str:
    """Return the runs of an experiment, folded, grouped by the cell that they fill."""
    measures = [(setting, measure) for setting in section.settings for measure in MEASURES]
    names = [
        "seed",
        *(f"{TITLES.get(setting, setting)} {measure}" for setting, measure in measures),
        *(name for name, _ in PROVENANCE),
    ]
    head = "".join(_sortable(name, place, "ascending") for place, name in enumerate(names))
    different = len({entry["run_id"] for entry in section.rows})
    parts = [f"<details>\n<summary>{escape(section.title)}: {different} runs</summary>"]
    bodies = []
    for (row, column), place in _anchors(section, anchor).items():
        runs = [entry for entry in section.rows if (entry["row"], entry["column"]) == (row, column)]
        label = escape(row if column == "-" else f"{row}, {column}")
        group = f'<tr class="group" id="{place}"><th scope="rowgroup" colspan="{len(names)}"><span>{label}</span></th></tr>'
        bodies.append("\n".join(["<tbody>", group, *(_run(entry, measures) for entry in _by_seed(runs)), "</tbody>"]))
    table = "\n".join(["<table>", f"<thead><tr>{head}</tr></thead>", *bodies, "</table>"])
    return "\n".join([*parts, _scroll(table, f"Runs of {section.title}"), "</details>"])


def _by_seed(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: int(row["seed"]))


def _run(row: Row, measures: Sequence[tuple[str, str]]) -> str:
    values: list[float | None] = [MEASURES[measure](row[setting]) for setting, measure in measures]
    words = [str(row["seed"]), *("–" if value is None else f"{value:.2f}" for value in values)]
    words += [_provenance_word(row, key) for _, key in PROVENANCE]
    return f'<tr><th scope="row">{escape(words[0])}</th>{"".join(f"<td>{escape(word)}</td>" for word in words[1:])}</tr>'


def _provenance_word(row: dict[str, Any], key: str) -> str:
    changed = key == "commit" and str(row["dirty"]) == "True"
    return f"{row[key]}{' + changes' if changed else ''}"
