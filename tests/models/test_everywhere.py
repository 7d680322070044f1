"""Every method in the registry on other images than the digits: colour with the online tables' network, and grey 28 x 28."""

from copy import deepcopy

import pytest
import torch

import models
from mammoth.runner import build, train_task
from tests.models import made_sets  # noqa: F401 - registers them
from utils import randomness
from utils.evaluate import evaluate_tasks

METHODS = sorted(models.get_model_names())
NETWORKS = {"made-colours": "reduced-resnet18", "made-greys": "mnistmlp"}
MEMORY = ("--buffer_size", "6")
SHORT = {
    **dict.fromkeys(("iid", "joint", "sgd"), ()),  # no memory
    "hal": (*MEMORY, "--hal_anchor_steps", "2"),
    "gdumb": (*MEMORY, "--fitting_epochs", "1"),
}


def trained(args, tasks, parts=None):
    """Go on through `tasks` more tasks of a run, evaluating after each; return its parts and the accuracies after the last."""
    parts = parts or build(args)
    for _ in range(tasks):
        parts.dataset.get_data_loaders()
        train_task(parts)
        found = evaluate_tasks(parts.model, parts.dataset, range(len(parts.dataset.test_loaders)))
    return parts, found.class_il


@pytest.mark.parametrize("dataset", ["made-greys", pytest.param("made-colours", marks=pytest.mark.long)])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_on_every_kind_of_image(method, dataset, resolve):
    """Two tasks of two steps leave finite weights, logits for all classes and percentages; a copy then goes on bit for bit."""
    sizes = ("--backbone", NETWORKS[dataset], "--batch_size", "2", "--n_epochs", "1", "--n_iters", "2", "--lr", "0.03")
    args = resolve("--model", method, "--dataset", dataset, *sizes, *SHORT.get(method, MEMORY))
    parts, accuracies = trained(args, 1 if args.joint else 2)
    model = parts.model
    assert all(value.isfinite().all() for value in model.state_dict().values() if isinstance(value, torch.Tensor))
    assert len(accuracies) == (3 if args.joint else 2)
    assert all(0 <= value <= 100 for value in accuracies)
    model.net.eval()
    height, width, channels = parts.dataset.SIZE
    assert model(torch.zeros(3, channels, height, width)).shape == (3, 5)
    if not args.joint:
        original, copy = third_task(args, parts)
        assert original.keys() == copy.keys()
        assert all(torch.equal(value, copy[name]) for name, value in original.items())


def third_task(args, parts):
    """Train the third task in a run and in a fresh one that was given its state; return the state of both afterwards."""
    state, draws = deepcopy(parts.model.state_dict()), randomness.current().state_dict()
    memory = deepcopy(parts.model.buffer.state_dict()) if hasattr(parts.model, "buffer") else None
    original = deepcopy(trained(args, 1, parts)[0].model.state_dict())
    copy = build(args)
    for _ in range(2):
        copy.dataset.get_data_loaders()
    copy.model.load_state_dict(state)
    copy.model._current_task = 2
    if memory is not None:
        copy.model.buffer.load_state_dict(memory)
    randomness.current().load_state_dict(draws)
    return original, trained(args, 1, copy)[0].model.state_dict()


@pytest.mark.parametrize("method", METHODS)
def test_domains(method, resolve):
    """Two tasks with the same classes leave finite weights; iCaRL says in one line that it cannot."""
    sizes = ("--backbone", "mnistmlp", "--batch_size", "2", "--n_epochs", "1", "--n_iters", "2", "--lr", "0.03")
    words = ("--model", method, "--dataset", "made-domains", *sizes, *SHORT.get(method, MEMORY))
    if method == "icarl":
        with pytest.raises(ValueError, match="icarl takes class-il and task-il benchmarks; made-domains is domain-il"):
            resolve(*words)
        return
    args = resolve(*words)
    parts, accuracies = trained(args, 1 if args.joint else 2)
    assert all(value.isfinite().all() for value in parts.model.state_dict().values() if isinstance(value, torch.Tensor))
    assert all(0 <= value <= 100 for value in accuracies)
