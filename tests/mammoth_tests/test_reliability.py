"""Long tests with real processes, a real full disk and thousands of tasks; what they find goes into docs/reliability.json."""

import os
import random
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from datasets import register_dataset
from datasets.utils.continual_dataset import ContinualDataset, Split
from mammoth import runner
from mammoth.records import read_record
from tests.mammoth_tests.test_resume import NUMBERS, STATE, differing
from utils.checkpoints import load_checkpoint
from utils.evaluate import evaluate
from utils.yaml_files import ROOT

QUIET = ("--non_verbose", "1", "--threads", "1", "--device", "cpu")


@register_dataset("made-many-tasks")
class ManyTasks(ContinualDataset):
    """Ten images of ten classes, again in each of 2,000 tasks."""

    NAME = "made-many-tasks"
    SETTING = "domain-il"
    N_TASKS, N_CLASSES_PER_TASK, N_CLASSES, SIZE = 2000, 10, 10, (8, 8, 1)

    def load(self, train):
        pixels = torch.randint(256, (10, 8, 8, 1), generator=torch.Generator().manual_seed(int(train)))
        return Split(pixels.to(torch.uint8), torch.arange(10))


def start(*words: str, **options) -> subprocess.Popen:
    """Start a process on a command line of main.py."""
    return subprocess.Popen([sys.executable, "main.py", *words, *QUIET], cwd=ROOT, text=True, **options)


def newest(folder: Path) -> str:
    """Return the name of the newest checkpoint below a folder; empty if there is none."""
    return max((path.name for path in folder.rglob("t*_s*.pt")), default="")


def kill_after_progress(folder: Path, draws: random.Random, *words: str) -> None:
    """Go on with a run, and kill it at a random moment after a new checkpoint of it. Raises AssertionError if it ends before."""
    before = newest(folder)
    with start(*words, "--resume", "auto", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while newest(folder) <= before:
            assert process.poll() is None
            time.sleep(0.005)
        time.sleep(draws.uniform(0, 0.1))
        assert process.poll() is None
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL


@pytest.mark.long
def test_killed_twenty_times(tmp_path, note):
    """SIGKILL at random moments, 20 times in one run: the finished record and the last state are the uninterrupted run's."""
    words = ("--model", "er", "--n_iters", "1500", "--seed", "0", "--savecheck", "20")
    draws, found = random.Random(0), []
    for name, kills in (("whole", 0), ("killed", 20)):
        where = ("--base_path", str(tmp_path / name), "--checkpoint_path", str(tmp_path / name / "kept"))
        for _ in range(kills):
            kill_after_progress(tmp_path / name / "kept", draws, *words, *where)
        with start(*words, *where, "--resume", "auto", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            assert process.wait() == 0
        (record,), (last,) = (list((tmp_path / name).rglob(pattern)) for pattern in ("record.json", "last.pt"))
        found.append((read_record(record), load_checkpoint(last)))
    (whole, state), (killed, killed_state) = found
    assert len(killed["provenance"]["resumed_at"]) == 20
    assert differing(whole, killed, NUMBERS[1:]) + differing(state, killed_state, STATE) == []
    note("kills", survived=20, steps=killed["provenance"]["steps"])


@pytest.mark.long
def test_eight_processes_in_one_folder(tmp_path, note):
    """Four at one run and four at others, at once: five whole records, no file beside them, a line each in both logs.pyd."""
    seeds = ("0", "0", "0", "0", "1", "2", "3", "4")
    words = ("--model", "er", "--n_iters", "20", "--base_path", str(tmp_path))
    going = [start(*words, "--seed", seed, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for seed in seeds]
    for process in going:
        _, said = process.communicate()
        assert process.returncode == 0, said
    folders = list((tmp_path / "results" / "records").iterdir())
    contents = [read_record(folder / "record.json") for folder in folders]
    assert sorted(content["args"]["seed"] for content in contents) == [0, 1, 2, 3, 4]
    assert all(content["status"] == "done" and len(content["class_il"]) == 5 for content in contents)
    assert [path.name for folder in folders for path in folder.iterdir()] == ["record.json"] * 5
    logs = [path.read_text().splitlines() for path in tmp_path.rglob("logs.pyd")]
    assert [len(lines) for lines in logs] == [len(seeds)] * 2  # of Class-IL and of Task-IL
    note("processes", processes=len(seeds), runs=len(set(seeds)), records=len(contents))


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 2 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], check=False).returncode:
        pytest.skip("a small disk needs the right to mount one")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.long
def test_a_full_disk(small_disk, tmp_path, note):
    """A run that fills it with checkpoints stops with the reason and status 1, and each checkpoint there can be read."""
    words = ("--model", "er", "--n_iters", "100000", "--savecheck", "5", "--keep_checkpoints", "1000", "--seed", "0")
    where = ("--base_path", str(tmp_path), "--checkpoint_path", str(small_disk))
    with start(*words, *where, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        _, said = process.communicate(timeout=300)
    assert process.returncode == 1
    assert "No space left on device" in said.splitlines()[-1]
    kept = [path for path in small_disk.rglob("*") if path.is_file()]
    assert len(kept) > 1
    for path in kept:
        assert load_checkpoint(path)["progress"]["steps"] > 0
    note("full_disk", megabytes=2, checkpoints=len(kept), status=process.returncode)


def resident_mb() -> float:
    """Return this process's resident memory in MB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def open_files() -> int:
    """Return how many files this process has open."""
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.long
def test_two_thousand_tasks(resolve, note):
    """One step and an evaluation of the newest task each, a memory of 1,000 images: neither memory nor open files grow."""
    words = ("--dataset", "made-many-tasks", "--backbone", "mnistmlp", "--lr", "0.01", "--batch_size", "10", "--n_epochs", "1")
    parts = runner.build(resolve("--model", "er", "--buffer_size", "1000", "--n_iters", "1", *words))
    memory, seconds, before = [], [], open_files()
    for _ in range(parts.dataset.N_TASKS):
        begun = time.process_time()  # the machine may be busy with other things
        parts.dataset.get_data_loaders()
        runner.train_task(parts)
        evaluate(parts.model, parts.dataset, last=True)
        seconds.append(time.process_time() - begun)
        memory.append(resident_mb())
    (memory_ratio, time_ratio) = (
        statistics.median(values[-100:]) / statistics.median(values[:100]) for values in (memory, seconds)
    )
    assert memory_ratio < 1.1
    assert open_files() <= before
    figures = {"memory_ratio": memory_ratio, "time_ratio": time_ratio, "files_before": before, "files_after": open_files()}
    note("soak", tasks=len(memory), memory=1000, **{name: round(value, 3) for name, value in figures.items()})
