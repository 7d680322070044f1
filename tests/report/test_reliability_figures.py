"""The table of what the long tests found: made of their file, and of nothing else."""

import re

from mammoth.report import documents, reliability
from utils.yaml_files import ROOT


def test_a_figure_is_noted_and_shown(tmp_path):
    """Noted twice, the later one stands, beside those of other tests; what was not run has a dash."""
    path = tmp_path / "figures.json"
    reliability.note("fuzz", path, cases=7)
    reliability.note("kills", path, survived=3, steps=1200)
    reliability.note("fuzz", path, cases=12345)
    lines = reliability.markdown(reliability.read(path)).splitlines()
    assert [line for line in lines if line.startswith("| 12,345 command lines made at random")]
    assert [line for line in lines if line.startswith("| 3 times SIGKILL in one run of 1,200 steps")]
    assert "| soak: not run | \u2013 | \u2013 |" in lines
    assert re.search(r"\| \d{4}-\d\d-\d\d \| \w+", lines[2])


def test_the_page_shows_the_file():
    """docs/reliability.md is up to date."""
    text = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    assert documents.refreshed(text) == text
    assert reliability.markdown() in text
