"""What all tests share: a run in this process on data made in code or bundled, in a temporary folder."""

import resource
import signal
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from datasets.seq_digits import SequentialDigits
from datasets.utils.continual_dataset import Split
from mammoth import records, settings
from mammoth.report import documents, reliability
from mammoth.runner import run
from utils import randomness
from utils.files import write_atomically
from utils.yaml_files import ROOT


@pytest.fixture(scope="session", autouse=True)
def _signals_as_from_a_terminal() -> None:
    """Processes started by tests inherit what is ignored: Ctrl-C in a shell's background job, SIGHUP under nohup."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session", autouse=True)
def _read_once() -> Iterator[None]:
    """The digits' file and the sources are parsed once for all tests: most of the time of a short run goes there."""
    read, parse = cache(lambda train: SequentialDigits.load_unpatched(None, train)), cache(records._without_docstrings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SequentialDigits, "load_unpatched", SequentialDigits.load, raising=False)
        patch.setattr(SequentialDigits, "load", lambda self, train: Split(*(part.clone() for part in read(train))))
        patch.setattr(records, "_without_docstrings", parse)
        yield


@pytest.fixture(autouse=True)
def _one_thread_and_a_seed() -> None:
    """Every test starts from the same generators, on one thread."""
    torch.set_num_threads(1)
    randomness.start(0)


@pytest.fixture
def resolve(tmp_path: Path) -> Callable[..., Any]:
    """Return a function from words of a command line to the resolved arguments; results go to a temporary folder."""

    def resolved(*words: str) -> Any:
        quiet = ("--non_verbose", "1", "--threads", "1", "--device", "cpu", "--base_path", str(tmp_path))
        seed = () if "--seed" in words else ("--seed", "0")
        return settings.resolve([*words, *seed, *quiet]).args

    return resolved


@pytest.fixture
def go(resolve: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    """Return a function that runs a command line in this process and returns its record."""

    def gone(*words: str) -> dict[str, Any]:
        return run(resolve(*words), list(words)).content

    return gone


@pytest.fixture
def note() -> Callable[..., None]:
    """Return a function that puts what a long test found into docs/reliability.json and docs/reliability.md."""

    def noted(key: str, **figures: Any) -> None:
        reliability.note(key, **figures)
        page = ROOT / "docs" / "reliability.md"
        write_atomically(page, documents.refreshed(page.read_text(encoding="utf-8")))

    return noted


@pytest.fixture
def little_memory() -> Iterator[None]:
    """Let this process take 300 MB more than it has, so that a file made to do harm cannot take the machine's memory."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + 300 * 2**20, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)
