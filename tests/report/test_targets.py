"""The paper's numbers: complete, and equal to its LaTeX where that is at hand."""

from collections import Counter
from pathlib import Path

import pytest
from paper_tables import tables

from mammoth.report.targets import targets

PAPER = Path(__file__).resolve().parents[3] / "shared" / "paper" / "pvbf.tex"
COLUMNS = {
    "table_short": ["MS=20", "MS=100", "MS=500"],
    "table_long": ["CIFAR-100", "MiniImageNet"],
    "table_offline": ["MS=200", "MS=500", "MS=5120"],
}


def test_counts_per_table():
    """9 x 6 cells less 3 dashes; 9 x 4 less 2; 4 x 2; 2 x 10 x 6; and 3 x 6 + 3 x 4 of the appendix."""
    counts = Counter(table for table, *_ in targets())
    assert counts == {"table_short": 51, "table_long": 34, "ablation": 8, "table_offline": 120, "standardization": 30}


def test_misprints_are_kept_and_noted():
    """GEM's Task-IL cell at 5120 repeats its Class-IL cell in the paper."""
    place = ("table_offline", "GEM", "MS=5120", "task_il", "ACC")
    assert targets()[place].text == "25.26 ± 3.46"
    assert "misprint" in targets()[place].note


@pytest.mark.skipif(not PAPER.is_file(), reason="the paper's LaTeX is not at hand (../shared/paper/pvbf.tex)")
def test_every_number_equals_the_latex():
    """Cell by cell, in the order of the paper's tables."""
    seen = set()
    rows_of_offline = 0
    for name, rows in tables(PAPER).items():
        for label, cells in rows:
            if label == "Method":
                continue
            setting = "class_il"
            if name == "table_offline":
                setting = "class_il" if rows_of_offline < 10 else "task_il"
                rows_of_offline += 1
            if name == "ablation":
                arms = ["PVBF w/o E&C", "PVBF w/o D-CWR", "PVBF w/o ACE", "PVBF"]
                places = [(name, arm, "MS=500", setting, label) for arm in arms]
            else:
                columns = COLUMNS.get(name) or (COLUMNS["table_short"] if len(cells) == 6 else COLUMNS["table_long"])
                places = [(name, label, column, setting, measure) for column in columns for measure in ("ACC", "FR")]
            for place, cell in zip(places, cells, strict=True):
                assert (None if cell is None else " ± ".join(cell)) == (targets()[place].text if place in targets() else None), (
                    place
                )
                seen.add(place)
    assert seen >= set(targets())
