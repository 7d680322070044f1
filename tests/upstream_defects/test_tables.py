"""The tables of docs/mammoth.md that name a test for each defect and report."""

import re

import pytest

from utils.yaml_files import ROOT

NAMED = sorted(set(re.findall(r"`([\w/]+\.py)::(test_\w+)`", (ROOT / "docs" / "mammoth.md").read_text())))


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_named_test_exists(file, name):
    """In the file that the table says."""
    assert f"def {name}(" in (ROOT / "tests" / file).read_text()


def test_the_tables_are_found():
    """A page that is moved or rewritten must not empty the test above."""
    assert len(NAMED) > 30
