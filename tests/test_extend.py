"""docs/extend.md: each template, as printed, is one new file in a copy of the project, and runs there."""

import json
import shutil
import subprocess
import sys

import pytest
from pages import block

from utils.yaml_files import ROOT

TEMPLATES = {
    "models/my_method.py": "class MyMethod(",
    "datasets/seq_stripes.py": "class SequentialStripes(",
    "backbone/my_network.py": "class MyNetwork(",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A copy of the project with the page's templates in their places."""
    copy = tmp_path_factory.mktemp("project")
    for name in ("backbone", "datasets", "mammoth", "models", "tests", "utils"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("main.py", "pyproject.toml"):
        shutil.copy(ROOT / name, copy)
    for name, text in TEMPLATES.items():
        assert not (copy / name).exists()
        (copy / name).write_text(block("extend.md", text), encoding="utf-8")
    return copy


def python(project, *words):
    """Run Python in the copy; returns its output."""
    done = subprocess.run([sys.executable, *words], cwd=project, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_three_templates_train_together(project):
    """The page's command: the method with its flag, on the data set with its own defaults, with the network."""
    command = block("extend.md", "--smoothing", "bash").split()
    quiet = ("--device", "cpu", "--threads", "1", "--seed", "0", "--n_epochs", "3")
    python(project, *command[1:], *quiet)
    (path,) = project.glob("data/results/records/*/record.json")
    record = json.loads(path.read_text())
    assert (record["args"]["smoothing"], record["args"]["width"], record["args"]["batch_size"]) == (0.2, 32, 10)
    assert record["status"] == "done"
    assert record["class_il"][0][0] > 90  # of the first task, which chance would put at 50


@pytest.mark.long
def test_the_templates_are_listed_and_keep_the_contract(project):
    """`--list` shows all three; the tests that walk over all methods pass for the template."""
    listed = python(project, "main.py", "--list")
    assert all(name in listed for name in ("my-method", "seq-stripes", "my-network"))
    python(project, *block("extend.md", "pytest", "bash").split()[1:], "-p", "no:cacheprovider")
