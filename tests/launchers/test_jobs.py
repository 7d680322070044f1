"""A run is done once: claims, what a record says, and looking again before doing it."""

import json
import os
import platform
import subprocess
import sys

import pytest

from mammoth.experiments import load_experiment
from mammoth.launchers import jobs
from mammoth.launchers.jobs import ELSEWHERE, Claim, Job, Outcome, claimed, perform, settled, stamp
from mammoth.sweep import plan

HOLD = """
import sys, time
from pathlib import Path
from mammoth.launchers.jobs import Claim
with Claim(Path(sys.argv[1])) as claim:
    print(claim.held, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    """Return a process that holds the claim on the temporary folder."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "True\n"
    yield process
    process.kill()
    process.communicate()


@pytest.fixture
def ran(monkeypatch):
    """Let runs do nothing but be counted; returns the list of their command lines."""
    argvs = []
    monkeypatch.setattr(jobs, "execute", lambda argv, log: argvs.append(argv) or Outcome(argv, 0, ""))
    return argvs


def write(folder, status, name="record.json", **provenance):
    """Write a record of this status, by this process unless said otherwise."""
    by = {"host": platform.node(), "pid": os.getpid(), **provenance}
    content = {"schema": 1, "status": status, "args": {}, "class_il": [], "provenance": by, "reason": "nan"}
    (folder / name).write_text(json.dumps(content))


def job(folder):
    """Return a job in this folder, decided on now."""
    return Job(("--seed", "0"), folder / "log.txt", stamp(folder))


def test_a_claim_is_one_process_at_a_time(tmp_path, holder):
    """While one holds it no other is granted it; when its process is killed, the next is."""
    assert claimed(tmp_path)
    with Claim(tmp_path, patience=0.1) as claim:
        assert not claim.held
    holder.kill()
    holder.wait()
    assert not claimed(tmp_path)
    with Claim(tmp_path, patience=0.1) as claim:
        assert claim.held
    assert jobs.holders(tmp_path) == [f"{platform.node()} {holder.pid}", f"{platform.node()} {os.getpid()}"]


def test_a_run_claimed_elsewhere_is_left_alone(tmp_path, holder, ran):
    """It says who has it, and does nothing."""
    outcome = perform(job(tmp_path))
    assert outcome.status == ELSEWHERE
    assert str(holder.pid) in outcome.message
    assert ran == []


def test_looking_does_not_claim(tmp_path, ran):
    """Someone who asks whether a run is claimed does not keep it from being done."""
    assert not claimed(tmp_path)
    assert perform(job(tmp_path)).status == 0
    assert not claimed(tmp_path)
    assert len(ran) == 1


@pytest.mark.parametrize(("status", "ends"), [("done", (0, "done elsewhere")), ("failed", (1, "error: nan"))])
def test_what_was_done_meanwhile_is_not_done_again(status, ends, tmp_path, ran):
    """The record has changed since the run was decided on: its outcome stands."""
    decided = job(tmp_path)
    write(tmp_path, status)
    assert perform(decided)[1:] == ends
    assert ran == []


@pytest.mark.parametrize("status", ["done", "failed", "interrupted", "running"])
def test_what_was_known_when_it_was_decided_on_is_done(status, tmp_path, ran):
    """A record that has not changed since (stale, failed) does not keep the run from being done."""
    write(tmp_path, status)
    assert perform(job(tmp_path)).status == 0
    assert len(ran) == 1


def test_a_run_by_hand_is_left_alone_while_it_lives(tmp_path, ran):
    """`python main.py` takes no claim: the pid in its record decides."""
    decided = job(tmp_path)
    write(tmp_path, "running", pid=os.getppid())
    assert perform(decided).status == ELSEWHERE
    write(tmp_path, "running", pid=2**22 + 1)
    assert perform(decided).status == 0
    assert len(ran) == 1


def test_a_rerun_of_a_stale_record_counts_as_the_run(tmp_path, experiment, monkeypatch):
    """Beside a record of older code, `rerun.json` says how the new attempt stands."""
    (run,) = plan(load_experiment(experiment(seeds=1)), only="sgd")
    run.folder.mkdir(parents=True)
    write(run.folder, "done", source_digest="older")
    assert run.state() == "stale"
    decided = run.job()
    for pid, state in ((os.getppid(), "running"), (2**22 + 1, "interrupted")):
        write(run.folder, "running", "rerun.json", pid=pid)
        assert run.state() == state
    write(run.folder, "failed", "rerun.json")
    assert run.state() == "failed"
    assert settled(decided) == Outcome(run.argv, 1, "error: nan")
    monkeypatch.setattr("mammoth.sweep.digest_for", lambda args: "older")
    assert run.state() == "done"


def test_a_killed_worker_on_another_machine_does_not_block(tmp_path):
    """Its claim is free, so it is gone, though its pid cannot be looked up from here."""
    decided = job(tmp_path)
    write(tmp_path, "running", host="node7", pid=3)
    assert settled(decided).status == ELSEWHERE
    (tmp_path / "claim").write_text("node7 3\nnode8 4\n")
    assert settled(decided) is None


def test_what_a_killed_process_left_is_removed(tmp_path, ran):
    """Half-written files under temporary names, and the place in a queue."""
    for name in (".record.json.abc.tmp", "queued"):
        (tmp_path / name).write_text("")
    perform(job(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["claim"]


def test_the_device_is_added_unless_it_is_said(tmp_path, ran):
    """A worker pinned to a GPU says so to its runs; the outcome keeps the command line that was asked for."""
    assert perform(job(tmp_path), "cuda:1").argv == ("--seed", "0")
    perform(Job(("--device=cpu",), tmp_path / "log.txt"), "cuda:1")
    assert ran == [("--seed", "0", "--device", "cuda:1"), ("--device=cpu",)]
