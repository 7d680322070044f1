"""Rows to a table: for each cell our mean and 95 % t-interval, the paper's number beside it, and a verdict."""

import csv
import io
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass

from mammoth.experiments import Experiment
from mammoth.report.stats import Interval, t_interval
from mammoth.report.targets import Target, targets
from mammoth.report.verdicts import verdict
from mammoth.results import Row
from utils.metrics import Matrix, average_accuracy, forgetting

MEASURES: dict[str, Callable[[Matrix], float | None]] = {"ACC": average_accuracy, "FR": forgetting}
RANKED_FROM = 3  # seeds
TITLES = {"class_il": "Class-IL", "task_il": "Task-IL"}


@dataclass
class Entry:
    """One number of a table."""

    ours: Interval | None
    paper: Target | None
    verdict: str
    rank: int = 0  # 1 best, 2 second of its column; 0 neither


@dataclass
class Table:
    """A table, ready to be printed: `heads` are (column, measure), `lines` (row, an entry for each head)."""

    title: str
    setting: str
    heads: list[tuple[str, str]]
    lines: list[tuple[str, list[Entry]]]
    footer: str


def seed_values(rows: Sequence[Row], row: str, column: str, measure: str, setting: str) -> dict[int, float]:
    """Return a cell's value for each seed. `measure`: ACC or FR; `setting`: `class_il` or `task_il`."""
    chosen = [entry for entry in rows if (entry["row"], entry["column"]) == (row, column)]
    values = {int(entry["seed"]): MEASURES[measure](entry[setting]) for entry in chosen}
    return {seed: value for seed, value in values.items() if value is not None}


def build(experiment: Experiment, rows: Sequence[Row], setting: str = "class_il") -> Table:
    """Return an experiment's table in one setting; rows that the paper cites and nobody here runs come last."""
    heads = [(column, measure) for column in experiment.columns for measure in MEASURES]
    asked = {(cell.row, cell.column) for cell in experiment.cells}
    lines = []
    for row in (*experiment.rows, *_cited(experiment, setting)):
        entries = []
        for column, measure in heads:
            values = list(seed_values(rows, row, column, measure, setting).values())
            ours = t_interval(values) if values else None
            paper = targets().get((experiment.paper, row, column, setting, measure))
            undefined = paper is None and (row in experiment.references or (row, column) not in asked)  # one stage has no FR
            said = "" if undefined else verdict(ours, paper, len(experiment.seeds))
            entries.append(Entry(ours, paper, said))
        lines.append((row, entries))
    kinds = {column: {(row["dataset"], row["data"]) for row in rows if row["column"] == column} for column in experiment.columns}
    _rank(lines, heads, experiment.references, {column for column, found in kinds.items() if len(found) > 1})
    return Table(experiment.title, setting, heads, lines, " ".join(filter(None, (experiment.note, footer(rows)))))


def _cited(experiment: Experiment, setting: str) -> list[str]:
    """Return the rows of the paper's table that it takes from elsewhere and the experiment does not run."""
    found = [
        place[1]
        for place, target in targets().items()
        if place[0] == experiment.paper and place[3] == setting and target.source == "cited" and place[2] in experiment.columns
    ]
    return [row for row in dict.fromkeys(found) if row not in experiment.rows]


def _rank(
    lines: list[tuple[str, list[Entry]]], heads: list[tuple[str, str]], references: Iterable[str], mixed: Container[str]
) -> None:
    """Mark best and second of each column: highest ACC, lowest FR.

    Reference rows (IID) take no part, nor do cells of fewer than RANKED_FROM seeds: a single seed ranks nothing. Neither are
    `mixed` columns ranked, whose rows are on different images.
    """
    for place, (column, measure) in enumerate(heads):
        if column in mixed:
            continue
        means = {row: entries[place].ours for row, entries in lines if row not in references}
        means = {row: ours for row, ours in means.items() if ours and ours.n >= RANKED_FROM}
        found = sorted({round(ours.mean, 2) for ours in means.values() if ours}, reverse=measure == "ACC")
        for row, entries in lines:
            ours = means.get(row)
            if ours is not None and len(found) > 1 and round(ours.mean, 2) in found[:2]:
                entries[place].rank = 1 + found.index(round(ours.mean, 2))


def footer(rows: Sequence[Row]) -> str:
    """Return what qualifies the numbers: n, interval, versions, commit, device, hours, data; a run in several cells counts once."""
    if not rows:
        return "No runs yet."
    rows = list({row["run_id"]: row for row in rows}.values())
    commits = [f"{row['commit']}{' + changes' if str(row['dirty']) == 'True' else ''}" for row in rows]
    hours = sum(float(row["wall_s"]) for row in rows) / 3600
    parts = [
        f"Mean ± half-width of the 95 % t-interval over seeds (n in brackets), {len(rows)} runs",
        f"torch {_distinct(row['torch'] for row in rows)}, Python {_distinct(row['python'] for row in rows)}",
        f"commit {_distinct(commits)}",
        f"device {_distinct(row['device'] for row in rows)}",
        f"{hours:.2f} hours of runs",
        f"data: {_distinct(row['dataset'] + ' ' + row['data'] for row in rows)}",
    ]
    old = sum(bool(row.get("stale")) for row in rows)
    if 0 < old < len(rows):
        parts.append(f"mixed: {old} of these runs are of older code than the others")
    return "; ".join(parts) + "."


def _distinct(values: Iterable[str]) -> str:
    return ", ".join(sorted({str(value) for value in values}))


def format_interval(ours: Interval | None) -> str:
    """Return `51.23 ± 1.20 (3)`, `51.23 (1)`, or a dash."""
    if ours is None:
        return "–"
    width = "" if ours.half_width is None else f" ± {ours.half_width:.2f}"
    return f"{ours.mean:.2f}{width} ({ours.n})"


def markdown_line(cells: Iterable[str]) -> str:
    """Return a line of a table in Markdown."""
    return f"| {' | '.join(cells)} |"


def markdown(table: Table) -> str:
    """Return a table in Markdown: ours (best bold, second underlined), below it the paper's and the verdict."""
    names = [f"{'' if column == '-' else column + ' '}{measure}" for column, measure in table.heads]
    body = [["Method", *names]]
    for row, entries in table.lines:
        body.append([row, *(_markdown_cell(entry) for entry in entries)])
    widths = [max(len(line[place]) for line in body) for place in range(len(body[0]))]
    lines = [markdown_line(word.ljust(width) for word, width in zip(line, widths, strict=True)) for line in body]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join([f"{table.title}, {TITLES[table.setting]}", "", *lines, "", table.footer])


def _markdown_cell(entry: Entry) -> str:
    mark = {0: ("", ""), 1: ("**", "**"), 2: ("<u>", "</u>")}[entry.rank]
    parts = [f"{mark[0]}{format_interval(entry.ours)}{mark[1]}"]
    if entry.paper is not None:
        parts.append(f"paper {entry.paper.text}")
    if entry.verdict:
        parts.append(entry.verdict)
    return "<br>".join(parts)


def _printed(entry: Entry) -> str:
    return "" if entry.paper is None else entry.paper.text


def plain(table: Table) -> str:
    """Return a table for a terminal: a line a row and measure, ours, the paper's, the verdict."""
    heads = ["Method", *dict.fromkeys(f"{'' if column == '-' else column + ' '}{measure}" for column, measure in table.heads)]
    body = [heads]
    paper = any(entry.paper for _, entries in table.lines for entry in entries)
    for row, entries in table.lines:
        body.append([row, *(format_interval(entry.ours) for entry in entries)])
        if paper:
            body.append(["  paper", *(_printed(entry) for entry in entries)])
            body.append(["  verdict", *(entry.verdict for entry in entries)])
    widths = [max(len(line[place]) for line in body) for place in range(len(heads))]
    lines = ["  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip() for line in body]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join([f"{table.title}, {TITLES[table.setting]}", "", *lines, "", table.footer])


def comma_separated(table: Table) -> str:
    """Return a table as CSV, one line a number."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["row", "column", "setting", "measure", "mean", "half_width", "n", "paper", "paper_half_width", "verdict"])
    for row, entries in table.lines:
        for (column, measure), entry in zip(table.heads, entries, strict=True):
            ours = entry.ours or Interval(float("nan"), None, 0)
            mean = f"{ours.mean:.4f}" if entry.ours else ""
            width = "" if ours.half_width is None else f"{ours.half_width:.4f}"
            paper = ["", ""] if entry.paper is None else [entry.paper.mean, entry.paper.half_width]
            writer.writerow([row, column, table.setting, measure, mean, width, ours.n, *paper, entry.verdict])
    return text.getvalue().rstrip()


def latex(table: Table) -> str:
    """Return a table in LaTeX (needs booktabs): a line for ours, a small one for the paper's."""
    columns = list(dict.fromkeys(column for column, _ in table.heads))
    per_column = len(table.heads) // len(columns)
    top = " & ".join(rf"\multicolumn{{{per_column}}}{{c}}{{{_tex(column if column != '-' else '')}}}" for column in columns)
    lines = [
        r"\begin{table}[htbp]", r"\centering", rf"\begin{{tabular}}{{l{'c' * len(table.heads)}}}", r"\toprule",
        rf"Method & {top} \\", " & " + " & ".join(measure for _, measure in table.heads) + r" \\", r"\midrule",
    ]  # fmt: skip
    for row, entries in table.lines:
        lines.append(f"{_tex(row)} & " + " & ".join(_latex_cell(entry) for entry in entries) + r" \\")
        if any(entry.paper for entry in entries):
            cells = [rf"\footnotesize {_latex_number(_printed(entry))}" for entry in entries]
            lines.append(r"\quad\footnotesize paper & " + " & ".join(cells) + r" \\")
    caption = _tex(f"{table.title}, {TITLES[table.setting]}. {table.footer}")
    lines += [r"\bottomrule", r"\end{tabular}", rf"\caption{{{caption}}}", r"\end{table}"]
    return "\n".join(lines)


def _latex_cell(entry: Entry) -> str:
    if entry.ours is None:
        return "--"
    number = _latex_number(format_interval(entry.ours).split(" (")[0])
    return {0: number, 1: rf"\textbf{{{number}}}", 2: rf"\underline{{{number}}}"}[entry.rank]


def _latex_number(text: str) -> str:
    return text.replace("±", r"$\pm$")


TEX = {
    "\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "±": r"$\pm$", "–": "--", **{letter: f"\\{letter}" for letter in "&%_#${}"},
}  # fmt: skip


def _tex(text: str) -> str:
    """Escape what LaTeX takes for a command."""
    return "".join(TEX.get(letter, letter) for letter in text)


FORMATS: dict[str, Callable[[Table], str]] = {"md": markdown, "tex": latex, "csv": comma_separated, "text": plain}
