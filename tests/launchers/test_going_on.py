"""A sweep's run that was stopped goes on from its checkpoint by itself, and begins anew where that is of no use."""

import os
import signal

import pytest
import torch

from mammoth import runner
from mammoth.experiments import load_experiment
from mammoth.launchers.jobs import STOPPED, perform
from mammoth.launchers.worker import read_job, to_line
from mammoth.sweep import plan
from models import ContinualModel
from tests.launchers.conftest import is_running, records, wait_for
from tests.mammoth_tests.test_resume import NUMBERS, differing
from utils.checkpoints import load_checkpoint


@pytest.fixture
def run(experiment, tmp_path):
    """Return a sweep's run of ER: two tasks of four steps, nothing saved but what a signal makes it save."""
    (found,) = plan(load_experiment(experiment(seeds=1, n_iters=4)), only="er")
    return found


@pytest.fixture
def stop_at(monkeypatch):
    """Return a function that does a job and sends this process SIGTERM during its nth step."""

    def stopped(job, step):
        observe, done = ContinualModel.meta_observe, []

        def observing(self, *batch, **fields):
            done.append(step)
            if len(done) == step:
                os.kill(os.getpid(), signal.SIGTERM)
            return observe(self, *batch, **fields)

        with monkeypatch.context() as patch:
            patch.setattr(ContinualModel, "meta_observe", observing)
            return perform(job)

    return stopped


def test_a_stopped_run_goes_on(run, stop_at):
    """The same id and the same numbers as without a stop; its record says where it went on."""
    assert perform(run.job()).status == 0
    whole = run.record()
    run.record_path.unlink()
    assert stop_at(run.job(), 6).status in STOPPED
    assert run.state() == "interrupted"
    assert perform(run.job()).status == 0
    again = run.record()
    assert again["provenance"]["resumed_at"] == [6]
    again["args"] |= {"resume": None}
    assert differing(whole, again, ("run_id", *NUMBERS)) == []
    assert run.state() == "done"


@pytest.mark.parametrize("harm", ["damaged", "other code"])
def test_a_checkpoint_that_is_of_no_use(harm, run, stop_at, monkeypatch):
    """Cut short, or made by other code: the run begins anew and is done, and its log says so in a line."""
    assert stop_at(run.job(), 6).status in STOPPED
    (kept,) = run.job().checkpoints.iterdir()
    if harm == "damaged":
        kept.write_bytes(kept.read_bytes()[:-200])
    else:
        monkeypatch.setattr(runner.records, "source_digest", lambda *classes: "another")
    assert perform(run.job()).status == 0
    record = run.record()
    assert record["status"] == "done"
    assert "resumed_at" not in record["provenance"]
    says = (
        "is corrupt or no checkpoint"
        if harm == "damaged"
        else "of no use, so the run begins anew: the checkpoint was made by other"
    )
    assert (run.folder / "log.txt").read_text().count(says) == 1


def test_a_run_that_never_stopped_begins_plainly(run):
    """Without a checkpoint its command line is what the sweep planned."""
    assert perform(run.job()).status == 0
    assert run.record()["command"] == ["main.py", *run.argv]


def test_a_resume_that_was_asked_for_is_left_alone(experiment):
    """With `--flags "--resume auto"` nothing is added."""
    (run,) = plan(load_experiment(experiment(seeds=1)), only="er", extra=("--resume", "auto"))
    assert run.job().checkpoints is None


def test_a_job_survives_the_way_to_its_worker(run):
    """Its checkpoints' folder too."""
    assert read_job(to_line(run.job())) == run.job()


def test_time_before_the_stop_counts(run, stop_at):
    """The record's wall time is that of both parts: here of a first part whose checkpoint says that it took 1,000 seconds."""
    assert stop_at(run.job(), 6).status in STOPPED
    (kept,) = run.job().checkpoints.iterdir()
    content = load_checkpoint(kept)
    assert 0 < content["progress"]["wall_s"] < 1000
    content["progress"]["wall_s"] = 1000.0
    torch.save(content, kept)
    assert perform(run.job()).status == 0
    assert run.record()["provenance"]["wall_s"] > 1000


LONG = {"n_iters": 2000, "stop_after": 2}


def finished(start, path, folder):
    """Let the same sweep end; return the record of ER."""
    again = start("run", path, "--jobs", "1", "--only", "er")
    assert again.communicate(timeout=200)[1] == ""
    assert again.returncode == 0
    (record,) = records(folder)
    assert record["status"] == "done"
    return record


@pytest.mark.long
def test_a_terminated_sweep_goes_on(experiment, start, tmp_path):
    """SIGTERM to the sweep: the run saves its state within its first task; the same command goes on from there."""
    path = experiment(seeds=1, **LONG)
    sweep = start("run", path, "--jobs", "1", "--only", "er")
    wait_for(lambda: [record for record in records(tmp_path) if record["class_il"]])
    sweep.send_signal(signal.SIGTERM)
    assert sweep.communicate(timeout=60)[1].startswith("interrupted: ")
    assert len(list((tmp_path / "kept").rglob("*.pt"))) == 1
    resumed = finished(start, path, tmp_path)
    assert 2000 < resumed["provenance"]["resumed_at"][0] < 4000
    (whole,) = plan(load_experiment(path), only="er")
    whole.record_path.unlink()
    assert perform(whole.job()._replace(checkpoints=None)).status == 0
    assert differing(whole.record(), resumed, ("run_id", *NUMBERS[1:])) == []


@pytest.mark.long
@pytest.mark.parametrize("victim", ["worker", "both"])
def test_killed_with_checkpoints(victim, experiment, start, tmp_path):
    """SIGKILL to a run's process, or to that and its sweep: with `--savecheck 100` the run goes on from a checkpoint."""
    path = experiment(seeds=1, savecheck=100, **LONG)
    sweep = start("run", path, "--jobs", "1", "--only", "er")
    wait_for(lambda: list((tmp_path / "kept").rglob("*.pt")))
    (record,) = records(tmp_path)
    if victim == "both":
        sweep.kill()
    os.kill(record["provenance"]["pid"], signal.SIGKILL)
    if victim == "both":
        wait_for(lambda: not is_running(record["provenance"]["pid"]))
        found = finished(start, path, tmp_path)
    else:
        assert sweep.communicate(timeout=200)[1] == ""
        (found,) = records(tmp_path)
    assert found["status"] == "done"
    (at,) = found["provenance"]["resumed_at"]
    assert at % 100 == 0
    assert found["provenance"]["steps"] == 4000
