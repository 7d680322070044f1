"""How many threads a run takes, and how it knows of the others."""

import contextlib
import os
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from utils import threads
from utils.threads import RunSlot, available_cores, choose_threads, prepare_environment
from utils.yaml_files import ROOT

HOLD = """
import sys
from pathlib import Path
from utils.threads import RunSlot
with RunSlot(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
"""


@contextlib.contextmanager
def another_run(folder):
    """Hold a slot in another process until the block ends."""
    command = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


@pytest.fixture(autouse=True)
def _no_wish_in_the_environment(monkeypatch):
    """The tests say themselves what the environment holds."""
    for name in ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        monkeypatch.delenv(name, raising=False)


# -- choose_threads ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("others", "cores", "expected"), [(0, 8, 8), (1, 8, 4), (2, 8, 2), (3, 8, 2), (7, 8, 1), (20, 8, 1), (0, 1, 1), (1, 2, 1)]
)
def test_cores_are_shared_with_the_other_runs(others, cores, expected):
    """At least one each."""
    assert choose_threads(0, others, cores) == expected


def test_what_is_asked_for_is_taken(monkeypatch):
    """Whatever else runs, and whatever the environment says."""
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert choose_threads(5, others=7, cores=2) == 5


@pytest.mark.parametrize(("value", "expected"), [("3", 3), ("0", 1), ("16", 16)])
def test_the_environment_decides_where_nothing_is_asked(monkeypatch, value, expected):
    """OMP_NUM_THREADS goes before sharing."""
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert choose_threads(0, others=3, cores=8) == expected


@pytest.mark.parametrize("value", ["", "many", "-2"])
def test_nonsense_in_the_environment_is_ignored(monkeypatch, value):
    """As if it were not set."""
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert choose_threads(0, others=1, cores=8) == 4


def test_cores_are_counted_where_not_given(monkeypatch):
    """All that this process may use."""
    monkeypatch.setattr(threads, "available_cores", lambda: 6)
    assert choose_threads(0, others=1) == 3


def test_available_cores_heeds_the_affinity(monkeypatch):
    """A container's or taskset's share counts, not the machine."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3, 5}, raising=False)
    assert available_cores() == 3


@given(asked=st.integers(0, 64), others=st.integers(0, 64), cores=st.integers(1, 64))
@settings(deadline=None, max_examples=60)
def test_runs_together_never_exceed_the_cores(asked, others, cores):
    """Unless each must have one thread at least."""
    os.environ.pop("OMP_NUM_THREADS", None)
    found = choose_threads(asked, others, cores)
    assert found == asked or (asked == 0 and 1 <= found and (found == 1 or found * (1 + others) <= cores))


# -- RunSlot -----------------------------------------------------------------------------------------------------------


def test_a_run_alone_finds_nobody(tmp_path):
    """It does not count itself, and needs no folder beforehand."""
    folder = tmp_path / "runs"
    assert RunSlot(folder).others() == 0
    with RunSlot(folder) as slot:
        assert slot.others() == 0
        assert [path.name for path in folder.iterdir()] == [f"{os.getpid()}.lock"]
    assert list(folder.iterdir()) == []


def test_another_process_is_counted_while_it_lives(tmp_path):
    """One more while it holds its lock, none once it is killed; its file goes then."""
    with RunSlot(tmp_path) as slot:
        with another_run(tmp_path):
            assert slot.others() == 1
            assert slot.others() == 1
            assert len(list(tmp_path.glob("*.lock"))) == 2
        assert slot.others() == 0
        assert len(list(tmp_path.glob("*.lock"))) == 1


def test_two_others_are_two(tmp_path):
    """Seen from a process that holds no slot."""
    with another_run(tmp_path), another_run(tmp_path):
        assert RunSlot(tmp_path).others() == 2


def test_a_run_that_ends_in_order_removes_its_file(tmp_path):
    """The other process is told to go."""
    with another_run(tmp_path) as process:
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.wait(20) == 0
        assert list(tmp_path.iterdir()) == []


def test_the_slot_is_let_go_after_an_error(tmp_path):
    """A run that fails counts no longer."""
    with pytest.raises(KeyError), RunSlot(tmp_path):
        raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_files_of_runs_that_ended_are_removed(tmp_path):
    """Nobody holds them."""
    for number in (1, 2):
        (tmp_path / f"{10**8 + number}.lock").touch()
    assert RunSlot(tmp_path).others() == 0
    assert list(tmp_path.iterdir()) == []


def test_other_files_are_left_alone(tmp_path):
    """Only locks are looked at."""
    (tmp_path / "notes.txt").write_text("mine")
    assert RunSlot(tmp_path).others() == 0
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_folder_that_cannot_be_made_costs_no_run(tmp_path):
    """The run goes on alone."""
    (tmp_path / "file").touch()
    with RunSlot(tmp_path / "file" / "runs") as slot:
        assert slot.others() == 0


def test_a_second_run_in_one_process_leaves_the_first_its_slot(tmp_path):
    """The first stays visible to others until it ends itself."""
    with RunSlot(tmp_path) as first:
        with RunSlot(tmp_path):
            pass
        assert [path.name for path in tmp_path.iterdir()] == [f"{os.getpid()}.lock"]
        assert first.others() == 0
    assert list(tmp_path.iterdir()) == []


# -- prepare_environment -----------------------------------------------------------------------------------------------


def test_the_waiting_loop_is_shortened():
    """Where the user set nothing."""
    prepare_environment()
    assert os.environ.pop("GOMP_SPINCOUNT") == threads.SPIN


@pytest.mark.parametrize(("name", "value"), [("GOMP_SPINCOUNT", "77"), ("OMP_WAIT_POLICY", "ACTIVE")])
def test_the_users_own_setting_stands(monkeypatch, name, value):
    """Either variable."""
    monkeypatch.setenv(name, value)
    prepare_environment()
    assert os.environ[name] == value
    assert ("GOMP_SPINCOUNT" in os.environ) == (name == "GOMP_SPINCOUNT")


def test_preparing_needs_no_torch():
    """It must run before torch is imported: the module itself must not import it."""
    code = "import sys, utils.threads; utils.threads.prepare_environment(); sys.exit('torch' in sys.modules)"
    assert torch.__name__ in sys.modules
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
