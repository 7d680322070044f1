"""Runs that stop and go on: the finished record and the last state equal the uninterrupted run's, for every method."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import models
from mammoth import cli, resume, runner, watch
from mammoth.interruption import Interrupted, StopRequest
from mammoth.records import read_record
from models import ContinualModel
from utils.checkpoints import _warn_of, load_checkpoint, restore_model
from utils.registry import Registry
from utils.yaml_files import ROOT

METHODS = sorted(models.get_model_names())
SHORT = ("--debug_mode", "1", "--stop_after", "2", "--savecheck", "last")
NUMBERS = ("args", "class_il", "task_il", "confusion", "diagnostics", "variation", "forward_transfer", "status", "data")
STATE = (
    "model",
    "attributes",
    "modes",
    "optimizer",
    "scheduler",
    "buffer",
    "buffers",
    "counters",
    "generators",
    "global_generators",
)


def equal(first, second) -> bool:
    """Whether two nested states are the same, bit for bit."""
    if isinstance(first, torch.Tensor):
        return isinstance(second, torch.Tensor) and torch.equal(first, second)
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(equal(first[key], second[key]) for key in first)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(equal, first, second))
    return first == second


def differing(first: dict, second: dict, keys: tuple[str, ...]) -> list[str]:
    return [key for key in keys if not equal(first.get(key), second.get(key))]


@pytest.fixture
def stopped_at(monkeypatch, tmp_path, go):
    """Return a function that runs a command line, asks it to stop during its nth step, resumes it, and returns record and state."""

    def last(record):
        return load_checkpoint(tmp_path / "kept" / record["run_id"] / "last.pt")

    def stopped(step, *words):
        words = (*words, "--checkpoint_path", str(tmp_path / "kept"))
        whole = go(*words)
        expected = last(whole)
        for path in (tmp_path / "kept").rglob("*.pt"):
            path.unlink()
        done = 0
        observe = ContinualModel.meta_observe

        def observing(self, *batch, **fields):
            nonlocal done
            done += 1
            if done == step:
                os.kill(os.getpid(), signal.SIGTERM)
            return observe(self, *batch, **fields)

        with monkeypatch.context() as patch:
            patch.setattr(ContinualModel, "meta_observe", observing)
            with pytest.raises(Interrupted) as raised:
                go(*words)
        assert raised.value.status == 143
        again = go(*words, "--resume", "auto")
        again["args"] = {**again["args"], "resume": None}
        assert again["provenance"]["steps"] == whole["provenance"]["steps"]
        return differing(whole, again, NUMBERS) + differing(expected, last(again), STATE)

    return stopped


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("step", [4, 6, 9])
def test_stop_and_resume(method, step, stopped_at):
    """Stopped within the first task, at its last step, and within the second: the same record and the same last state."""
    if models.get_model_class(method).NAME in ("joint", "iid") and step > 6:
        pytest.skip("one task of six steps")
    assert stopped_at(step, "--model", method, *SHORT) == []


KEEPING = '''
"""A method that keeps its state as files written for Mammoth do: in attributes that are made after it is built."""
import copy
import numpy as np
import torch
from models.utils.continual_model import ContinualModel

class Keeping(ContinualModel):
    """Pulled towards the weights and the outputs of the network before the task."""
    NAME = "keeping"
    COMPATIBILITY = ["class-il"]

    def __init__(self, backbone, loss, args, transform, dataset=None):
        super().__init__(backbone, loss, args, transform, dataset=dataset)
        self.old_net = self.anchor = None
        self.sums = {}
        self.scale = np.ones(3)

    def begin_task(self, dataset):
        self.old_net = copy.deepcopy(self.net).eval()

    def end_task(self, dataset):
        self.anchor = self.net.get_params().data.clone()
        self.scale *= 0.5

    def observe(self, inputs, labels, not_aug_inputs, epoch=None):
        self.opt.zero_grad()
        outputs = self.net(inputs)
        loss = self.loss(outputs, labels) + (outputs - self.old_net(inputs).detach()).pow(2).mean()
        if self.anchor is not None:
            loss = loss + float(self.scale[0]) * (self.net.get_params() - self.anchor).pow(2).sum()
        loss = loss + 0.01 * len(self.sums.get("seen", ()))
        loss.backward()
        self.opt.step()
        self.sums.setdefault("seen", []).append(outputs.detach().sum())
        return loss.item()
'''


@pytest.fixture
def keeping(tmp_path, monkeypatch):
    """Return flags of the method `keeping`, in a folder that is added to a registry of this test's own."""
    monkeypatch.setattr(models, "_registry", Registry("method", models.__name__, models.__path__, ContinualModel))
    (tmp_path / "methods").mkdir()
    (tmp_path / "methods" / "keeping.py").write_text(KEEPING, encoding="utf-8")
    models.add_models_path(str(tmp_path / "methods"))
    return ("--model", "keeping")


@pytest.mark.parametrize("step", [4, 6, 9])
def test_state_in_attributes_is_carried(step, keeping, stopped_at):
    """Tensors, arrays, containers and a copy of the network that are made after the method is built."""
    assert stopped_at(step, *keeping, *SHORT) == []


def test_a_checkpoint_with_a_copy_of_the_network_predicts(keeping, go, tmp_path):
    """`restore_model` builds the copy, in the mode that it had."""
    record = go(*keeping, *SHORT, "--checkpoint_path", str(tmp_path / "kept"))
    content = load_checkpoint(tmp_path / "kept" / record["run_id"] / "last.pt")
    model = restore_model(content, torch.device("cpu"))
    assert torch.equal(model.old_net.classifier.weight, content["model"]["old_net.classifier.weight"])
    assert model.scale.tolist() == [0.25] * 3
    damaged = {**content, "attributes": {"scale": ["list", 7]}}
    with pytest.raises(ValueError, match=r"attribute 'scale' of keeping cannot be read"):
        restore_model(damaged, torch.device("cpu"))
    content["model"] = {name.replace("old_net.classifier", "old_net.head"): value for name, value in content["model"].items()}
    with pytest.raises(ValueError, match=r"'old_net' of keeping.*make it in __init__"):
        restore_model(content, torch.device("cpu"))


@pytest.mark.parametrize("method", METHODS)
def test_no_method_here_keeps_what_a_checkpoint_cannot_hold(method, go, tmp_path, caplog):
    """After two tasks nothing is left out, and none says so."""
    _warn_of.cache_clear()
    go("--model", method, *SHORT, "--checkpoint_path", str(tmp_path / "kept"))
    assert "cannot hold" not in caplog.text


def test_what_cannot_be_held_is_said_once(go, tmp_path, caplog, monkeypatch):
    """A list of networks: named at the first checkpoint, with what may come of it."""
    _warn_of.cache_clear()
    monkeypatch.setattr(models.get_model_class("sgd"), "begin_task", lambda self, dataset: vars(self).update(nets=[self.net]))
    go("--model", "sgd", *SHORT[:4], "--savecheck", "task", "--checkpoint_path", str(tmp_path / "kept"))
    assert caplog.text.count("sgd keeps nets, which checkpoints cannot hold") == 1


@pytest.mark.parametrize(
    "words",
    [
        ("--dataset_config", "offline", "--n_epochs", "3", "--batch_size", "100", "--lr_scheduler", "cosine", "--lr", "0.1"),
        (
            "--n_iters",
            "8",
            "--lr_scheduler",
            "multisteplr",
            "--lr_milestones",
            "3",
            "--scheduler_mode",
            "iter",
            "--optim_mom",
            "0.9",
        ),
        ("--permute_classes", "1", "--n_iters", "8", "--record_variation", "1", "--enable_other_metrics", "1"),
        ("--optimizer", "adam", "--lr", "0.001", "--n_iters", "8"),
    ],
    ids=["epochs and a schedule", "steps, a schedule and momentum", "orders, variation, forward transfer", "adam"],
)
def test_everything_else_that_is_carried(words, stopped_at):
    """Schedules, momenta, class orders, recorded variation, accuracies before training: stopped within the second task."""
    assert stopped_at(12, "--model", "pvbf", "--stop_after", "2", "--savecheck", "last", *words) == []


def test_icarl_offline_goes_on_with_its_exemplars(stopped_at):
    """Images that `begin_task` adds to the task's are there again after a stop within the task."""
    words = ("--model", "icarl", "--icarl_mode", "offline", "--debug_mode", "1", "--stop_after", "2", "--savecheck", "last")
    assert stopped_at(9, *words) == []


def test_saved_every_few_steps_and_pruned(go, tmp_path):
    """--savecheck 4 with --keep_checkpoints 2: the two newest and the last one stay; each goes on to the same end."""
    words = ("--model", "er", "--debug_mode", "1", "--stop_after", "2", "--checkpoint_path", str(tmp_path / "kept"))
    whole = go(*words, "--savecheck", "4")
    folder = tmp_path / "kept" / whole["run_id"]
    assert sorted(path.name for path in folder.iterdir()) == ["last.pt", "t001_s000000008.pt", "t001_s000000012.pt"]
    again = go(*words, "--resume", str(folder / "t001_s000000008.pt"))
    assert differing(whole, again, NUMBERS[1:]) == []


def test_a_trackers_axis_goes_on(go, tmp_path, monkeypatch):
    """After --resume the steps that a tracker sees are those of the whole run, not counted from 0 again."""
    words = ("--model", "er", "--debug_mode", "1", "--stop_after", "2", "--checkpoint_path", str(tmp_path / "kept"))
    whole = go(*words, "--savecheck", "4")
    seen = []
    monkeypatch.setattr(watch, "open_tensorboard", lambda args: (lambda values, step: seen.append(step), lambda good: None))
    go(*words, "--tensorboard", "1", "--resume", str(tmp_path / "kept" / whole["run_id"] / "t001_s000000008.pt"))
    assert seen == [whole["provenance"]["steps"]]


@pytest.mark.parametrize(("joint", "names"), [("0", ["1.pt", "2.pt", "last.pt"]), ("1", ["joint.pt"])])
def test_mammoths_names_lead_to_the_checkpoints(joint, names, go, tmp_path, caplog):
    """`<base>_<task>.pt` of the tasks whose files stay, `_last.pt`, `_joint.pt`; the log has the base; --loadcheck takes them."""
    words = ("--model", "er", "--debug_mode", "1", "--stop_after", "3", "--joint", joint, "--checkpoint_path", str(tmp_path))
    with caplog.at_level("INFO"):
        base = go(*words, "--savecheck", "task")["run_id"]
    assert f"Saving checkpoint into: {base}" in caplog.messages
    links = sorted(path for path in tmp_path.iterdir() if path.is_symlink())
    assert [path.name for path in links] == [f"{base}_{name}" for name in names]
    assert all(load_checkpoint(path)["args"]["run_id"] == base for path in links)
    assert go(*words, "--loadcheck", str(links[-1]))["status"] == "done"


def test_a_tasks_last_state_has_its_schedule(go, tmp_path):
    """The rate that the task ended with, and the milestones, as tools written for Mammoth's checkpoints read them."""
    schedule = ("--lr_scheduler", "multisteplr", "--lr_milestones", "1,2", "--n_epochs", "3", "--lr", "0.1")
    words = ("--model", "sgd", *schedule, "--stop_after", "2", "--debug_mode", "1", "--checkpoint_path", str(tmp_path))
    base = go(*words, "--savecheck", "task")["run_id"]
    for name in ("0", "1", "last"):
        content = load_checkpoint(tmp_path / f"{base}_{name}.pt")
        assert content["optimizer"]["param_groups"][0]["lr"] == pytest.approx(0.001)
        assert content["optimizer"]["param_groups"][0]["initial_lr"] == 0.1
        assert list(content["scheduler"]["milestones"]) == [1, 2]


def test_a_file_system_without_links(go, tmp_path, monkeypatch, caplog):
    """The run ends and its checkpoint stays; one line says that Mammoth's name is not there."""

    def refuse(link, target):
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "symlink_to", refuse)
    with caplog.at_level("INFO"):
        base = go("--model", "er", "--debug_mode", "1", "--savecheck", "last", "--checkpoint_path", str(tmp_path))["run_id"]
    assert [path.name for path in tmp_path.rglob("*.pt")] == ["last.pt"]
    assert f"not there under Mammoth's name {base}_last.pt (Operation not permitted)" in caplog.text


def test_a_checkpoint_is_no_larger_than_network_and_memory(go, tmp_path):
    """Beside 300 stored images and a network, at most 100 kB."""
    words = (
        "--model",
        "er",
        "--buffer_size",
        "300",
        "--debug_mode",
        "1",
        "--savecheck",
        "last",
        "--checkpoint_path",
        str(tmp_path),
    )
    path = tmp_path / go(*words)["run_id"] / "last.pt"
    content = load_checkpoint(path)
    tensors = [*content["model"].values(), *(value for value in content["buffer"].values() if isinstance(value, torch.Tensor))]
    assert path.stat().st_size < sum(value.numel() * value.element_size() for value in tensors) + 100_000


def test_a_damaged_checkpoint_is_passed_over(go, tmp_path):
    """--resume auto: the newest file is cut short, so the one before it is used, and the end is the same."""
    words = ("--model", "er", "--debug_mode", "1", "--stop_after", "2", "--checkpoint_path", str(tmp_path / "kept"))
    whole = go(*words, "--savecheck", "4")
    folder = tmp_path / "kept" / whole["run_id"]
    (folder / "last.pt").unlink()
    newest = folder / "t001_s000000012.pt"
    newest.write_bytes(newest.read_bytes()[:-200])
    again = go(*words, "--resume", "auto")
    assert again["provenance"]["resumed_at"] == [8]
    assert differing(whole, again, NUMBERS[1:]) == []


def test_what_cannot_be_resumed(go, resolve, tmp_path):
    """Another run's checkpoint, a run without a seed, a file that is none: said in one line each, before anything is trained."""
    words = ("--model", "er", "--debug_mode", "1", "--stop_after", "1", "--checkpoint_path", str(tmp_path))
    path = tmp_path / go(*words, "--savecheck", "last")["run_id"] / "last.pt"
    with pytest.raises(runner.InputError, match="give the same flags and --seed"):
        go(*words, "--lr", "0.5", "--resume", str(path))
    with pytest.raises(runner.InputError, match="no checkpoint"):
        go(*words, "--resume", str(tmp_path / "absent.pt"))


def test_a_file_that_is_gone_on_with_knows_its_seed(go, tmp_path, capsys):
    """--resume FILE without --seed goes on with the file's; --resume auto without one is refused in a line."""
    words = ("--model", "er", "--debug_mode", "1", "--stop_after", "2", "--non_verbose", "1", "--device", "cpu", "--threads", "1")
    where = ("--base_path", str(tmp_path), "--checkpoint_path", str(tmp_path / "kept"))
    assert cli.main([*words, *where, "--seed", "5", "--savecheck", "8"]) == 0
    (record,) = tmp_path.rglob("record.json")
    whole = read_record(record)
    kept = tmp_path / "kept" / whole["run_id"]
    for path, at in ((kept / "t001_s000000008.pt", 8), (kept / "last.pt", 12)):
        record.unlink()
        assert cli.main([*words, *where, "--resume", str(path)]) == 0
        again = read_record(record)
        assert again["provenance"]["resumed_at"] == [at]
        assert differing(whole, again, NUMBERS[1:]) == []
    capsys.readouterr()
    assert cli.main([*words, *where, "--resume", "auto"]) == 2
    said = capsys.readouterr().err
    assert said == "error: --resume auto needs the run's --seed: checkpoints are found by it; --resume FILE does without\n"
    assert cli.main([*words, *where, "--resume", str(record)]) == 2
    assert "record.json is corrupt or no checkpoint" in capsys.readouterr().err


def test_other_code_is_not_gone_on_with(go, tmp_path, monkeypatch):
    """A checkpoint of other sources is refused: its run would be neither the old one's nor the new one's."""
    words = ("--model", "er", "--debug_mode", "1", "--stop_after", "1", "--checkpoint_path", str(tmp_path))
    path = tmp_path / go(*words, "--savecheck", "last")["run_id"] / "last.pt"
    monkeypatch.setattr(runner.records, "source_digest", lambda *classes: "another")
    with pytest.raises(runner.InputError, match="other code"):
        go(*words, "--resume", str(path))


@pytest.mark.parametrize("changed", ["code", "device", "flags", "file"])
def test_a_refusal_leaves_the_earlier_record(go, tmp_path, monkeypatch, changed):
    """A run that was interrupted keeps what its record says, whatever makes a later --resume impossible."""
    words = ("--model", "er", "--debug_mode", "1", "--stop_after", "2", "--checkpoint_path", str(tmp_path / "kept"))
    made = go(*words, "--savecheck", "task")
    path = tmp_path / "kept" / made["run_id"] / "t001_s000000006.pt"
    (record,) = tmp_path.rglob("record.json")
    record.write_text(record.read_text().replace('"status":"done"', '"status":"interrupted"'))
    before = record.read_text()
    if changed == "code":
        monkeypatch.setattr(runner.records, "source_digest", lambda *classes: "another")
    if changed == "device":
        monkeypatch.setattr(runner.records, "cpu_name", lambda: "another CPU is no obstacle")
        stored = torch.load(path, weights_only=True)
        stored["record"]["provenance"]["device"] = "cuda: of some name"
        torch.save(stored, path)
    if changed == "file":
        path.write_bytes(path.read_bytes()[:-100])
    seed = ("--seed", "1") if changed == "flags" else ()
    says = {"code": "other code", "device": "made on a cuda, and this is a cpu", "flags": "give the same flags", "file": "corrupt"}
    with pytest.raises(runner.InputError, match=says[changed]):
        go(*words, *seed, "--resume", str(path))
    assert record.read_text() == before
    assert list(tmp_path.rglob("*record*.json")) == [record]


def test_a_second_ctrl_c_stops_at_once():
    """The first is noted; the second raises KeyboardInterrupt, and signals are as before afterwards."""
    before = signal.getsignal(signal.SIGINT)
    with StopRequest() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.number == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_how_to_resume():
    """The command that is shown has the seed once, and --resume once."""
    shown = resume.resume_command(["main.py", "--model", "er", "--resume", "a b.pt", "--notes", "x y"], 7)
    assert shown == "python main.py --model er --notes 'x y' --seed 7 --resume auto"
    assert resume.resume_command(["main.py", "--seed=3", "--resume=auto"], 3) == "python main.py --seed=3 --resume auto"


def test_a_checkpoint_that_cannot_be_written(go, tmp_path, monkeypatch):
    """A full disk at the second checkpoint: the run ends with an OSError, and the first can still be read."""
    write = resume.save_checkpoint

    def full(path, *rest):
        if list(path.parent.glob("t*.pt")):
            raise OSError(28, "No space left on device")
        write(path, *rest)

    monkeypatch.setattr(resume, "save_checkpoint", full)
    words = ("--model", "er", "--debug_mode", "1", "--stop_after", "2", "--checkpoint_path", str(tmp_path / "kept"))
    with pytest.raises(OSError, match="No space left"):
        go(*words, "--savecheck", "4")
    (left,) = (tmp_path / "kept").rglob("*.pt")
    assert load_checkpoint(left)["progress"]["steps"] == 4


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGUSR1, 143)])
def test_a_process_that_is_asked_to_stop(number, status, tmp_path):
    """A real process: exit status, the state saved, and a way to go on that is said."""
    words = ["main.py", "--model", "er", "--n_iters", "100000", "--non_verbose", "1", "--threads", "1", "--savecheck", "5"]
    where = ["--base_path", str(tmp_path), "--checkpoint_path", str(tmp_path / "kept"), "--device", "cpu", "--seed", "0"]
    command = [sys.executable, *words, *where]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        deadline = time.monotonic() + 60
        while not list(Path(tmp_path / "kept").rglob("t*.pt")) and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert process.returncode == status
    first, second = said.splitlines()[-2:]
    assert first.startswith("error: interrupted; the state is in ")
    assert second.endswith("--seed 0 --resume auto")
    assert Path(first.split(" in ", 1)[1]).is_file()


def test_a_weight_that_is_not_finite(resolve):
    """At a task's end it stops the run, whichever weight it is; finite weights pass."""
    model = runner.build(resolve("--model", "er")).model
    runner.check_weights(model)
    with torch.no_grad():
        list(model.net.parameters())[1][0] = float("nan")
    with pytest.raises(runner.TrainingDiverged, match="a weight is not finite"):
        runner.check_weights(model)


class Hostile:
    """Unpickled, it would make a folder."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_a_checkpoint_that_would_execute_code(tmp_path):
    """Refused with the file's name, and nothing is executed."""
    path = tmp_path / "hostile.pt"
    torch.save({"schema": 1, "model": {}, "args": Hostile(tmp_path / "made")}, path)
    with pytest.raises(ValueError, match=r"hostile\.pt is corrupt or no checkpoint"):
        load_checkpoint(path)
    assert not (tmp_path / "made").exists()


def test_checkpoints_that_have_no_place(go, tmp_path):
    """A file where their folder should be: said before anything is trained."""
    (tmp_path / "file").touch()
    with pytest.raises(runner.InputError, match=r"cannot write to .*file .*; choose another --checkpoint_path"):
        go("--model", "er", "--savecheck", "last", "--checkpoint_path", str(tmp_path / "file"))
