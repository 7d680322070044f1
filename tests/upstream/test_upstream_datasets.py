"""Upstream's data set files run here as they are, on data made in code."""

import json
import pickle
import subprocess
import sys

import numpy as np
import pytest

from mammoth.upstream_tests import make_mnist, make_tinyimg
from tests.upstream.conftest import ROOT

UNCHECKED = """
import sys

from torchvision.datasets import CIFAR10, CIFAR100

for cls in (CIFAR10, CIFAR100):  # the files are made in code: torchvision is not to compare them with the published ones
    cls.train_list, cls.test_list = ([[name, None] for name, _ in files] for files in (cls.train_list, cls.test_list))
    cls.meta = {**cls.meta, "md5": None}

from mammoth import cli

sys.exit(cli.main(sys.argv[1:]))
"""
FILES = {  # the name of each and the tasks of its default
    "seq-mnist": ("mnistmlp", 2),
    "perm-mnist": ("mnistmlp", 0),
    "rot-mnist": ("mnistmlp", 0),
    "seq-cifar10": ("resnet18", 2),
    "seq-cifar100": ("resnet18", 10),
    "seq-tinyimg": ("resnet18", 20),
}


def write_pickle(path, labels, classes):
    """Write 200 images of noise in CIFAR's format."""
    random = np.random.default_rng(0)
    data = random.integers(0, 256, (200, 3072), dtype=np.uint8)
    path.write_bytes(pickle.dumps({"data": data, labels: [place % classes for place in range(200)], "filenames": []}))


def make_cifar(base):
    """Lay out images made in code as both CIFAR sets are."""
    ten, hundred = base / "CIFAR10" / "cifar-10-batches-py", base / "CIFAR100" / "cifar-100-python"
    ten.mkdir(parents=True)
    hundred.mkdir(parents=True)
    for name in (*(f"data_batch_{part}" for part in range(1, 6)), "test_batch"):
        write_pickle(ten / name, "labels", 10)
    for name in ("train", "test"):
        write_pickle(hundred / name, "fine_labels", 100)
    (ten / "batches.meta").write_bytes(pickle.dumps({"label_names": [f"class {place}" for place in range(10)]}))
    (hundred / "meta").write_bytes(pickle.dumps({"fine_label_names": [f"class {place}" for place in range(100)]}))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Return a folder with data made in code for all files."""
    base = tmp_path_factory.mktemp("data")
    for make in (make_mnist, make_cifar, make_tinyimg):
        make(base)
    return base


def run_file(dataset, upstream, data, *flags):
    """Run er on upstream's data set file for two tasks of three steps; return how the process ended."""
    words = ["--datasets_path", str(upstream / "datasets"), "--dataset", dataset, "--base_path", str(data), "--seed", "0"]
    words += "--model er --buffer_size 20 --lr 0.1 --n_iters 3 --stop_after 2 --device cpu --threads 1 --non_verbose 1".split()
    command = [sys.executable, "-c", UNCHECKED, *words, *flags]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)


@pytest.mark.long
@pytest.mark.parametrize("dataset", FILES)
def test_an_upstream_data_set_runs_for_two_tasks(dataset, upstream, data):
    """Two tasks end with a record; network, classes per task and the digest are the file's."""
    network, classes = FILES[dataset]
    small = ["--num_filters", "16"] if network == "resnet18" else []
    ended = run_file(dataset, upstream, data, *small)
    assert ended.returncode == 0, ended.stderr[-2000:]
    record = json.loads(next(data.glob(f"results/records/er_{dataset}_*/record.json")).read_text())
    assert record["status"] == "done"
    assert [len(row) for row in record["class_il"]] == [1, 2]
    assert record["args"]["backbone"] == network
    assert record["args"]["dataset_file"]
    assert classes == (0 if record["setting"] == "domain-il" else record["task_sizes"][0])


@pytest.mark.long
def test_a_flag_of_an_upstream_data_set(upstream, data):
    """--transform_type strong is a keyword of the file's constructor, and the file says that it is used."""
    ended = run_file("seq-cifar10", upstream, data, "--transform_type", "strong", "--num_filters", "16")
    assert ended.returncode == 0, ended.stderr[-2000:]
