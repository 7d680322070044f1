"""Weights and state from a file: `--loadcheck`, `--start_from`, `--inference_only`, and the names under which runs are saved."""

from argparse import Namespace

import pytest
import torch

import models
from mammoth import cli, runner
from models.memories.balanced_buffer import BalancedBuffer
from tests.mammoth_tests.test_resume import Hostile, differing
from utils.checkpoints import _load_memory as load_method_memory
from utils.checkpoints import load_checkpoint, load_weights, mammoth_load_checkpoint, save_mammoth_checkpoint

METHODS = sorted(models.get_model_names())
SHORT = ("--debug_mode", "1", "--stop_after", "2")


@pytest.fixture
def trained(go, tmp_path):
    """Return a function that trains a method for two short tasks; returns record and the path of its last checkpoint."""

    def made(method, *words):
        record = go("--model", method, *SHORT, "--savecheck", "last", "--checkpoint_path", str(tmp_path / "kept"), *words)
        return record, str(tmp_path / "kept" / record["run_id"] / "last.pt")

    return made


@pytest.fixture
def begun(resolve):
    """Return a function that builds a method and loads what the flags name into it."""

    def built(method, *words):
        args = resolve("--model", method, *SHORT, *words)
        parts = runner.build(args)
        runner.open_keeper(parts, runner.Record(args, []), None)
        return parts.model

    return built


def same_network(method, weights):
    """Whether a method's network has these weights."""
    return all(torch.equal(value, weights[f"net.{name}"]) for name, value in method.net.state_dict().items())


# -- whose weights they are ------------------------------------------------------------------------------------------------


def test_a_checkpoint_of_another_method(trained, begun):
    """PVBF begins with ER's network and nothing else of it."""
    _, path = trained("er")
    model = begun("pvbf", "--loadcheck", path)
    assert same_network(model, load_checkpoint(path)["model"])
    assert model.buffer.is_empty()


@pytest.mark.parametrize("names", ["{}", "module.{}", "net.{}", "net.module.{}"])
@pytest.mark.parametrize("kind", ["bare", "state_dict", "model"])
def test_files_of_others(names, kind, trained, begun, tmp_path):
    """A bare state_dict, one under `state_dict`, Mammoth's checkpoint; each with the prefixes that DataParallel and methods add."""
    weights = load_checkpoint(trained("sgd")[1])["model"]
    others = {names.format(name.removeprefix("net.")): value for name, value in weights.items()}
    path = tmp_path / "others.pt"
    torch.save(others if kind == "bare" else {kind: others, "args": {"model": "sgd"}, "results": [[], [], {}]}, path)
    assert same_network(begun("er", "--loadcheck", str(path)), weights)


def test_a_classifier_of_another_size(trained, begun, tmp_path, caplog):
    """The rest is loaded, and a line says what stays as it was."""
    weights = load_checkpoint(trained("sgd")[1])["model"]
    names = [name for name in weights if "classifier" in name]
    torch.save({**weights, **{name: torch.zeros(7, *weights[name].shape[1:]) for name in names}}, tmp_path / "seven.pt")
    model = begun("sgd", "--loadcheck", str(tmp_path / "seven.pt"))
    fresh = begun("sgd").net.state_dict()
    for name, value in model.net.state_dict().items():
        assert torch.equal(value, fresh[name] if "classifier" in name else weights[f"net.{name}"])
    assert "the classifier stays as it was: classifier.weight [10, 100] (the file has [7, 100])" in caplog.text


def test_what_does_not_fit_is_named(go, tmp_path):
    """A missing layer, a file without weights, none at all, an address: one error each, before anything is trained."""
    for content, says in (
        ({"conv1.weight": torch.zeros(2, 2)}, r"does not fit the network: .*\.weight \[\d+, \d+\] \(not in the file\)"),
        ({"epoch": 3}, "holds no weights"),
        ([torch.zeros(2)], "holds a list"),
    ):
        torch.save(content, tmp_path / "file.pt")
        with pytest.raises(runner.InputError, match=says):
            go("--model", "sgd", *SHORT, "--loadcheck", str(tmp_path / "file.pt"))
    for name in (str(tmp_path / "absent.pt"), "https://localhost/weights.pt", str(tmp_path)):
        with pytest.raises(ValueError, match="no file that can be read"):
            go("--model", "sgd", *SHORT, "--loadcheck", name)


def test_weights_that_would_execute_code(tmp_path):
    """Refused with the file's name, and nothing is executed."""
    torch.save({"conv1.weight": Hostile(tmp_path / "made")}, tmp_path / "hostile.pt")
    with pytest.raises(ValueError, match=r"hostile\.pt is corrupt or no checkpoint"):
        load_weights(tmp_path / "hostile.pt")
    assert not (tmp_path / "made").exists()


def test_other_weights_are_another_run(trained, resolve, tmp_path):
    """The run's name follows what is in the file, not where it lies."""
    _, path = trained("sgd")
    copy, other = tmp_path / "copy.pt", tmp_path / "other.pt"
    copy.write_bytes((tmp_path / path).read_bytes())
    other.write_bytes(b"other")
    ids = [resolve("--model", "sgd", "--loadcheck", str(name)).run_id for name in (path, copy, other)]
    assert ids[0] == ids[1] != ids[2] != resolve("--model", "sgd").run_id


# -- tasks that are not trained ----------------------------------------------------------------------------------------------


def check_inference(method, go, trained):
    """A trained method, loaded and evaluated alone, has the accuracies and the confusion that it had at its end."""
    record, path = trained(method)
    again = go("--model", method, *SHORT, "--loadcheck", path, "--inference_only", "1")
    for name in ("class_il", "task_il", "confusion"):
        assert again[name][-1] == record[name][-1]
    assert len(again["class_il"]) == len(record["class_il"])
    assert again["provenance"]["steps"] == 0
    assert cli.summary(again, "")


@pytest.mark.parametrize("method", ["pvbf", "icarl", "gdumb", "joint"])
def test_inference_only(method, go, trained):
    """With long-term memories, class means, a memory that trains at evaluation, one task."""
    check_inference(method, go, trained)


def test_a_memory_that_keeps_less_than_it_may():
    """GDumb's, of unequal classes: 4 of one and 10 of the other, of 34 images offered, in a memory of 20."""
    memory, copy, smaller = (BalancedBuffer(size) for size in (20, 20, 10))
    memory.offer(torch.rand(34, 3, 2, 2), torch.tensor([0] * 4 + [1] * 30))
    load_method_memory(copy, memory.state_dict(), "a file")
    assert len(copy) == len(memory) == 14
    assert torch.equal(copy.labels[:14], memory.labels[:14])
    with pytest.raises(ValueError, match="a memory of 14 images, and --buffer_size is 10"):
        load_method_memory(smaller, memory.state_dict(), "a file")


@pytest.mark.long
@pytest.mark.parametrize("method", METHODS)
def test_inference_only_with_every_method(method, go, trained):
    """All the others too."""
    check_inference(method, go, trained)


def test_a_sequence_goes_on_with_other_settings(go, trained, tmp_path):
    """Two tasks, then a third at another rate: the first two stages are the file's, and the third task's classes are learnt."""
    record, path = trained("er")
    words = ("--debug_mode", "1", "--stop_after", "3", "--lr", "0.05", "--loadcheck", path, "--start_from", "2")
    again = go("--model", "er", *words, "--savecheck", "last", "--checkpoint_path", str(tmp_path / "on"))
    assert differing(record, {**again, "class_il": again["class_il"][:2]}, ("class_il",)) == []
    assert again["class_il"][2][2] > 50
    assert again["provenance"]["steps"] == 6
    state = load_checkpoint(tmp_path / "on" / again["run_id"] / "last.pt")
    assert state["counters"]["_current_task"] == 3
    assert state["buffer"]["num_seen_examples"] == 3 * 60


def test_mammoths_memory(trained, begun, tmp_path):
    """A checkpoint with rows alone: they are in the memory, and count as seen and as past; another size is refused."""
    content = load_checkpoint(trained("er")[1])
    rows = {"examples": torch.rand(30, 1, 8, 8), "labels": torch.arange(30) % 4}
    kept = {"model": content["model"], "args": {"model": "er"}, "results": [[], [], {}], "buffer": rows}
    torch.save(kept, tmp_path / "mammoths.pt")
    words = ("--loadcheck", str(tmp_path / "mammoths.pt"), "--inference_only", "1")
    memory = begun("er", "--buffer_size", "30", *words).buffer
    assert torch.equal(memory.examples, rows["examples"])
    assert (len(memory), memory.num_seen_examples, memory.num_past) == (30, 30, 30)
    with pytest.raises(runner.InputError, match="holds a memory of 30 images, and --buffer_size is 20"):
        begun("er", "--buffer_size", "20", *words)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--inference_only", "1"), "give --loadcheck FILE"),
        (("--start_from", "2"), "there are 2 tasks"),
        (("--start_from", "1", "--enable_other_metrics", "1"), "excludes --enable_other_metrics"),
        (("--save_checkpoint_mode", "old_pickle"), "executes what it holds"),
        (("--ckpt_name", "../up"), "no name of a file"),
        (("--ckpt_name", ""), "no name of a file"),
    ],
)
def test_what_does_not_go_together(words, says, tmp_path, capsys):
    """One line that says why; status 2."""
    assert cli.main(["--model", "sgd", *SHORT, *words, "--base_path", str(tmp_path), "--device", "cpu"]) == 2
    said = capsys.readouterr().err.split("error: ")[1]
    assert says in said
    assert len(said.splitlines()) == 1


def test_starting_late_without_a_file(go):
    """--start_from 1 alone: the first task is evaluated with an untrained network, the second is trained."""
    record = go("--model", "sgd", *SHORT, "--start_from", "1")
    assert len(record["class_il"]) == 2
    assert record["class_il"][1][1] > 50
    assert record["provenance"]["steps"] == 6


# -- names and Mammoth's functions -------------------------------------------------------------------------------------------


def test_a_name_of_ones_own(go, tmp_path):
    """--ckpt_name mine stands before the run's name, is found by --resume auto, and makes no other run."""
    words = ("--model", "sgd", *SHORT, "--ckpt_name", "mine", "--checkpoint_path", str(tmp_path / "kept"))
    record = go(*words, "--savecheck", "last")
    base = f"mine_{record['run_id']}"
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == [base, f"{base}_last.pt"]
    assert go(*words, "--resume", "auto")["provenance"]["resumed_at"] == [12]
    assert go("--model", "sgd", *SHORT)["run_id"] == record["run_id"]


@pytest.mark.parametrize(
    ("savecheck", "joint", "saved"),
    [("task", 0, ["mine_0.pt", "mine_1.pt"]), ("last", 0, ["mine_last.pt"]), ("last", 1, ["mine_joint.pt"])],
)
def test_mammoths_functions(savecheck, joint, saved, begun, tmp_path):
    """`save_mammoth_checkpoint` writes Mammoth's names; `mammoth_load_checkpoint` puts weights and memory back."""
    words = ("--savecheck", savecheck, "--ckpt_name", "mine", "--checkpoint_path", str(tmp_path / "kept"))
    model = begun("er", *words)
    model.buffer.add_data(torch.rand(4, 1, 8, 8), labels=torch.arange(4))
    model.args.joint = joint
    for task in range(2):
        save_mammoth_checkpoint(task, 2, model.args, model, results=[[[50.0]], [[60.0]], {}])
    assert sorted(path.name for path in (tmp_path / "kept").glob("*.pt")) == saved
    fresh = begun("er")
    with torch.no_grad():
        fresh.net.classifier.weight.zero_()
    args = Namespace(loadcheck=str(tmp_path / "kept" / saved[-1]))
    loaded, results = mammoth_load_checkpoint(args, fresh)
    assert loaded is fresh
    assert results == [[[50.0]], [[60.0]], {}]
    assert torch.equal(fresh.buffer.examples[:4], model.buffer.examples[:4])
    assert torch.equal(fresh.net.classifier.weight, model.net.classifier.weight)


def test_a_bare_network_without_its_classifier(begun, tmp_path):
    """`mammoth_load_checkpoint(..., ignore_classifier=True)` leaves the classifier as it is."""
    model = begun("sgd")
    torch.save({name: torch.ones_like(value) for name, value in model.net.state_dict().items()}, tmp_path / "ones.pt")
    before = model.net.classifier.weight.clone()
    mammoth_load_checkpoint(Namespace(loadcheck=str(tmp_path / "ones.pt")), model, ignore_classifier=True)
    assert torch.equal(model.net.classifier.weight, before)
    assert all(bool((value == 1).all()) for name, value in model.net.state_dict().items() if "classifier" not in name)
