"""Upstream Mammoth's checkout, from the environment variable MAMMOTH_UPSTREAM; without it these tests are skipped."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MADE = '''
"""Images made in code."""

import torch

from datasets.utils.continual_dataset import ContinualDataset, Split


class Made(ContinualDataset):
    """Noise around one colour a class, 16 x 16, 2 tasks of 2 classes."""

    NAME = "made"
    SETTING = "class-il"
    N_CLASSES_PER_TASK, N_TASKS, N_CLASSES = 2, 2, 4
    SIZE = (16, 16, 3)
    TRANSFORM = ["ToTensor", {"Normalize": {"mean": [0.5, 0.5, 0.5], "std": [0.25, 0.25, 0.25]}}]
    TEST_TRANSFORM = TRANSFORM

    def load(self, train):
        labels = torch.arange(4).repeat_interleave(40 if train else 10)
        generator = torch.Generator().manual_seed(int(train))
        colours = torch.tensor([[40, 90, 200], [200, 60, 60], [60, 200, 90], [120, 120, 30]])
        noise = torch.randint(0, 50, (len(labels), 16, 16, 3), generator=generator)
        return Split((colours[labels][:, None, None] + noise).to(torch.uint8), labels)
'''
CONFIG = "batch_size: 16\nn_epochs: 1\nlr: 0.05\nbackbone: resnet18\nnum_filters: 4\n"


@pytest.fixture(scope="session")
def upstream() -> Path:
    """Return the folder of upstream's checkout."""
    folder = os.environ.get("MAMMOTH_UPSTREAM")
    if not folder:
        pytest.skip("MAMMOTH_UPSTREAM names no checkout of upstream Mammoth")
    return Path(folder).resolve()


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of data sets, with one made in code."""
    folder = tmp_path_factory.mktemp("datasets")
    (folder / "configs" / "made").mkdir(parents=True)
    (folder / "made.py").write_text(MADE)
    (folder / "configs" / "made" / "default.yaml").write_text(CONFIG)
    return folder


def command_line(words: list[str], folder: Path, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    """Run `main.py` in a process of its own, with results in `folder`; return how it ended."""
    quiet = ["--base_path", str(folder), "--device", "cpu", "--threads", "1", "--non_verbose", "1", "--seed", "0"]
    command = [sys.executable, str(ROOT / "main.py"), *words, *quiet]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
