"""Trackers: nothing without a flag, one clear line without the package, and the real packages where they are installed."""

import importlib.util
import os
import subprocess
import sys

import pytest

from mammoth import cli, watch
from utils.yaml_files import ROOT

BOTH = ("--wandb_entity", "us", "--wandb_project", "trials")


@pytest.fixture(autouse=True)
def _no_wandb_in_the_environment(monkeypatch):
    for name in ("WANDB_ENTITY", "WANDB_PROJECT"):
        monkeypatch.delenv(name, raising=False)


def missing(name):
    return importlib.util.find_spec(name) is None


def test_nothing_is_imported_unless_asked_for():
    """A run without a flag loads neither package (a process of its own: others may have loaded them here)."""
    code = (
        "import sys; from mammoth import runner, settings; args = settings.resolve(['--model', 'sgd']).args\n"
        "runner.open_tracker(args); assert not {'wandb', 'tensorboard'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


@pytest.mark.parametrize(("package", "words"), [("tensorboard", ("--tensorboard", "1")), ("wandb", BOTH)])
def test_a_missing_package_is_one_line(package, words, tmp_path, capsys):
    """Before anything is trained: the command that installs it, and exit status 2."""
    if not missing(package):
        pytest.skip(f"{package} is installed")
    assert cli.main(["--model", "sgd", *words, "--base_path", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "pip install -r requirements-watch.txt" in error
    assert len(error.splitlines()) == 1
    assert not list(tmp_path.rglob("record.json"))


def test_when_wandb_is_wanted(resolve, monkeypatch):
    """Entity and project, from flags or the environment; one of the two by a flag is an error; a trial sends nothing."""
    assert not watch.asks_for_wandb(resolve("--model", "sgd"))
    assert watch.asks_for_wandb(resolve("--model", "sgd", *BOTH))
    assert not watch.asks_for_wandb(resolve("--model", "sgd", *BOTH, "--debug_mode", "1"))
    with pytest.raises(ValueError, match="needs both"):
        watch.asks_for_wandb(resolve("--model", "sgd", "--wandb_project", "trials"))
    monkeypatch.setenv("WANDB_PROJECT", "from the environment")
    assert not watch.asks_for_wandb(resolve("--model", "sgd"))
    monkeypatch.setenv("WANDB_ENTITY", "us")
    assert watch.wandb_names(resolve("--model", "sgd")) == ("us", "from the environment")
    assert watch.asks_for_wandb(resolve("--model", "sgd"))


def test_what_is_logged(resolve, monkeypatch):
    """Losses every so many steps under train/, accuracies under eval/, the method's own under its name; then it is closed."""
    logged, closed = [], []
    opener = lambda args: (lambda values, step: logged.append((step, values)), closed.append)  # noqa: E731
    monkeypatch.setattr(watch, "open_tensorboard", opener)
    with watch.Tracker(resolve("--model", "pvbf", "--tensorboard", "1")) as tracker:
        for step in range(watch.EVERY + 1):
            tracker.losses({"loss": step, "stream": 1})
        tracker.evaluation([10.0, 30.0], [50.0, 70.0], {"mean_C": 0.5})
    assert logged == [
        (watch.EVERY, {"train/loss": watch.EVERY - 1, "train/stream": 1}),
        (watch.EVERY + 1, {
            "eval/class_il": 20, "eval/task_il": 60, "eval/class_il_task_1": 10, "eval/class_il_task_2": 30, "pvbf/mean_C": 0.5,
        }),
    ]  # fmt: skip
    assert closed == [True]


@pytest.mark.skipif(missing("tensorboard"), reason="tensorboard is not installed")
@pytest.mark.filterwarnings("ignore")
def test_tensorboard_has_the_run(go, tmp_path):
    """The event file holds losses and one accuracy a task."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    record = go("--model", "pvbf", "--tensorboard", "1")
    events = EventAccumulator(str(tmp_path / "results" / "tensorboard" / record["run_id"])).Reload()
    assert {"train/loss", "eval/class_il", "pvbf/mean_C"} <= set(events.Tags()["scalars"])
    finals = [event.value for event in events.Scalars("eval/class_il")]
    assert finals == pytest.approx([sum(row) / len(row) for row in record["class_il"]], rel=1e-5)


@pytest.mark.skipif(missing("wandb"), reason="wandb is not installed")
def test_wandb_offline_has_the_run(tmp_path):
    """In its offline mode W&B leaves the run under the results folder (whole once the process has ended), and sends nothing."""
    words = ("--model", "pvbf", *BOTH, "--base_path", str(tmp_path), "--threads", "1", "--device", "cpu")
    done = subprocess.run(
        [sys.executable, "main.py", *words], cwd=ROOT, env={**os.environ, "WANDB_MODE": "offline"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    (file,) = (tmp_path / "results" / "wandb").glob("offline-run-*/*.wandb")
    assert b"eval/class_il_task_5" in file.read_bytes()
