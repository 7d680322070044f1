"""A-GEM: the projection by hand, and the step that follows it."""

import pytest
import torch
from torch.testing import assert_close

from mammoth.runner import build, train_task
from models import agem

EXACT = {"rtol": 0.0, "atol": 0.0}


def test_projection_by_hand():
    """g = (3, 1), g_ref = (-2, 0): the dot product is -6, so z = g + 6/4 (-2, 0) = (0, 1), at a right angle to g_ref."""
    assert_close(agem.project(torch.tensor([3.0, 1.0]), torch.tensor([-2.0, 0.0])), torch.tensor([0.0, 1.0]), **EXACT)


@pytest.mark.parametrize("reference", [(2.0, 0.0), (0.0, 5.0), (-1.0, 3.0), (0.0, 0.0)])
def test_gradient_stays_where_the_memorys_loss_would_not_rise(reference):
    """A dot product of 0 or more leaves g as it is; so does a reference of zero."""
    gradient = torch.tensor([3.0, 1.0])
    assert_close(agem.project(gradient, torch.tensor(reference)), gradient, **EXACT)


@pytest.mark.parametrize("seed", range(5))
def test_projection_is_nearest_and_harmless(seed):
    """z lies at a right angle to g_ref and differs from g along g_ref only."""
    gradient, reference = torch.randn(2, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    reference = reference if gradient @ reference < 0 else -reference
    projected = agem.project(gradient, reference)
    assert abs(projected @ reference) < 1e-12
    assert_close((gradient - projected) / reference, ((gradient - projected) / reference)[:1].expand(9))


def test_step_follows_the_projected_gradient(resolve):
    """theta - lr z, with g from the stream and g_ref from the whole of a memory smaller than a replay batch."""
    parts = build(resolve("--model", "agem", "--buffer_size", "4"))
    model = parts.model
    parts.dataset.get_data_loaders()
    train_task(parts)
    parts.dataset.get_data_loaders()
    model.meta_begin_task(parts.dataset)
    inputs, labels, raw = next(iter(parts.dataset.train_loader))
    pairs = ((inputs, labels), model.buffer.get_all_data(model.transform))
    grads = [torch.autograd.grad(model.loss(model.net(x), y), list(model.parameters())) for x, y in pairs]
    stream, reference = (torch.cat([piece.reshape(-1) for piece in parts]) for parts in grads)
    assert stream @ reference < 0  # else this would show nothing
    before = model.net.get_params().detach()
    model.observe(inputs, labels, raw)
    assert_close(model.net.get_params().detach(), before - model.args.lr * agem.project(stream, reference), rtol=1e-4, atol=1e-6)


def test_memory_of_the_current_task_puts_no_constraint(resolve, monkeypatch):
    """In the first task there is no past, so nothing is projected."""
    monkeypatch.setattr(agem, "project", None)
    parts = build(resolve("--model", "agem"))
    parts.dataset.get_data_loaders()
    train_task(parts)
    assert len(parts.model.buffer) > 0


def test_it_learns_and_forgets_less_than_sgd(go):
    """After two tasks, plain training has forgotten the first (Class-IL 50.0); A-GEM stands at 62.0, 64.1 and 69.7 (seeds 0 to 2).

    At the end both are near 20: one averaged constraint protects little of Class-IL, as published.
    """
    record = go("--model", "agem", "--seed", "0")
    assert sum(record["class_il"][1]) / 2 > 55
    assert sum(record["task_il"][-1]) / 5 > 90
