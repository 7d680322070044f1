"""PVBF on a residual network through the engine, beside another network and a plain loop on the very same batches.

Loop and network are written from the paper and He et al. 2016, with nothing of the project. All is in double precision: in single
precision a ReLU whose input is within rounding of zero may pass a gradient in one of the networks and not in the other.
"""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from mammoth.runner import build, train_task

NEAR = {"rtol": 1e-6, "atol": 1e-8}
RATE, FILTERS, TASKS, STEPS = 0.05, 2, 3, 8
WORDS = f"--model pvbf --dataset seq-digits --backbone resnet18 --num_filters {FILTERS} --lr {RATE} --n_iters {STEPS}"


class Block(nn.Module):
    """Two convolutions and what goes past them."""

    def __init__(self, inward, outward, stride):
        super().__init__()
        self.conv_a = nn.Conv2d(inward, outward, 3, stride, 1, bias=False)
        self.norm_a = nn.BatchNorm2d(outward)
        self.conv_b = nn.Conv2d(outward, outward, 3, 1, 1, bias=False)
        self.norm_b = nn.BatchNorm2d(outward)
        same = stride == 1 and inward == outward
        self.past = (
            nn.Sequential() if same else nn.Sequential(nn.Conv2d(inward, outward, 1, stride, bias=False), nn.BatchNorm2d(outward))
        )

    def forward(self, x):
        return F.relu(self.norm_b(self.conv_b(F.relu(self.norm_a(self.conv_a(x))))) + self.past(x))


def plain_network():
    """ResNet-18 for one channel and ten classes."""
    parts, width = [nn.Conv2d(1, FILTERS, 3, 1, 1, bias=False), nn.BatchNorm2d(FILTERS), nn.ReLU()], FILTERS
    for stage in range(4):
        outward = FILTERS * 2**stage
        parts += [Block(width, outward, 2 if stage else 1), Block(outward, outward, 1)]
        width = outward
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10)).double()


def plain_step(net, optimizer, task, inputs, labels, replayed, correlation):
    """One step of Algorithm 1 without D-CWR."""
    optimizer.zero_grad()
    barred = torch.full((10,), -torch.inf, dtype=torch.float64)
    barred[labels.unique()] = 0
    loss = F.cross_entropy(net(inputs) + barred, labels)
    if task > 0:
        loss = loss + F.cross_entropy(net(replayed[0])[:, : 2 * task + 2], replayed[1])
    loss.backward()
    for parameter, divisor in zip(net.parameters(), correlation or [], strict=bool(correlation)):
        parameter.grad /= divisor
    optimizer.step()


def correlation_after(net, before, correlation):
    """Eqs. 1, 7 and 8: how far each parameter moved, between 0.5 and 2, and the maximum over the tasks so far."""
    moved = [(parameter.detach() - old).abs() for parameter, old in zip(net.parameters(), before, strict=True)]
    low, high = min(float(change.min()) for change in moved), max(float(change.max()) for change in moved)
    new = [0.5 + 1.5 * (change - low) / (high - low) for change in moved]
    return [torch.maximum(a, b) for a, b in zip(new, correlation or new, strict=True)]


@pytest.fixture
def method_and_batches(resolve):
    """PVBF without D-CWR in double precision, its benchmark, and a list of the batches that it trains on."""
    method, dataset = build(resolve(*WORDS.split(), "--dcwr", "0", "--buffer_size", "60"))
    method.double()
    batches, observe, get_data = [], method.observe, method.buffer.get_data

    def observing(inputs, labels, *others, **named):
        batches.append([inputs.double(), labels, None])
        return observe(inputs.double(), labels, *others, **named)

    def drawing(*words, **named):
        images, labels = get_data(*words, **named)
        batches[-1][2] = images.double(), labels
        return batches[-1][2]

    vars(method)["observe"], vars(method.buffer)["get_data"] = observing, drawing
    return method, dataset, batches


def test_the_engine_trains_what_a_plain_loop_trains(method_and_batches):
    """Weights and C are the same after each task, with the memory full and images in it replaced."""
    method, dataset, batches = method_and_batches
    net, correlation = plain_network(), None
    with torch.no_grad():
        for mine, engines in zip(net.parameters(), method.net.parameters(), strict=True):
            mine.copy_(engines)
    optimizer = torch.optim.SGD(net.parameters(), RATE)
    for task in range(TASKS):
        before = [parameter.detach().clone() for parameter in net.parameters()]
        dataset.get_data_loaders()
        train_task((method, dataset))
        assert len(batches) == STEPS
        for batch in batches:
            assert set(batch[1].tolist()) <= {2 * task, 2 * task + 1}
            assert (batch[2] is not None) == (task > 0)
            plain_step(net, optimizer, task, *batch, correlation)
        correlation = correlation_after(net, before, correlation)
        for mine, engines in zip(net.parameters(), method.net.parameters(), strict=True):
            torch.testing.assert_close(mine, engines, **NEAR)
        flat = torch.cat([part.reshape(-1) for part in correlation])
        torch.testing.assert_close(flat, method.correlation.correlation, **NEAR)
        batches.clear()
    assert method.buffer.is_full()
