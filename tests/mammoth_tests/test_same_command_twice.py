"""The same command twice gives the same record and the same last state, times aside: every method, one thread and two."""

import os
import subprocess
import sys

import pytest

import models
from mammoth.records import read_record
from tests.mammoth_tests.test_resume import NUMBERS, STATE, differing
from utils.checkpoints import load_checkpoint
from utils.yaml_files import ROOT

METHODS = sorted(models.get_model_names())
SHORT = (
    "--n_iters",
    "5",
    "--stop_after",
    "2",
    "--seed",
    "0",
    "--savecheck",
    "last",
    "--record_variation",
    "1",
    "--non_verbose",
    "1",
)
COLOURS = '''"""Random images of 32 x 32 pixels, ten of each of four classes."""
import torch
from datasets.utils.continual_dataset import ContinualDataset, Split

class Colours(ContinualDataset):
    """Four classes in two tasks."""

    NAME, SETTING = "made-colours", "class-il"
    N_TASKS, N_CLASSES_PER_TASK, N_CLASSES, SIZE = 2, 2, 4, (32, 32, 3)
    TRANSFORM = [{"RandomCrop": {"size": 32, "padding": 4}}, "RandomHorizontalFlip", "ToTensor"]

    def load(self, train):
        pixels = torch.randint(256, (40, 32, 32, 3), generator=torch.Generator().manual_seed(int(train)))
        return Split(pixels.to(torch.uint8), torch.arange(40) % 4)
'''
EACH = """
import sys
from mammoth.cli import main
from mammoth.settings import resolve
from utils.args import actions_by_name
for method in sys.argv[1].split(","):
    flags = actions_by_name(resolve(["--model", method, "--help"]).parser)
    memory = ["--buffer_size", "20"] if "buffer_size" in flags else []
    assert main(["--model", method, "--results_path", method, *memory, *sys.argv[2:]]) == 0, method
"""


def found(folder, method):
    """Return a method's record and its last state, of those below a folder."""
    (record,) = (folder / "results" / method).rglob("record.json")
    content = read_record(record)
    return content, load_checkpoint(folder / "kept" / content["run_id"] / "last.pt")


def differences(one, other):
    """Return what differs between two pairs of record and last state."""
    return differing(one[0], other[0], ("run_id", *NUMBERS[1:])) + differing(one[1], other[1], STATE)


@pytest.mark.parametrize("method", ["pvbf", "icarl"])
def test_twice_in_one_process(method, go, tmp_path):
    """Whatever the first run left behind, the second ends the same."""
    for name in ("first", "second"):
        go(
            "--model",
            method,
            *SHORT[:-2],
            "--results_path",
            f"{name}/results/{method}",
            "--checkpoint_path",
            str(tmp_path / name / "kept"),
        )
    assert differences(found(tmp_path / "first", method), found(tmp_path / "second", method)) == []


def run_all(folder, methods, hashes, *words):
    """Run all methods in one process, in this order, Python's sets in an order of their own."""
    where = ("--base_path", str(folder / "results"), "--checkpoint_path", str(folder / "kept"))
    command = [sys.executable, "-c", EACH, ",".join(methods), *SHORT, *words, *where]
    subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "PYTHONHASHSEED": hashes})


@pytest.mark.long
def test_every_method_in_two_processes(tmp_path, note):
    """A convolutional network, whose sums the threads share; in the second process the last method comes first."""
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "colours.py").write_text(COLOURS)
    words = ("--dataset", "made-colours", "--datasets_path", str(tmp_path / "made"), "--backbone", "reduced-resnet18")
    rates = ("--batch_size", "5", "--lr", "0.03", "--n_epochs", "1", "--device", "cpu")
    for threads in ("1", "2"):
        first, second = tmp_path / threads / "first", tmp_path / threads / "second"
        run_all(first, METHODS, "1", *words, *rates, "--threads", threads)
        run_all(second, METHODS[::-1], "2", *words, *rates, "--threads", threads)
        assert {found(first, method)[0]["provenance"]["threads"] for method in METHODS} == {int(threads)}
        differ = {method: differences(found(first, method), found(second, method)) for method in METHODS}
        assert {method: what for method, what in differ.items() if what} == {}
    note("twice", methods=len(METHODS), threads="1 and 2")
