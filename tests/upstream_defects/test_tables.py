"""The tables of docs/mammoth.md that name a test for each defect and report."""

import re

import pytest

from utils.yaml_files import ROOT

PAGE = re.sub(r"<!-- upstream_tests -->.*?<!-- end -->", "", (ROOT / "docs" / "mammoth.md").read_text(), flags=re.DOTALL)
NAMED = sorted(set(re.findall(r"`([\w/]+\.py)::(test_\w+)`", PAGE)))


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_named_test_exists(file, name):
    """In the file that the table says."""
    assert f"def {name}(" in (ROOT / "tests" / file).read_text()


def test_the_tables_are_found():
    """A page that is moved or rewritten must not empty the test above."""
    assert len(NAMED) > 30
