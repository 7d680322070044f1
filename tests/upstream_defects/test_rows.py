"""Defects found in upstream Mammoth, by their row in docs/mammoth.md: the right behaviour here, where no other test shows it."""

import re
import subprocess
import sys

import pytest
import torch

import models
from datasets.seq_digits import SequentialDigits
from mammoth.runner import build
from utils.ring_buffer import RingBuffer
from utils.yaml_files import ROOT

DIGITS = ("--dataset", "seq-digits", "--n_iters", "5")


@pytest.fixture
def facts(tmp_path):
    """Return a function from YAML lines to the flags that make them the benchmark's facts."""

    def written(*lines):
        path = tmp_path / "facts.yaml"
        path.write_text("\n".join(["backbone: mnistmlp", "lr: 0.1", "batch_size: 10", "n_epochs: 1", *lines]) + "\n")
        return (*DIGITS, "--dataset_config", str(path))

    return written


def test_d2_another_method_sees_the_same_images(resolve):
    """The second task's first batch is the same for two methods, one of which draws much in the first."""

    def second(method, *words):
        dataset = build(resolve("--model", method, *DIGITS, *words)).dataset
        dataset.get_data_loaders()
        torch.rand(1000 if words else 1)
        return next(iter(dataset.get_data_loaders()[0]))

    assert all(map(torch.equal, second("sgd"), second("er", "--buffer_size", "50")))


def test_d7_a_ring_gives_all_that_it_holds():
    """Three images in a memory of four."""
    ring = RingBuffer(4)
    ring.add_data(examples=torch.rand(3, 1, 2, 2), labels=torch.arange(3))
    assert sorted(ring.get_all_data()[1].tolist()) == [0, 1, 2]


def test_d9_forward_transfer_on_a_domain_il_benchmark(go, facts, monkeypatch):
    """--enable_other_metrics 1: the run ends and its record has both rows."""
    monkeypatch.setattr(SequentialDigits, "SETTING", "domain-il")
    words = facts("N_CLASSES_PER_TASK: 10", "N_TASKS: 2")
    found = go("--model", "sgd", *words, "--enable_other_metrics", "1")
    assert found["status"] == "done"
    assert [len(row) for row in found["class_il"]] == [1, 2]


def test_d19_an_optimizer_made_in_begin_task_stays(monkeypatch, go):
    """With a schedule too: the step is taken by the optimizer that the method made."""
    made, used = [], []

    def begin_task(self, dataset):
        self.opt = torch.optim.Adam(self.net.parameters(), lr=0.001)
        made.append(self.opt)

    def begin_epoch(self, epoch, dataset):
        used.append(self.opt)

    sgd = models.get_model_class("sgd")
    monkeypatch.setattr(sgd, "begin_task", begin_task)
    monkeypatch.setattr(sgd, "begin_epoch", begin_epoch)
    go("--model", "sgd", *DIGITS, "--stop_after", "2", "--lr_scheduler", "cosine")
    assert [id(optimizer) for optimizer in used] == [id(optimizer) for optimizer in made]


@pytest.mark.parametrize("method", ["er", "icarl", "pvbf"])
def test_d26_tasks_of_different_sizes(method, go, facts):
    """Four, three and three classes."""
    words = facts("N_CLASSES_PER_TASK: [4, 3, 3]", "N_TASKS: 3")
    found = go("--model", method, *words, "--buffer_size", "50")
    assert found["task_sizes"] == [4, 3, 3]
    assert len(found["class_il"][-1]) == 3


def test_d20_a_data_set_that_does_not_load_is_listed_with_its_reason(tmp_path):
    """--list with a folder whose one file asks for an absent package: status 0, the reason, and all other lines."""
    (tmp_path / "broken.py").write_text('import absent_package\n\n\nclass Broken:\n    NAME = "broken"\n')
    words = [sys.executable, str(ROOT / "main.py"), "--list", "--datasets_path", str(tmp_path)]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert re.search(r"broken +\(does not load: ModuleNotFoundError: No module named 'absent_package'\)", ended.stdout)
    assert "seq-digits" in ended.stdout


def test_a_method_that_cannot_be_built_says_why_in_two_lines(tmp_path):
    """A file of the user's that asks for an absent package in its constructor, in whatever way."""
    lines = ["from models.sgd import Sgd", "class Needy(Sgd):", "    NAME = 'needy'", "    def __init__(self, *parts, **options):"]
    (tmp_path / "needy.py").write_text("\n".join([*lines, "        raise Exception('needy requires absent_package')"]))
    flags = ["--models_path", str(tmp_path), "--model", "needy", "--dataset", "seq-digits", "--base_path", str(tmp_path)]
    ended = subprocess.run([sys.executable, str(ROOT / "main.py"), *flags], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    said = ["error: the method needy cannot be built: Exception: needy requires absent_package", "LOG_LEVEL=DEBUG shows where."]
    assert ended.stderr.splitlines() == said
