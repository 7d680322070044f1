"""GEM, A-GEM, FDR, GSS, HAL and GDumb on colour images with batch norm: uneven tasks, domains, odd sizes, going on in a copy."""

from copy import deepcopy

import pytest
import torch
from torch.testing import assert_close

from datasets import register_dataset
from datasets.utils.continual_dataset import ContinualDataset
from mammoth.runner import build, train_task
from tests.models.made_sets import made_images
from utils import randomness

METHODS = ["gem", "agem", "fdr", "gss", "hal", "gdumb"]
SHORT = {"gss": ["--gss_minibatch_size", "3"], "hal": ["--hal_anchor_steps", "3"], "gdumb": ["--fitting_epochs", "3"]}
NETWORK = ["--backbone", "resnet18", "--num_filters", "2"]


@register_dataset("six-colours")
class SixColours(ContinualDataset):
    """Six classes in tasks of 3, 1 and 2."""

    NAME = "six-colours"
    SETTING = "class-il"
    N_TASKS, N_CLASSES_PER_TASK, N_CLASSES, SIZE = 3, [3, 1, 2], 6, (16, 16, 3)
    TRANSFORM = ["RandomHorizontalFlip", "ToTensor"]

    def load(self, train):
        return made_images(16, 3, classes=6, per_class=6)


@register_dataset("two-domains")
class TwoDomains(SixColours):
    """All six classes in each of two tasks (in this setting the numbers per task are not looked at)."""

    NAME = "two-domains"
    SETTING = "domain-il"
    N_TASKS, N_CLASSES_PER_TASK = 2, [3, 3]


def flags(method, dataset="six-colours", batch=4, memory=9):
    """Return a command line that runs a method in well under a second."""
    sizes = ["--batch_size", str(batch), "--minibatch_size", "5"] if method != "gem" else ["--batch_size", str(batch)]
    words = ["--model", method, "--dataset", dataset, "--buffer_size", str(memory), "--lr", "0.03", "--n_epochs", "1"]
    return [*words, *sizes, *NETWORK, *SHORT.get(method, [])]


def trained(args, tasks, parts=None):
    """Go on through `tasks` more tasks, from the beginning or from a run's parts."""
    parts = parts or build(args)
    for _ in range(tasks):
        parts.dataset.get_data_loaders()
        train_task(parts)
    return parts


def finite(model):
    """Whether all weights and statistics are."""
    return all(value.isfinite().all() for value in model.state_dict().values() if isinstance(value, torch.Tensor))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dataset", ["six-colours", "two-domains"])
def test_uneven_tasks_and_domains(method, dataset, resolve):
    """Every task is trained; the memory keeps its bounds and its 8-bit images; the network is left in training mode."""
    args = resolve(*flags(method, dataset))
    model = trained(args, 3 if dataset == "six-colours" else 2).model
    assert finite(model)
    assert 6 <= len(model.buffer) <= 9
    assert model.buffer._rows["examples"].dtype == torch.uint8
    assert model.net.training
    assert {id(parameter) for parameter in model.parameters()} == {id(parameter) for parameter in model.net.parameters()}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("batch", "memory"), [(1, 3), (5, 3), (50, 200)])
def test_odd_sizes(method, batch, memory, resolve):
    """Batches of one, a memory smaller than a replay batch, and one with room for all."""
    short = ["--n_iters", "6"] if batch == 1 else []
    model = trained(resolve(*flags(method, batch=batch, memory=memory), *short), 3).model
    assert finite(model)
    assert len(model.buffer) == (3 if memory == 3 else 36)


@pytest.mark.parametrize("method", METHODS)
def test_a_copy_goes_on_as_the_original(method, resolve):
    """All state is in `state_dict`, the memory and the generators: the third task gives the same weights bit for bit."""
    args = resolve(*flags(method))
    parts = trained(args, 2)
    state, memory = deepcopy(parts.model.state_dict()), deepcopy(parts.model.buffer.state_dict())
    draws = randomness.current().state_dict()
    original = trained(args, 1, parts).model
    copy = build(args)
    for _ in range(2):
        copy.dataset.get_data_loaders()
    copy.model.load_state_dict(state)
    copy.model.buffer.load_state_dict(memory)
    copy.model._current_task = 2
    randomness.current().load_state_dict(draws)
    trained(args, 1, copy)
    assert copy.model.state_dict().keys() == original.state_dict().keys()
    for name, value in original.state_dict().items():
        assert torch.equal(copy.model.state_dict()[name], value), name
    theirs = original.buffer.state_dict()
    for name, value in copy.model.buffer.state_dict().items():
        assert_close(value, theirs[name], rtol=0, atol=0)


@pytest.mark.parametrize("method", METHODS)
def test_frozen_parameters_stay(method, resolve):
    """A network whose first layer is not trained."""
    parts = build(resolve(*flags(method)))
    parts.model.net.conv1.weight.requires_grad_(False)
    before = parts.model.net.conv1.weight.clone()
    trained(None, 2, parts)
    assert torch.equal(parts.model.net.conv1.weight, before)
    assert finite(parts.model)
