"""The command line as a user meets it: what it prints, its exit status, and what bad input gets."""

import json
import os
import pickle
import re
import signal
import subprocess
import sys
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
import torch
import yaml

import models
from backbone import get_backbone_names
from datasets import get_config_names, get_dataset_names
from mammoth import cli, results
from models.sgd import Sgd
from utils.yaml_files import ROOT


@pytest.fixture
def command(tmp_path, capsys):
    """Return a function that runs a command line in this process: (status, stdout, stderr)."""

    def run(*words):
        quiet = ("--threads", "1", "--device", "cpu", "--base_path", str(tmp_path))
        capsys.readouterr()
        status = cli.main([*words, *(word for word in quiet if words)] if "--base_path" not in words else list(words))
        out, err = capsys.readouterr()
        return status, out, err

    return run


@pytest.fixture
def refused(command):
    """Return a function that asserts that a command line is refused in at most two lines, and returns these."""

    def run(*words):
        status, out, err = command(*words)
        assert status == 2
        assert 1 <= len(err.splitlines()) <= 2
        assert err.startswith("error: ")
        assert "Traceback" not in err + out
        assert "Accuracy" not in err
        return err

    return run


def records_in(folder: Path) -> list[dict]:
    return [json.loads(path.read_text()) for path in folder.glob("results/records/*/record.json")]


# -- bad input -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--model", "pvb"), ["pvb", "pvbf"]),
        (("--model", "er_acc"), ["er_acc", "er-ace"]),
        (("--model",), ["--model"]),
        (("--dataset", "seq-digits"), ["--model", "pvbf"]),
        (("--model", "er", "--dataset", "seq-cifar01"), ["seq-cifar01", "seq-cifar10"]),
        (("--model", "er", "--dataset_config", "onlin"), ["onlin", "offline"]),
        (("--model", "er", "--dataset", "seq-cifar10", "--dataset_config", "onlin"), ["onlin", "online"]),
        (("--model", "er", "--dataset_config", "nowhere/mine.yaml"), ["nowhere/mine.yaml"]),
        (("--model", "er", "--backbone", "mnistmpl"), ["mnistmpl", "mnistmlp"]),
        (("--model", "er", "--bufer_size", "10"), ["--bufer_size", "--buffer_size"]),
        (("--model", "er", "--lrr=1"), ["--lrr", "--lr"]),
        (("--model", "er", "--learning_rate", "1"), ["--learning_rate", "did you mean --lr?"]),
        (("--method", "er"), ["--model is missing (--method is no flag)", "pvbf"]),
        (("--model", "er", "stray"), ["stray"]),
        (("--model", "er", "--buffer_size", "0"), ["buffer_size", "0", "1"]),
        (("--model", "er", "--buffer_size", "1.5"), ["buffer_size", "1.5"]),
        (("--model", "er", "--buffer_size", "10", "--buffer_per_class", "1"), ["--buffer_size", "--buffer_per_class"]),
        (("--model", "sgd", "--lr", "-1"), ["lr", "-1", "above 0"]),
        (("--model", "sgd", "--lr", "0"), ["lr", "above 0"]),
        (("--model", "sgd", "--lr", "nan"), ["lr", "nan"]),
        (("--model", "sgd", "--lr", "inf"), ["lr", "inf"]),
        (("--model", "sgd", "--lr", "fast"), ["lr", "fast"]),
        (("--model", "sgd", "--lr"), ["lr"]),
        (("--model", "sgd", "--seed", "-1"), ["seed", "-1"]),
        (("--model", "sgd", "--seed", "1" + 400 * "0"), ["seed"]),
        (("--model", "sgd", "--batch_size", "0"), ["batch_size"]),
        (("--model", "sgd", "--n_epochs", "0"), ["n_epochs"]),
        (("--model", "sgd", "--optim_mom", "1.5"), ["optim_mom", "from 0 to 1"]),
        (("--model", "sgd", "--optimizer", "lion"), ["lion", "adam"]),
        (("--model", "sgd", "--optim_nesterov", "1"), ["--optim_nesterov", "--optim_mom"]),
        (("--model", "sgd", "--joint", "maybe"), ["maybe"]),
        (("--model", "sgd", "--lr_scheduler", "multisteplr", "--lr_milestones", "soon"), ["lr_milestones", "soon"]),
        (("--model", "sgd", "--lr_scheduler", "multisteplr"), ["multisteplr", "--lr_milestones"]),
        (("--model", "sgd", "--validation", "99.99"), ["validation"]),
        (("--model", "sgd", "--custom_class_order", "0,1,1"), ["--custom_class_order", "0 to 9"]),
        (("--model", "sgd", "--permute_classes", "1", "--custom_task_order", "0,1,2,3,4"), ["--permute_classes"]),
        (("--model", "sgd", "--backbone", "resnet18", "--num_filters", "0"), ["num_filters"]),
        (("--model", "sgd", "--buffer_size", "10"), ["--buffer_size", "sgd", "no memory"]),
        (("--model", "sgd", "--memory_size", "10"), ["--memory_size", "sgd", "no memory"]),
        (("--model", "sgd", "--lr", "0.1", "--lr=0.2"), ["--lr", "more than once"]),
        (("--model", "sgd", "--model", "er"), ["--model", "more than once"]),
        (("--model", "pvbf", "--pvbf_alpha", "0"), ["alpha"]),
        (("--model", "pvbf", "--pvbf_alpha", "3"), ["alpha", "beta", "3"]),
        (("--model", "pvbf", "--pvbf_alpha", "nan"), ["alpha"]),
        (("--model", "pvbf", "--pvbf_beta", "inf"), ["beta", "inf"]),
        (("--model", "pvbf", "--pvbf_p", "1.5"), ["p", "1.5", "0"]),
        (("--model", "pvbf", "--ec", "2"), ["ec", "2", "mean"]),
        (("--model", "pvbf", "--standardization", "zz"), ["zz", "zs"]),
        (("--model", "iid", "--iid_batches", "3"), ["iid_batches", "3"]),
        (("--model", "er", "--replay_from_task", "0"), ["replay_from_task", "0"]),
        (("--model", "derpp", "--alpha", "-0.1"), ["alpha", "-0.1"]),
        (("--model", "er_ace", "--head", "cosin"), ["cosin", "cosine"]),
    ],
    ids=lambda value: "_".join(value)[:50] if isinstance(value, tuple) else None,
)  # fmt: skip
def test_bad_input_is_refused_in_two_lines(words, says, refused, tmp_path):
    """Exit status 2, at most two lines that say what was wrong and what is expected, no traceback, no training, no record."""
    message = refused(*words)
    for word in says:
        assert word in message
    assert records_in(tmp_path) == []


def test_more_classes_a_task_than_there_are(refused, tmp_path):
    """A config that asks for 5 tasks of 3 of the ten digits."""
    facts = {"protocol": "online", "backbone": "mnistmlp", "batch_size": 10, "n_epochs": 1, "lr": 0.1}
    path = tmp_path / "wide.yaml"
    path.write_text(yaml.safe_dump({**facts, "N_CLASSES_PER_TASK": 3}))
    message = refused("--model", "sgd", "--dataset_config", str(path))
    assert "5 tasks of 3 classes" in message
    assert "10 classes" in message


def test_a_key_that_is_no_flag_names_file_and_key(refused, tmp_path):
    """A YAML config with a misspelt key."""
    path = tmp_path / "mine.yaml"
    path.write_text("{protocol: online, backbone: mnistmlp, lr: 0.1, n_epochs: 1, bach_size: 3}")
    message = refused("--model", "sgd", "--dataset_config", str(path))
    assert str(path) in message
    assert "'bach_size'" in message
    assert "batch_size" in message


CIFAR = ("--model", "sgd", "--dataset", "seq-cifar10", "--dataset_config", "online", "--stop_after", "1", "--n_iters", "1")


def test_missing_data_without_network(refused, tmp_path, monkeypatch):
    """The message names the folder and the files expected there."""

    def no_network(*args, **options):
        raise URLError("no route to host")

    monkeypatch.setattr("torchvision.datasets.utils.download_and_extract_archive", no_network)
    message = refused(*CIFAR)
    assert str(tmp_path / "CIFAR10" / "cifar-10-batches-py") in message
    assert "data_batch_1" in message
    assert "test_batch" in message
    assert "no route to host" in message


@pytest.fixture
def cifar10(tmp_path):
    """CIFAR-10's six files with one noisy image a class each; returns their folder."""
    folder = tmp_path / "CIFAR10" / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
        content = {"data": rng.integers(0, 256, (10, 3072), dtype=np.uint8), "labels": list(range(10))}
        (folder / name).write_bytes(pickle.dumps(content, protocol=2))
    return folder


@pytest.mark.parametrize("damage", ["truncated", "empty", "text", "no labels", "code", "wrong label"])
def test_a_corrupt_file_is_named(damage, refused, cifar10):
    """Truncated, empty, not a pickle, incomplete, or a pickle that wants to run something."""
    path = cifar10 / "data_batch_3"
    whole = path.read_bytes()
    pixels = np.zeros((2, 3072), dtype=np.uint8)
    content = {
        "truncated": whole[: len(whole) // 2],
        "empty": b"",
        "text": b"<html>404</html>",
        "no labels": pickle.dumps({"data": pixels}),
        "code": pickle.dumps({"data": os.system}),
        "wrong label": pickle.dumps({"data": pixels, "labels": [0, 12]}),
    }[damage]
    path.write_bytes(content)
    message = refused(*CIFAR, "--verify_data", "0")
    assert (str(path) if damage != "wrong label" else "12") in message


def test_files_that_are_not_the_published_ones(refused, command, cifar10):
    """By default another MD5 is refused, with the way out; --verify_data 0 takes the files and the record says `altered`."""
    assert "--verify_data 0" in refused(*CIFAR)
    assert command(*CIFAR, "--verify_data", "0")[0] == 0
    (record,) = records_in(cifar10.parent.parent)
    assert record["data"]["kind"] == "altered"


def test_an_unwritable_results_folder_is_found_before_training(refused, tmp_path, monkeypatch):
    """A results folder below a regular file: refused before the first step, naming the folder and the flags."""
    monkeypatch.setattr(Sgd, "observe", lambda *args, **fields: pytest.fail("trained first"))
    (tmp_path / "file").write_text("")
    message = refused("--model", "sgd", "--base_path", str(tmp_path / "file"))
    assert str(tmp_path / "file") in message
    assert "--base_path" in message


def test_a_run_that_cannot_begin_leaves_an_earlier_record_alone(command, refused, cifar10):
    """The same command without its data does not cost the record that it made before."""
    words = (*CIFAR, "--seed", "0", "--verify_data", "0")
    assert command(*words)[0] == 0
    (before,) = records_in(cifar10.parent.parent)
    (cifar10 / "test_batch").write_bytes(b"")
    refused(*words)
    assert records_in(cifar10.parent.parent) == [before]


def test_an_unknown_device_is_refused(tmp_path, capsys):
    """--device names something that this machine lacks."""
    assert cli.main(["--model", "sgd", "--device", "cuda:99", "--base_path", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert "cuda:99" in err
    assert len(err.splitlines()) <= 2


# -- help and list -------------------------------------------------------------------------------------------------------


def test_no_arguments_print_the_help(command):
    """`python main.py` alone explains itself and ends with 0."""
    status, out, err = command()
    assert (status, err) == (0, "")
    assert "--model NAME" in out
    assert "--buffer_per_class 500" in out


def test_help_shows_the_methods_and_benchmarks_own_flags(command):
    """After --model pvbf --dataset seq-cifar10, --help has PVBF's flags and the network's, with their defaults."""
    plain = command("--help", "--base_path", "x")[1]
    status, out, err = command("--model", "pvbf", "--dataset", "seq-cifar10", "--help")
    assert (status, err) == (0, "")
    for flag in ("--pvbf_alpha", "--dcwr_apply", "--buffer_size", "--num_filters"):
        assert flag in out
        assert flag not in plain
    assert re.search(r"--pvbf_alpha.*default: 0\.5", out)
    assert re.search(r"--n_epochs.*default: 50", out)


@pytest.mark.parametrize("method", sorted(models.get_model_names()))
def test_help_reads_for_every_method(method, command):
    """No help text breaks the formatter, and nothing is trained."""
    status, out, _ = command("--model", method, "--help")
    assert status == 0
    assert out.startswith("usage:")
    assert "Accuracy" not in out


def test_list_has_a_line_each(command):
    """Methods, data sets with their configs, and networks: one line each, beginning with the name."""
    status, out, err = command("--list")
    assert (status, err) == (0, "")
    lines = [line.split() for line in out.splitlines()]
    for name in (*models.get_model_names(), *get_dataset_names(), *get_backbone_names()):
        described = [line for line in lines if line[0] == name]
        assert len(described) == 1, name
        assert len(described[0]) > 1, f"{name} has no description"
    for name in get_dataset_names():
        line = next(line for line in out.splitlines() if line.split()[0] == name)
        assert all(config in line for config in get_config_names(name))


@pytest.mark.parametrize(
    ("returned", "found"),
    [
        (None, "NoneType"),
        ("0.5", "str"),
        ({}, "a dict with nothing in it"),
        ({"ce": 0.5, "kd": 1.0}, "a dict with 'ce', 'kd'"),
        ({"loss": None}, "NoneType"),
        (torch.ones(10), "a tensor of shape (10,)"),
    ],
)
def test_a_method_that_returns_no_loss(returned, found, command, tmp_path, monkeypatch):
    """One line that names `observe`, what it gave and what it must give; the record says failed."""
    monkeypatch.setattr(Sgd, "observe", lambda self, *batch, **fields: returned)
    status, _, err = command("--model", "sgd", "--debug_mode", "1", "--non_verbose", "1")
    assert status == 1
    assert err == f"error: observe() of sgd returned {found}; it must return the loss (one number), or a dict with key 'loss'\n"
    assert [record["status"] for record in records_in(tmp_path)] == ["failed"]


# -- a run ---------------------------------------------------------------------------------------------------------------


def test_what_a_run_says(command, tmp_path):
    """Mammoth's accuracy lines on stderr; on stdout the bundled-data line, matrix, ACC and FR as the record has them, the path."""
    status, out, err = command("--model", "er", "--debug_mode", "1", "--seed", "3")
    assert status == 0
    lines = [line for line in err.splitlines() if line.startswith("Accuracy for ")]
    assert [line.split(":")[0] for line in lines] == [f"Accuracy for {task} task(s)" for task in range(1, 6)]
    assert all("[Class-IL]: " in line and "[Task-IL]: " in line for line in lines)
    assert "the paper's benchmark is --dataset seq-cifar10 --dataset_config online" in out
    assert "seed 3" in out
    (path,) = tmp_path.glob("results/records/*/record.json")
    assert f"record: {path}" in out
    record = json.loads(path.read_text())
    for title, key in (("Class-IL", "class_il"), ("Task-IL", "task_il")):
        matrix = record[key]
        best = [max(row[task] for row in matrix[task:]) for task in range(4)]
        accuracy = sum(matrix[4]) / 5
        fall = sum(top - last for top, last in zip(best, matrix[4], strict=False)) / 4
        assert f"{title}: ACC {accuracy:.2f} %, FR {fall:.2f}" in out
    assert lines[-1].split("[Class-IL]: ")[1].startswith(f"{sum(record['class_il'][4]) / 5:.2f} %")
    assert re.search(r"time: [\d.]+ s", out)
    assert "n=1" in out


def test_a_run_that_is_done_already_is_said_to_be_replaced(command, tmp_path):
    """The same command a second time: a line at the start names the record that stands until this run is done."""
    words = ("--model", "sgd", "--debug_mode", "1", "--stop_after", "1", "--seed", "0")
    assert "finished record" not in command(*words)[1]
    out = command(*words)[1]
    (path,) = tmp_path.glob("results/records/*/record.json")
    assert f"a finished record of this run is there: {path}; it is replaced when this one is done" in out
    assert "finished record" not in command(*words, "--lr", "0.5")[1]


def test_accuracies_on_held_out_images_are_called_so(command, tmp_path):
    """--validation: the summary, the record and its row in a table say that they are not of the test images."""
    words = ("--model", "sgd", "--debug_mode", "1", "--stop_after", "1")
    assert "held-out" not in command(*words)[1]
    out = command(*words, "--validation", "0.2")[1]
    assert "Class-IL accuracy (%) on held-out training images" in out
    assert "Class-IL on held-out training images: ACC" in out
    assert "Task-IL on held-out training images: ACC" in out
    found = {record["args"]["validation"]: record for record in records_in(tmp_path)}
    assert [found[share]["data"]["evaluated_on"] for share in (0.0, 0.2)] == ["test images", "held-out training images"]
    kinds = [results.row_of(found[share], "SGD", "")["data"] for share in (0.0, 0.2)]
    assert kinds == ["original", "original (held-out training images)"]


@pytest.mark.parametrize("words", [("--model", "sgd", "--stop_after", "1"), ("--model", "joint")])
def test_one_stage_prints_a_dash_and_never_nan(words, command, tmp_path):
    """One stage has no forgetting: `-`, not nan, in what is printed and in the record."""
    status, out, err = command(*words, "--debug_mode", "1", "--enable_other_metrics", "1")
    assert status == 0
    assert "FR -" in out
    assert "n=1" in out
    (record,) = records_in(tmp_path)
    assert not re.search(r"\bnan\b", (out + err + json.dumps(record)).lower())


def test_debug_mode_runs_six_steps_a_task(command, tmp_path):
    """--debug_mode 1: six steps in each of the five tasks."""
    assert command("--model", "sgd", "--debug_mode", "1")[0] == 0
    (record,) = records_in(tmp_path)
    assert record["provenance"]["steps"] == 30


def test_stop_after_ends_after_n_tasks(command, tmp_path):
    """--stop_after 2 evaluates twice, and the record is whole."""
    _, _, err = command("--model", "sgd", "--debug_mode", "1", "--stop_after", "2")
    assert err.count("Accuracy for ") == 2
    (record,) = records_in(tmp_path)
    assert record["status"] == "done"
    assert [len(row) for row in record["class_il"]] == [1, 2]


def test_the_drawn_seed_is_shown_and_recorded(command, tmp_path):
    """A run without --seed says which it drew, and the same seed gives the same matrices."""
    _, out, _ = command("--model", "sgd", "--debug_mode", "1", "--stop_after", "2")
    (first,) = records_in(tmp_path)
    assert f"seed {first['args']['seed']}" in out
    command("--model", "sgd", "--debug_mode", "1", "--stop_after", "2", "--seed", str(first["args"]["seed"]))
    (again,) = records_in(tmp_path)
    assert again["run_id"] == first["run_id"]
    assert again["class_il"] == first["class_il"]


def test_a_loss_that_is_not_finite_stops_the_run(command, tmp_path):
    """--lr 1e30: status 1; the message has step, learning rate and loss parts; the record is marked failed."""
    status, out, err = command("--model", "er", "--lr", "1e30")
    assert status == 1
    message = [line for line in err.splitlines() if not line.startswith(("Accuracy", "\t"))]
    assert len(message) <= 2
    assert re.match(
        r"error: the loss is not finite at step \d+ of task 1 \(lr 1e\+30; .*loss (nan|inf).*stream (nan|inf)", message[0]
    )
    assert "ACC" not in out
    (record,) = records_in(tmp_path)
    assert record["status"] == "failed"
    assert "not finite" in record["reason"]
    assert record["class_il"] == []


def interrupting(after: int):
    """Return an `observe` for SGD that is interrupted after so many steps."""
    original, steps = Sgd.observe, []

    def observe(self, *batch, **fields):
        steps.append(1)
        if len(steps) > after:
            raise KeyboardInterrupt
        return original(self, *batch, **fields)

    return observe


def test_ctrl_c_marks_the_record_interrupted(command, tmp_path, monkeypatch):
    """Interrupted in the second task: status 130, one line, and the record keeps the first task."""
    monkeypatch.setattr(Sgd, "observe", interrupting(after=8))
    status, _, err = command("--model", "sgd", "--debug_mode", "1")
    assert status == 130
    assert "Traceback" not in err
    assert "interrupted" in err
    (record,) = records_in(tmp_path)
    assert record["status"] == "interrupted"
    assert len(record["class_il"]) == 1


def test_a_fault_of_a_method_marks_the_record_failed(command, tmp_path, monkeypatch):
    """An exception in a method is no input error: it goes through, and the record says failed and why."""

    def broken(self, *batch, **fields):
        raise RuntimeError("a bug in the method")

    monkeypatch.setattr(Sgd, "observe", broken)
    with pytest.raises(RuntimeError, match="a bug in the method"):
        command("--model", "sgd")
    (record,) = records_in(tmp_path)
    assert (record["status"], record["reason"]) == ("failed", "a bug in the method")


# -- real processes --------------------------------------------------------------------------------------------------------


def python(*words: str, cwd: Path = ROOT, **more: str) -> subprocess.CompletedProcess:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **more}
    return subprocess.run([sys.executable, *words], cwd=cwd, env=environment, capture_output=True, text=True, timeout=120)


def test_main_as_a_process_refuses(tmp_path):
    """`python main.py --model pvb`: status 2, the hint on stderr, nothing else, from another working directory too."""
    done = python(str(ROOT / "main.py"), "--model", "pvb", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") <= 2
    assert "pvbf" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_while_torch_is_imported(tmp_path):
    """The first seconds of a run: one line, status 130."""
    (tmp_path / "torch.py").write_text("raise KeyboardInterrupt\n")
    done = python("main.py", "--model", "pvbf", PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stderr) == (130, "error: interrupted\n")


@pytest.mark.parametrize("name", ["sweep", "report", "predict", "confirm"])
def test_ctrl_c_while_a_command_imports_torch(tmp_path, name):
    """One line, and the end that a shell takes for Ctrl-C; what else goes wrong there is shown as it is."""
    (tmp_path / "torch.py").write_text("raise KeyboardInterrupt\n")
    done = python("-m", f"mammoth.{name}", PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "interrupted\n")
    (tmp_path / "torch.py").write_text("raise RuntimeError('broken installation')\n")
    done = python("-m", f"mammoth.{name}", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert done.stderr.endswith("RuntimeError: broken installation\n")


@pytest.mark.parametrize(
    "words", ["main.py --model pvbf", *(f"-m mammoth.{name}" for name in ("sweep", "report", "predict", "confirm"))]
)
def test_without_the_packages_it_says_how_to_get_them(words):
    """Python without its site-packages, as outside the environment: one line, status 2."""
    done = python("-S", *words.split())
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "not installed" in done.stderr
    assert "scripts/quickstart.sh" in done.stderr


def test_main_as_a_process_runs(tmp_path):
    """`python main.py --model pvbf --debug_mode 1`: status 0, accuracies on stderr, the record under --base_path."""
    done = python("main.py", "--model", "pvbf", "--debug_mode", "1", "--base_path", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("Accuracy for ") == 5
    assert "\r" not in done.stderr
    assert len(records_in(tmp_path)) == 1


IMPORTS = """
import os, sys
import matplotlib, sklearn, torch, torchvision  # theirs is theirs
before = os.getcwd(), dict(os.environ), list(sys.path)
import contextlib, importlib, io, pathlib
written = io.StringIO()
names = sorted(
    str(path.relative_to("."))[:-3].replace("/", ".").removesuffix(".__init__")
    for room in ("backbone", "datasets", "mammoth", "models", "utils") for path in pathlib.Path(room).rglob("*.py")
)
names += ["main"]
with contextlib.redirect_stdout(written), contextlib.redirect_stderr(written):
    for name in names:
        importlib.import_module(name)
        assert (os.getcwd(), dict(os.environ), list(sys.path)) == before, name
        assert not written.getvalue(), (name, written.getvalue())
print(len(names))
"""


def test_importing_changes_nothing_and_prints_nothing():
    """Every module of the project, `main` too: working directory, environment and path stay, nothing is written."""
    done = python("-W", "error", "-c", IMPORTS)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert int(done.stdout) > 30
