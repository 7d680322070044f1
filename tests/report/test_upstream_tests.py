"""Upstream's own tests: how one ended, what applies here, and the table; with a made checkout, the whole way."""

import json
import subprocess

import pytest

from mammoth import upstream_tests as running
from mammoth.report import documents, upstream_tests
from utils.yaml_files import ROOT

JUNIT = '<testsuites><testsuite><testcase classname="tests.test_x" name="{name}">{inside}</testcase></testsuite></testsuites>'


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        ("", ("passed", "")),
        ('<failure message="AssertionError: no&#10;more">trace</failure>', ("failed", "AssertionError: no")),
        ('<error message="fixture"/>', ("failed", "fixture")),
        ('<skipped message="no wandb"/>', ("skipped", "no wandb")),
    ],
)
def test_how_a_test_ended(inside, expected, tmp_path):
    """From its JUnit file, with the first line of what it said."""
    path = tmp_path / "junit.xml"
    path.write_text(JUNIT.format(name="test_it", inside=inside))
    assert upstream_tests.outcome(path) == expected


def test_the_table_counts_what_applies():
    """Passed of applicable; a test that does not apply is no failure, and a failure has its reason, known or said."""
    tests = {
        "test_er_example.py::test_er[seq-mnist]": ["passed", ""],
        "test_er_example.py::test_er[mnist-360]": ["not run", ""],
        "test_module_register.py::test_args_with_choices": ["failed", "AssertionError"],
        "test_fdr.py::test_fdr": ["failed", "took longer than 9 s"],
        "test_gdumb.py::test_gdumb": ["not run", ""],
    }
    found = {"date": "2026-01-02", "upstream": "abcdef123", "commit": "0123", "limit_s": 9, "tests": tests}
    lines = upstream_tests.markdown(found).splitlines()
    assert lines[0].startswith(
        "1 of 4 applicable tests passed (1 not run yet), of 5 in all (2026-01-02; upstream abcdef1, here 0123;"
    )
    assert "| `test_module_register.py::test_args_with_choices` | asks for a network `efficientnet` |" in lines
    assert "| `test_fdr.py::test_fdr` | took longer than 9 s |" in lines
    assert not any("test_gdumb" in line for line in lines)
    assert "| a general-continual data set that is not here | 1 |" in lines


def test_the_page_shows_the_file():
    """docs/mammoth.md is up to date."""
    text = (ROOT / "docs" / "mammoth.md").read_text(encoding="utf-8")
    assert documents.refreshed(text) == text
    assert upstream_tests.markdown() in text


@pytest.mark.long
def test_the_tests_of_a_checkout_are_run(tmp_path, monkeypatch):
    """One passes, one asserts, one takes too long, one meets a command line that is refused; each in a process of its own."""
    checkout = tmp_path / "checkout"
    (checkout / "tests").mkdir(parents=True)
    (checkout / "models").mkdir()
    (checkout / "models" / "mine.py").write_text('from models.sgd import Sgd\nclass Mine(Sgd):\n    NAME = "mine"\n')
    (checkout / "tests" / "test_made.py").write_text(
        "import sys, time\n"
        "def command(words):\n"
        "    from main import main\n"
        "    sys.argv = ['mammoth', *words.split(), '--debug_mode', '1', '--non_verbose', '1', '--seed', '0']\n"
        "    main()\n"
        "def test_runs(): command('--model sgd --dataset seq-mnist --lr 0.1 --stop_after 1')\n"
        "def test_asserts(): assert 1 == 2\n"
        "def test_waits(): time.sleep(1000)\n"
        "def test_refused(): command('--model absent --dataset seq-mnist')\n"
    )
    for words in (["init", "-q"], ["add", "."], ["-c", "user.name=x", "-c", "user.email=x", "commit", "-qm", "x"]):
        subprocess.run(["git", *words], cwd=checkout, check=True)
    monkeypatch.setattr(upstream_tests, "FOUND", tmp_path / "found.json")
    assert running.main([str(checkout), "--limit", "60", "--only", "runs|asserts|refused"]) == 0
    assert running.main([str(checkout), "--limit", "3", "--only", "waits"]) == 0
    tests = json.loads((tmp_path / "found.json").read_text())["tests"]
    assert {name.split("::")[1]: how for name, (how, _) in tests.items()} == {
        "test_runs": "passed",
        "test_asserts": "failed",
        "test_waits": "failed",
        "test_refused": "failed",
    }
    assert tests["test_made.py::test_waits"][1] == "took longer than 3 s"
    assert tests["test_made.py::test_refused"][1] == "SystemExit: 2"
