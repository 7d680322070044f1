"""PVBF against a second implementation, in NumPy, of the paper's Algorithms 1 and 2 on a linear softmax classifier.

The reference is written from the paper alone: one loop for each "for" of the algorithms, one parameter or class at a time, in
float64. Both get the same weights, batches, replayed batches and draws of epsilon. Classes 4 and 5 of the head are never met.
"""

from argparse import ArgumentParser
from math import sqrt
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from backbone import MammothBackbone
from models.pvbf import Pvbf

FEATURES, CLASSES, TASKS, STEPS, BATCH = 3, 6, 2, 4, 5
RATE, ALPHA, BETA, P, SEED = 0.3, 0.5, 2.0, 0.6, 11
EXACT = {"rtol": 1e-10, "atol": 1e-12}


# -- the reference: the paper in loops -------------------------------------------------------------------------------------


def relative_change(delta, name):
    """Eqs. 2-5."""
    mean = sum(delta) / len(delta)
    if name == "rr":
        return [d / mean for d in delta]
    if name == "zs":
        sigma = sqrt(sum((d - mean) ** 2 for d in delta) / len(delta))
        return [(d - mean) / sigma for d in delta]
    low, median, high = np.percentile(delta, [25, 50, 75])
    return [(d - median) / (high - low) for d in delta]


def gradients(weight, bias, inputs, labels, classes):
    """Gradient of the mean cross-entropy with the softmax over `classes` only."""
    d_weight, d_bias = np.zeros_like(weight), np.zeros_like(bias)
    for x, y in zip(inputs, labels, strict=True):
        exponentials = {j: np.exp(weight[j] @ x + bias[j]) for j in classes}
        for j in classes:
            error = exponentials[j] / sum(exponentials.values()) - (j == y)
            d_weight[j] += error * x / len(inputs)
            d_bias[j] += error / len(inputs)
    return d_weight, d_bias


def dual_layer_cwr(omega, labels, memory, epsilon, multiset):
    """One step of Algorithm 2 on the rows `omega`; `memory` holds M^c, M^l and P; S_t is a set, or a multiset as U counts it."""
    classes = set(labels)
    members = list(labels) if multiset else classes
    mean = sum(omega[k] for k in members) / len(members)
    for j in classes:
        sensory = omega[j] - mean
        occurrences = list(labels).count(j)
        eta_short = memory["P"][j] / occurrences
        eta_long = sqrt(memory["P"][j] / occurrences)
        if epsilon[j] < P:
            memory["short"][j] = (memory["short"][j] * eta_short + sensory) / (eta_short + 1)
        memory["long"][j] = (memory["long"][j] * eta_long + memory["short"][j]) / (eta_long + 1)
        memory["P"][j] += occurrences


def algorithm_1(data, epsilons, *, apply="predict", bias_column=True, scaling="rr", ec="1", ace=True, dcwr=True, multiset=True):
    """Algorithm 1 with Algorithm 2 at each step; returns what was found at the end of each task."""
    weight, bias = data["weight"].copy(), data["bias"].copy()
    correlation = [0.0] * (weight.size + bias.size)
    rows = np.zeros((CLASSES, FEATURES + bias_column))
    memory = {"short": rows.copy(), "long": rows.copy(), "P": [0] * CLASSES}
    seen, step, found = set(), 0, []
    for task in range(TASKS):
        start = np.concatenate([weight.ravel(), bias])  # theta_{k-1}
        seen |= {2 * task, 2 * task + 1}
        for inputs, labels in data["stream"][task]:
            d_weight, d_bias = gradients(weight, bias, inputs, labels, set(labels) if ace else set(range(CLASSES)))
            trained = list(labels)
            if task > 0:
                past_inputs, past_labels = data["replay"][step - STEPS]
                trained += list(past_labels)
                more = gradients(weight, bias, past_inputs, past_labels, seen if ace else set(range(CLASSES)))
                d_weight, d_bias = d_weight + more[0], d_bias + more[1]
            g = np.concatenate([d_weight.ravel(), d_bias])
            if task > 0 and ec == "1":
                g = np.array([g[m] / correlation[m] for m in range(len(g))])
            if task > 0 and ec == "mean":
                g = g * sum(1 / c for c in correlation) / len(correlation)
            theta = np.concatenate([weight.ravel(), bias]) - RATE * g
            weight, bias = theta[: weight.size].reshape(weight.shape), theta[weight.size :]
            if dcwr:
                omega = np.column_stack([weight, bias]) if bias_column else weight
                dual_layer_cwr(omega, trained, memory, epsilons[step], multiset)
                if apply == "step":
                    weight = memory["long"][:, :FEATURES].copy()
                    bias = memory["long"][:, FEATURES].copy() if bias_column else bias
            step += 1
        delta = [abs(a - b) for a, b in zip(np.concatenate([weight.ravel(), bias]), start, strict=True)]
        change = relative_change(delta, scaling)
        for m in range(len(correlation)):
            c = (change[m] - min(change)) / (max(change) - min(change)) * (BETA - ALPHA) + ALPHA
            correlation[m] = max(correlation[m], c)
        if dcwr and apply == "task":
            weight = memory["long"][:, :FEATURES].copy()
            bias = memory["long"][:, FEATURES].copy() if bias_column else bias
        found.append(
            {
                "weight": weight.copy(),
                "bias": bias.copy(),
                "C": np.array(correlation),
                "M^c": memory["short"].copy(),
                "M^l": memory["long"].copy(),
                "P": np.array(memory["P"], dtype=float),
            }
        )
    return found


# -- the same through models.pvbf ------------------------------------------------------------------------------------------


class Linear(MammothBackbone):
    """No features but the inputs themselves."""

    def __init__(self, weight, bias):
        super().__init__()
        self.classifier = nn.Linear(FEATURES, CLASSES, dtype=torch.float64)
        self.classifier.load_state_dict({"weight": torch.tensor(weight), "bias": torch.tensor(bias)})

    def features(self, x):
        return x.flatten(1)


class Replays:
    """A memory that hands out given batches in turn and keeps nothing."""

    def __init__(self, batches):
        self.batches = iter(batches)

    def is_empty(self):
        return False

    def get_data(self, size, transform=None, device=None):
        inputs, labels = next(self.batches)
        return torch.tensor(inputs), torch.tensor(labels)

    def add_data(self, examples, labels):
        pass


def make_model(data, *words):
    """Build the real method around the linear classifier."""
    args = Pvbf.get_parser(ArgumentParser()).parse_args(["--buffer_size", "1", "--minibatch_size", str(BATCH), *words])
    args.lr, args.device, args.seed, args.pvbf_p = RATE, "cpu", SEED, P
    model = Pvbf(Linear(data["weight"], data["bias"]), F.cross_entropy, args, None)
    model.buffer = Replays(data["replay"])
    return model


def drive(model, data):
    """Train through the engine's calls; return what was found at the end of each task."""
    found = []
    for task in range(TASKS):
        benchmark = SimpleNamespace(training_range=lambda last=2 * task + 2: (last - 2, last), EIGHT_BIT=False)
        model.net.train()
        model.meta_begin_task(benchmark)
        for inputs, labels in data["stream"][task]:
            model.meta_observe(torch.tensor(inputs), torch.tensor(labels), torch.tensor(inputs), epoch=0)
        model.meta_end_task(benchmark)
        head, dcwr = model.net.classifier, model.dcwr
        tensors = {
            "weight": head.weight.detach(),
            "bias": head.bias.detach(),
            "C": model.correlation.correlation,
            "M^c": dcwr.short_term,
            "M^l": dcwr.long_term,
            "P": dcwr.occurrences,
        }
        found.append({name: tensor.clone().numpy() for name, tensor in tensors.items()})
    return found


# -- the same input for both -----------------------------------------------------------------------------------------------


@pytest.fixture
def data():
    """Weights, stream batches (some of one class only) and replayed batches from the classes seen."""
    source = np.random.default_rng(5)

    def batch(*classes):
        labels = source.choice(classes, BATCH)
        return source.normal(size=(BATCH, FEATURES)) + labels[:, None] / 2, labels

    stream = [[batch(2 * task, 2 * task + 1) for _ in range(STEPS)] for task in range(TASKS)]
    stream[0][1], stream[1][2] = batch(1), batch(2)
    return {
        "weight": source.normal(size=(CLASSES, FEATURES)),
        "bias": source.normal(size=CLASSES),
        "stream": stream,
        "replay": [batch(0, 1, 2), batch(0, 1), batch(0, 1, 2, 3), batch(0, 3)],
    }


@pytest.fixture
def epsilons():
    """The draws of epsilon, one row a step, as D-CWR's generator makes them from the seed."""
    generator = torch.Generator().manual_seed(SEED)
    return [torch.rand(CLASSES, generator=generator).tolist() for _ in range(TASKS * STEPS)]


VARIANTS = {
    "as_published": ([], {}),
    "step": (["--dcwr_apply", "step"], {"apply": "step"}),
    "task": (["--dcwr_apply", "task"], {"apply": "task"}),
    "weights_only": (["--dcwr_bias", "0"], {"bias_column": False}),
    "step_weights_only": (["--dcwr_apply", "step", "--dcwr_bias", "0"], {"apply": "step", "bias_column": False}),
    "classes": (["--dcwr_mean", "classes"], {"multiset": False}),
    "step_classes": (["--dcwr_mean", "classes", "--dcwr_apply", "step"], {"multiset": False, "apply": "step"}),
    "zs": (["--standardization", "zs"], {"scaling": "zs"}),
    "rs": (["--standardization", "rs"], {"scaling": "rs"}),
    "no_ec": (["--ec", "0"], {"ec": "0"}),
    "mean": (["--ec", "mean"], {"ec": "mean"}),
    "no_ace": (["--ace", "0"], {"ace": False}),
    "no_dcwr": (["--dcwr", "0"], {"dcwr": False}),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_method_agrees_with_the_papers_algorithms(variant, data, epsilons):
    """Weights, C, M^c, M^l and P are the reference's after each task."""
    words, options = VARIANTS[variant]
    expected = algorithm_1(data, epsilons, **options)
    found = drive(make_model(data, *words), data)
    for task in range(TASKS):
        for name, value in expected[task].items():
            np.testing.assert_allclose(found[task][name], value, **EXACT, err_msg=f"{name} after task {task + 1}")


def test_variants_differ_in_the_reference(data, epsilons):
    """The comparison can tell the variants apart: each but zs and rs (one C under the global min-max) changes what is compared."""
    published = algorithm_1(data, epsilons)[-1]
    for variant, (_, options) in VARIANTS.items():
        other = algorithm_1(data, epsilons, **options)[-1]
        same = all(
            a.shape == b.shape and np.allclose(a, b, **EXACT) for a, b in zip(published.values(), other.values(), strict=True)
        )
        assert same == (variant in ("as_published", "zs", "rs")), variant


def test_draws_take_both_branches(data, epsilons):
    """With these draws some classes in a step are consolidated and some retained."""
    stream = [set(labels) for task in data["stream"] for _, labels in task]
    chosen = [epsilon[j] < P for epsilon, classes in zip(epsilons, stream, strict=True) for j in classes]
    assert any(chosen)
    assert not all(chosen)


def test_prediction_is_made_by_long_term_memory(data, epsilons):
    """In evaluation the published variant's logits are x M^l, bias included; the head's own stay for training."""
    expected = algorithm_1(data, epsilons)[-1]
    model = make_model(data)
    drive(model, data)
    inputs = np.concatenate([inputs for inputs, _ in data["replay"]])
    with torch.no_grad():
        model.net.eval()
        predicted = model(torch.tensor(inputs)).numpy()
        model.net.train()
        trained = model(torch.tensor(inputs)).numpy()
    np.testing.assert_allclose(predicted, inputs @ expected["M^l"][:, :FEATURES].T + expected["M^l"][:, FEATURES], **EXACT)
    np.testing.assert_allclose(trained, inputs @ expected["weight"].T + expected["bias"], **EXACT)


def test_written_back_per_task_the_head_predicts_until_then(data):
    """--dcwr_apply task: in the middle of a task an evaluation uses the head in training, not M^l."""
    model = make_model(data, "--dcwr_apply", "task")
    inputs, labels = (torch.tensor(part) for part in data["stream"][0][0])
    model.meta_begin_task(SimpleNamespace(training_range=lambda: (0, 2), EIGHT_BIT=False))
    model.meta_observe(inputs, labels, inputs, epoch=0)
    model.net.eval()
    with torch.no_grad():
        assert torch.equal(model(inputs), model.net(inputs))
        assert not torch.allclose(model(inputs), model.dcwr.predict(model.net.classifier, inputs))
