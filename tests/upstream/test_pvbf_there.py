"""Our `models/pvbf.py` runs in upstream Mammoth as it is."""

import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

from mammoth.upstream_tests import write_idx
from tests.upstream.conftest import ROOT

LINE = re.compile(r"Accuracy for (\d) task\(s\):.*\[Class-IL\]: ([\d.]+) %")


def made_mnist(base):
    """Lay out 28 x 28 images, a bright column a class, as MNIST's files, under both names that upstream looks for."""
    random = np.random.default_rng(0)
    for folder in ("MyMNIST", "MNIST"):
        raw = base / "MNIST" / folder / "raw"
        raw.mkdir(parents=True)
        for split, count in (("train", 400), ("t10k", 100)):
            labels = np.arange(count) % 10
            images = random.integers(0, 60, (count, 28, 28))
            images[np.arange(count), :, 2 * labels + 4] = 255
            write_idx(raw / f"{split}-images-idx3-ubyte", images)
            write_idx(raw / f"{split}-labels-idx1-ubyte", labels)


@pytest.mark.long
def test_pvbf_trains_two_tasks_in_upstream_mammoth(upstream, tmp_path):
    """Its `main.py` runs our file from the command line; accuracy on the first task is far above chance."""
    pytest.importorskip("six", reason="upstream's main.py needs `pip install six`")
    there = tmp_path / "mammoth"
    shutil.copytree(upstream, there, ignore=shutil.ignore_patterns(".git", "data", "__pycache__"))
    for file in (*there.glob("datasets/*.py"), *there.glob("backbone/*.py")):  # it imports all, with packages that few people have
        if file.name not in ("__init__.py", "seq_mnist.py", "MNISTMLP.py"):
            file.unlink()
    shutil.copy(ROOT / "models" / "pvbf.py", there / "models" / "pvbf.py")
    made_mnist(tmp_path / "data")
    words = "--model pvbf --dataset seq-mnist --buffer_size 50 --lr 0.1 --batch_size 10 --n_epochs 3 --seed 0 --stop_after 2"
    quiet = "--num_workers 0 --non_verbose 1"
    command = [sys.executable, "main.py", *words.split(), *quiet.split(), "--base_path", str(tmp_path / "data")]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    ended = subprocess.run(command, cwd=there, capture_output=True, text=True, timeout=600, check=False, env=environment)
    assert ended.returncode == 0, ended.stdout[-1500:] + ended.stderr[-1500:]
    accuracies = [(int(tasks), float(value)) for tasks, value in LINE.findall(ended.stderr)]
    assert [tasks for tasks, _ in accuracies] == [1, 2]
    assert accuracies[0][1] > 80
