"""SLURM: a sweep on a real cluster of one node, where its packages are installed; flags and refusals everywhere."""

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from mammoth import results
from mammoth.experiments import load_experiment
from mammoth.launchers import slurm
from mammoth.launchers.jobs import Outcome
from mammoth.sweep import main, plan, states_of
from tests.launchers.conftest import records, wait_for

SCRIPT = Path(__file__).with_name("slurm_cluster.sh")


def script(*words, **environment):
    """Run the script that starts and stops the cluster."""
    return subprocess.run(["bash", SCRIPT, *words], capture_output=True, text=True, env={**os.environ, **environment}, check=False)


@pytest.fixture(scope="module")
def cluster():
    """Start the cluster; returns the environment by which its commands find it."""
    available = script("available")
    if available.returncode:
        pytest.skip(available.stdout.strip())
    if importlib.util.find_spec("submitit") is None:
        pytest.skip("no submitit (pip install -r requirements-slurm.txt)")
    own = {"SLURM_CLUSTER": f"/tmp/mammoth-slurm-{os.getpid()}", "SLURM_PORT": str(26000 + 2 * (os.getpid() % 3000))}
    started = script("start", **own)
    assert started.returncode == 0, started.stderr
    yield {"SLURM_CONF": started.stdout.strip()}
    assert script("stop", **own).returncode == 0


def table(folder):
    """Return the rows of the experiment."""
    return results.read_rows(folder / "results" / "table.csv")


def test_a_sweep_on_slurm(cluster, experiment, start, tmp_path):
    """Two methods, two seeds, an array of two tasks: all done, with their rows; the same command again has nothing to do."""
    path = experiment()
    sweep = start("run", path, "--launcher", "slurm", "--slurm_time", "10", "--slurm_runs_per_job", "2", **cluster)
    out, err = sweep.communicate(timeout=150)
    assert (sweep.returncode, err) == (0, ""), out
    assert "submitted to SLURM as job " in out
    assert sorted((row["row"], row["seed"]) for row in table(tmp_path)) == [("ER", "0"), ("ER", "1"), ("SGD", "0"), ("SGD", "1")]
    assert {record["status"] for record in records(tmp_path)} == {"done"}
    assert len(list(tmp_path.glob("results/slurm/*/*_result.pkl"))) == 2
    assert not list(tmp_path.rglob("queued"))


@pytest.mark.long
def test_what_slurm_stops_is_interrupted_and_done_next_time(cluster, experiment, start, tmp_path, monkeypatch, capsys):
    """--no_wait returns at once; a cancelled task closes its record; the next call does what is left."""
    monkeypatch.setenv("SLURM_CONF", cluster["SLURM_CONF"])
    path = experiment(seeds=1, n_iters=3000)
    flags = ["--launcher", "slurm", "--slurm_time", "10", "--slurm_array_parallelism", "1"]
    assert main(["run", str(path), *flags, "--no_wait"]) == 0
    job = capsys.readouterr().out.split("as job ")[1].split(":")[0]
    assert set(states_of(plan(load_experiment(path)))) <= {"queued", "running"}
    wait_for(lambda: [record for record in records(tmp_path) if record["class_il"]])
    assert main(["run", str(path), *flags, "--no_wait"]) == 0
    assert "2 running elsewhere, 0 to do" in capsys.readouterr().out
    subprocess.run(["scancel", job], check=True)
    wait_for(lambda: not slurm.queue(), 60)
    assert [record["status"] for record in records(tmp_path)] == ["interrupted"]
    sweep = start("run", path, *flags)
    out, err = sweep.communicate(timeout=200)
    assert (sweep.returncode, err) == (0, ""), out
    assert len(table(tmp_path)) == 2


@pytest.fixture
def at_work(cluster, experiment, start, tmp_path, monkeypatch):
    """A sweep that waits for the two runs of one SLURM job, the first of which has a task behind it, and the job's number."""
    monkeypatch.setenv("SLURM_CONF", cluster["SLURM_CONF"])
    flags = ["--launcher", "slurm", "--slurm_time", "10", "--slurm_runs_per_job", "2"]
    sweep = start("run", experiment(seeds=1, n_iters=3000), *flags)
    wait_for(lambda: [record for record in records(tmp_path) if record["class_il"]])
    (job,) = {name.split()[0] for name in slurm.queue()}
    return sweep, job


@pytest.mark.long
def test_a_warning_of_the_time_limit_closes_the_record(at_work, tmp_path):
    """SIGUSR2 interrupts the run; a sweep that waits says so, and ends with status 1."""
    sweep, job = at_work
    subprocess.run(["scancel", "--signal=USR2", job], check=True)
    assert "interrupted" in sweep.communicate(timeout=100)[1]
    assert sweep.returncode == 1
    assert [record["status"] for record in records(tmp_path)] == ["interrupted"]


@pytest.mark.long
def test_a_requeued_task_is_waited_for(at_work, tmp_path):
    """Put back into the queue, as by preemption: the sweep that waits ends well once SLURM has done it after all."""
    sweep, job = at_work
    subprocess.run(["scontrol", "requeue", job], check=True)
    out, err = sweep.communicate(timeout=500)
    assert (sweep.returncode, err) == (0, ""), out
    assert {record["status"] for record in records(tmp_path)} == {"done"}
    assert [record["provenance"].get("resumed_at") is not None for record in records(tmp_path)].count(True) == 1
    assert len(table(tmp_path)) == 2


@pytest.mark.long
def test_what_slurm_refuses_is_said(cluster, experiment, monkeypatch, capsys):
    """A partition that is not there: status 2 and SLURM's own words."""
    monkeypatch.setenv("SLURM_CONF", cluster["SLURM_CONF"])
    assert main(["run", str(experiment()), "--launcher", "slurm", "--slurm_partition", "nowhere"]) == 2
    assert "invalid partition specified: nowhere" in capsys.readouterr().err


def test_without_submitit_there_is_one_line(experiment, monkeypatch, capsys):
    """It says what to install."""
    monkeypatch.setitem(sys.modules, "submitit", None)
    assert main(["run", str(experiment()), "--launcher", "slurm"]) == 2
    assert capsys.readouterr().err == "error: --launcher slurm needs submitit: pip install -r requirements-slurm.txt\n"


def test_without_a_queue_nothing_is_queued(monkeypatch, tmp_path):
    """A machine without SLURM has an empty queue; of one that does not answer nothing is known."""
    with monkeypatch.context() as patch:
        patch.setenv("PATH", "/nonexistent")
        assert slurm.queue() == {}
    squeue = tmp_path / "squeue"
    squeue.write_text("#!/bin/sh\nexit 1\n")
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert slurm.queue() is None


@pytest.mark.parametrize(("statuses", "ended"), [((130, 130), False), ((0, 130), True), ((0,), True)])
def test_a_task_that_slurm_stopped_may_begin_again(statuses, ended, tmp_path, monkeypatch):
    """Its result is there, and says that it was interrupted: it has ended once it is out of the queue too."""
    result = tmp_path / "result.pkl"
    result.touch()
    outcomes = [Outcome(("--seed", str(place)), status, "") for place, status in enumerate(statuses)]
    handle = SimpleNamespace(paths=SimpleNamespace(result_pickle=result), exception=lambda: None, result=lambda: outcomes)
    task = slurm._Task(handle, [])
    array = object.__new__(slurm.Array)
    assert array._has_ended(task) == ended
    task.absent_since = time.monotonic() - slurm.MISSING_FOR - 1
    assert array._has_ended(task)


@pytest.mark.parametrize(
    ("text", "minutes"), [("90", 90), ("1:30:00", 90), ("1-00:00:00", 1440), ("2-03", 3060), ("0-01:05", 65), ("0:00:30", 1)]
)
def test_time_limits_read_as_slurm_reads_them(text, minutes):
    """Minutes, hours:minutes:seconds, and days-hours and on."""
    assert slurm.read_minutes(text) == minutes


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--slurm_time", "soon"], "'soon' is no time limit"),
        (["--slurm_extra", "account"], "'account': give NAME=VALUE"),
        (["--slurm_cpus", "0"], "--slurm_cpus: 0 is out of range"),
    ],
)
def test_wrong_flags_are_refused(flags, says, experiment, capsys):
    """Status 2, naming the value."""
    assert main(["run", str(experiment()), "--launcher", "slurm", *flags]) == 2
    assert says in capsys.readouterr().err


def test_extra_options_of_sbatch():
    """A list of names and values, with or without dashes."""
    assert slurm.read_extra("account=me,--qos=high") == {"account": "me", "qos": "high"}
