"""Tables of rows: which rows stand there, what is ranked, what the footer counts; and damaged files of rows."""

import re

import pytest

from mammoth import results
from mammoth.experiments import load_experiment
from mammoth.report import tables
from tests.report import made_rows
from utils.yaml_files import ROOT


def test_rows_that_the_paper_cites_are_in_its_table():
    """Tab. 4 has the methods that nobody runs here, with the paper's numbers, after those that are run."""
    table = tables.build(load_experiment(ROOT / "experiments" / "table_offline.yaml"), [])
    names = [row for row, _ in table.lines]
    assert names[:2] == ["ER-ACE", "PVBF"]
    assert {"SGD", "ER", "DER++"} <= set(names[2:])
    entries = dict(table.lines)["SGD"]
    assert (entries[0].paper.text, entries[0].verdict) == ("19.62 ± 0.05", "cited")


def test_a_run_in_several_cells_counts_once():
    """The footer's runs and hours are of runs, not of cells."""
    twice = [made_rows.row("IID", 0, [[60.0]], column, run_id="one") for column in ("A", "B")]
    assert "1 runs" in tables.footer(twice)
    assert "0.01 hours" in tables.footer(twice)


def test_rows_on_different_images_are_not_ranked():
    """Best and second are marked among rows on the same images alone."""
    rows = [*made_rows.three_seeds("A"), *made_rows.three_seeds("B", shift=1.0)]
    made = made_rows.experiment("A", "B")
    assert sorted(entries[0].rank for _, entries in tables.build(made, rows).lines) == [1, 2]
    other = [{**row, "data": "recompressed"} if row["row"] == "B" else row for row in rows]
    assert [entries[0].rank for _, entries in tables.build(made, other).lines] == [0, 0]


@pytest.mark.parametrize("damage", ["cut", "empty", "no number"])
def test_a_damaged_line_is_named(damage, tmp_path):
    """A cut line, an empty matrix, a seed that is none: the file, the line, and what to do."""
    path = tmp_path / "rows.csv"
    results.write_rows(path, made_rows.three_seeds("A"))
    text = path.read_text(encoding="utf-8")
    head, last = text.rstrip("\n").rsplit("\n", 1)
    damaged = {
        "cut": last[:-60],
        "empty": re.sub(r'"\[\[.*?\]\]"', "[]", last, count=1),
        "no number": last.replace(",2,", ",two,", 1),
    }
    assert damaged[damage] != last
    path.write_text(f"{head}\n{damaged[damage]}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"rows\.csv, line 4 is corrupt: .*take the line out"):
        results.read_rows(path)
