"""Sweeps as real processes: two at once, killed, terminated; and what a terminal shows."""

import io
import os
import pty
import signal
import subprocess
import sys
import threading

import pytest

from mammoth import results
from mammoth.experiments import load_experiment
from mammoth.launchers import local
from mammoth.launchers.live import Live
from mammoth.sweep import plan
from tests.launchers.conftest import ROOT, is_running, records, wait_for

LONG = {"n_iters": 2000}  # a run to be stopped: seconds


def running(folder):
    """Return the records of runs that are being trained."""
    return [record for record in records(folder) if record["status"] == "running"]


def whole(folder, runs):
    """Whether all runs are done, each with a row, and nothing half-written is left."""
    rows = results.read_rows(folder / "results" / "table.csv")
    assert {record["status"] for record in records(folder)} == {"done"}
    assert not list(folder.rglob("*.tmp"))
    return len(records(folder)) == len(rows) == len({row["run_id"] for row in rows}) == runs


def test_two_sweeps_at_once_do_each_run_once(experiment, start, tmp_path):
    """Both end with status 0 and all rows; the runs that each did itself add up to all."""
    path = experiment(seeds=3, n_iters=40)
    outputs = [process.communicate(timeout=120) for process in [start("run", path, "--jobs", "1") for _ in range(2)]]
    lines = [line for out, _ in outputs for line in out.splitlines() if line.startswith("[")]
    assert [err for _, err in outputs] == ["", ""]
    assert len([line for line in lines if "done elsewhere" not in line]) == 6
    assert whole(tmp_path, 6)


PARENT = """
import signal, sys
from pathlib import Path
from mammoth.launchers.jobs import Job
from mammoth.launchers.local import Pool
from mammoth.launchers.signals import stop_signals
with stop_signals(), Pool([""], command=(sys.executable, sys.argv[1])) as pool:
    pool.add([Job(("x",), Path(sys.argv[2]) / "log.txt")])
    while pool.busy:
        pool.poll(1.0)
"""
WORKER = """
import os, sys, time
from mammoth.launchers.worker import serve

def perform(job, device):
    try:
        job.log.with_name("pid").write_text(str(os.getpid()) + chr(10))
        time.sleep(60)
    finally:
        job.log.with_name("closed").write_text(sys.exc_info()[0].__name__)

serve(int(sys.argv[1]), sys.argv[2], perform)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
def test_workers_never_outlive_their_parent(number, tmp_path):
    """However the parent is stopped, the run at hand is interrupted in order and its process ends."""
    (tmp_path / "worker.py").write_text(WORKER)
    parent = subprocess.Popen([sys.executable, "-c", PARENT, tmp_path / "worker.py", tmp_path], cwd=ROOT, stderr=subprocess.DEVNULL)
    pid = tmp_path / "pid"
    worker = int(wait_for(lambda: pid.is_file() and pid.read_text().endswith("\n") and pid.read_text()))
    parent.send_signal(number)
    parent.wait(20)
    wait_for(lambda: not is_running(worker), 20)
    assert (tmp_path / "closed").read_text() == "KeyboardInterrupt"


@pytest.mark.long
def test_a_terminated_sweep_stops_its_workers(experiment, start, tmp_path):
    """SIGTERM: status 130, the worker ends, and the run counts as interrupted."""
    path = experiment(seeds=1, **LONG)
    sweep = start("run", path, "--jobs", "1")
    (record,) = wait_for(lambda: running(tmp_path))
    sweep.send_signal(signal.SIGTERM)
    assert sweep.communicate(timeout=60)[1].startswith("interrupted: ")
    assert sweep.returncode == 130
    assert not is_running(record["provenance"]["pid"])
    assert [run.state() for run in plan(load_experiment(path))] == ["interrupted", "missing"]


@pytest.mark.long
def test_a_killed_sweep_takes_its_workers_along(experiment, start, tmp_path):
    """SIGKILL: the workers notice, close their records, and the same command finishes the sweep."""
    path = experiment(seeds=1, **LONG)
    sweep = start("run", path, "--jobs", "2")
    pids = [record["provenance"]["pid"] for record in wait_for(lambda: len(running(tmp_path)) == 2 and running(tmp_path))]
    sweep.kill()
    wait_for(lambda: not any(map(is_running, pids)), 20)
    assert [run.state() for run in plan(load_experiment(path))] == ["interrupted"] * 2
    again = start("run", path, "--jobs", "2")
    assert again.communicate(timeout=200)[1] == ""
    assert again.returncode == 0
    assert whole(tmp_path, 2)


@pytest.mark.long
def test_a_killed_worker_loses_nothing(experiment, start, tmp_path):
    """Its run is tried again in a new process; all are done, each once."""
    sweep = start("run", experiment(seeds=1, **LONG), "--jobs", "2")
    os.kill(wait_for(lambda: running(tmp_path))[0]["provenance"]["pid"], signal.SIGKILL)
    out, err = sweep.communicate(timeout=200)
    assert (sweep.returncode, err) == (0, "")
    assert "killed (SIGKILL), trying it again" in out
    assert whole(tmp_path, 2)


@pytest.mark.long
def test_what_another_sweep_leaves_undone_is_done(experiment, start, tmp_path):
    """The second waits for the first's run; the first is killed; the second does the run."""
    path = experiment(seeds=1, n_iters=8000)  # still at it when the third sweep looks, on a busy machine too
    first = start("run", path, "--only", "er", "--jobs", "1")
    wait_for(lambda: running(tmp_path))
    second = start("run", path, "--only", "er", "--jobs", "1")
    assert "1 running elsewhere" in second.stdout.readline()
    skipping = start("run", path, "--only", "er", "--no_wait")
    assert "running elsewhere: ER - seed 0" in skipping.communicate(timeout=60)[0]
    first.kill()
    assert second.communicate(timeout=200)[1] == ""
    assert second.returncode == 0
    assert whole(tmp_path, 1)


@pytest.mark.long
def test_ctrl_c_on_a_terminal(experiment, tmp_path):
    """The whole group gets SIGINT; the sweep says one line and the record is interrupted; before, the table was drawn in place."""
    controller, terminal = pty.openpty()
    command = [sys.executable, "-m", "mammoth.sweep", "run", str(experiment(seeds=1, **LONG)), "--jobs", "1"]
    sweep = subprocess.Popen(command, cwd=ROOT, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True)
    os.close(terminal)
    shown = bytearray()
    reader = threading.Thread(target=lambda: _read(controller, shown), daemon=True)
    reader.start()
    wait_for(lambda: b"task 1 of" in shown or b"task 2 of" in shown)
    os.killpg(sweep.pid, signal.SIGINT)
    assert sweep.wait(60) == 130
    reader.join(10)
    os.close(controller)
    assert b"1 running, 1 waiting; ? left" in shown
    assert b"\x1b[2F\x1b[J" in shown
    assert b"Traceback" not in shown
    assert shown.decode().splitlines()[-1].endswith("the same command goes on from here")
    assert [record["status"] for record in records(tmp_path)] == ["interrupted"]  # it was past its first task


def _read(controller, shown):
    """Read a terminal until its other end is closed."""
    try:
        while data := os.read(controller, 4096):
            shown += data
    except OSError:  # how Linux says that the other end is closed
        return


def test_a_table_is_drawn_only_on_a_terminal():
    """Elsewhere a line a finished run, and nothing that moves."""
    stream = io.StringIO()
    with Live(stream) as live:
        live.show(["a table"])
        live.say("a line")
    assert stream.getvalue() == "a line\n"


def test_slots_follow_cores_and_gpus(monkeypatch):
    """Without a GPU: as many as cores; with GPUs: so many on each, each pinned; --jobs wins."""
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    assert local.slots() == [""] * local.available_cores()
    assert local.slots(3) == ["", "", ""]
    with pytest.raises(ValueError, match="no GPU"):
        local.slots(0, 2)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert local.slots() == ["cuda:0", "cuda:1"]
    assert local.slots(0, 2) == ["cuda:0", "cuda:1", "cuda:0", "cuda:1"]
    assert local.slots(3) == ["cuda:0", "cuda:1", "cuda:0"]
