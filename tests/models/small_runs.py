"""Methods in small runs, and around small networks: what the tests of single methods share."""

from argparse import ArgumentParser
from types import SimpleNamespace

import torch
from torch import nn
from torch.nn import functional as F

from backbone import MammothBackbone
from mammoth.runner import build, train_task
from models import get_model_class
from utils import metrics
from utils.evaluate import evaluate_tasks


class Flat(MammothBackbone):
    """A linear classifier on the inputs themselves, after batch norm or another module if one is given."""

    def __init__(self, weight, bias=None, trunk=None):
        super().__init__()
        weight = torch.as_tensor(weight, dtype=torch.float32)
        self.trunk = trunk or nn.Identity()
        self.classifier = nn.Linear(weight.shape[1], weight.shape[0])
        with torch.no_grad():
            self.classifier.weight.copy_(weight)
            self.classifier.bias.copy_(torch.zeros(len(weight)) if bias is None else torch.as_tensor(bias))

    def features(self, x):
        return self.trunk(x.flatten(1))


def method_around(net, name, *words, memory=10, lr=0.1, batch=4):
    """Build a method around a network, with no benchmark and no transform."""
    kind = get_model_class(name)
    sizes = ["--buffer_size", str(memory), "--minibatch_size", str(batch)]
    args = kind.get_parser(ArgumentParser()).parse_args([*sizes, *words])
    args.lr, args.device = lr, "cpu"
    method = kind(net, F.cross_entropy, args, None)
    method.net.train()
    return method


def task_of(first, past_last):
    """Return what `meta_begin_task` and `meta_end_task` need to know of a task."""
    return SimpleNamespace(training_range=lambda: (first, past_last), EIGHT_BIT=False)


def after_tasks(args, tasks, each=None):
    """Train on the first tasks of a run, evaluating after each; return method, benchmark and the accuracy matrix."""
    method, dataset = build(args)
    matrix = []
    for task in range(tasks):
        dataset.get_data_loaders()
        train_task((method, dataset))
        matrix.append(evaluate_tasks(method, dataset, range(task + 1)).class_il)
        if each is not None:
            each(method, dataset)
    return method, dataset, matrix


def accuracy(args):
    """Return ACC of a whole run."""
    return metrics.average_accuracy(after_tasks(args, 5)[2])


def weights(method):
    """Return the network's state as one vector."""
    return torch.cat([value.double().reshape(-1) for value in method.net.state_dict().values()])


def restored(args, method):
    """Return a fresh method that has been given another's `state_dict` and memory, as a checkpoint would."""
    fresh = build(args).model
    fresh.load_state_dict(method.state_dict())
    fresh.buffer.load_state_dict(method.buffer.state_dict())
    return fresh
