"""HAL: the anchors' objective by hand, the step that keeps the cross-entropy's gradient, the mean feature, and the search."""

import math

import torch
from torch.nn import functional as F
from torch.testing import assert_close

from mammoth.runner import build, train_task
from models import hal


def test_anchor_gain_by_hand():
    """CE of (0, 0) is ln 2, of (ln 3, 0) for class 0 is ln 4/3: gain ln 2 - ln 4/3 - gamma (1 + 4)."""
    tuned, logits = torch.tensor([[0.0, 0.0]]), torch.tensor([[math.log(3), 0.0]])
    features, phi = torch.tensor([[1.0, 3.0]]), torch.tensor([2.0, 1.0])
    gain = hal.anchor_gain(tuned, logits, features, phi, torch.tensor([0]), 0.1)
    assert_close(gain, torch.tensor([math.log(1.5) - 0.5]))


def test_anchor_loss_by_hand():
    """Differences 1, 0, 2 and 1 over two anchors and two classes: mean of squares 6/4."""
    assert_close(hal.anchor_loss(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[0.0, 2.0], [1.0, 3.0]])), torch.tensor(1.5))


def test_step_by_hand():
    """theta - lr g, for what has a gradient."""
    weights = {"a": torch.tensor([1.0, 2.0], requires_grad=True), "b": torch.tensor([5.0])}
    found = hal.stepped(weights, {"a": torch.tensor([1.0, -1.0])}, 0.5)
    assert list(found) == ["a"]
    assert_close(found["a"], torch.tensor([0.5, 2.5]))


def after_a_task(resolve, *flags):
    """Return HAL at the beginning of the digits' second task, and a batch of it."""
    parts = build(resolve("--model", "hal", *flags))
    parts.dataset.get_data_loaders()
    train_task(parts)
    parts.dataset.get_data_loaders()
    parts.model.meta_begin_task(parts.dataset)
    return parts.model, next(iter(parts.dataset.train_loader))


def gradient(model, loss):
    """Return the flat gradient of a loss."""
    return torch.cat([piece.reshape(-1) for piece in torch.autograd.grad(loss, list(model.parameters()))])


def test_the_cross_entropys_gradient_stays_when_the_anchors_is_added(resolve):
    """One step by hand: theta - lr (grad CE + lambda grad mean (f(e) - f_theta'(e))^2), theta' = theta - lr grad CE."""
    model, (inputs, labels, raw) = after_a_task(resolve, "--buffer_size", "6", "--hal_lambda", "5", "--replay_forward", "joint")
    images, targets = model.buffer.get_all_data(model.transform)
    start, lr = model.net.get_params().detach().clone(), model.args.lr
    own = gradient(model, F.cross_entropy(model.net(torch.cat([inputs, images])), torch.cat([labels, targets])))
    model.net.set_params(start - lr * own)
    ahead = model.net(model.anchors).detach()
    model.net.set_params(start)
    anchors = gradient(model, 5 * (model.net(model.anchors) - ahead).square().mean())
    assert anchors.norm() > 0.01 * own.norm()  # else this would show nothing
    model.observe(inputs, labels, raw)
    assert_close(model.net.get_params().detach(), start - lr * (own + anchors), rtol=1e-4, atol=1e-5)


def test_mean_feature_decays_by_beta(resolve):
    """phi starts at zero in each task: .7 x 0 + .3 m_1, then .7 phi + .3 m_2, with the features after the step."""
    model, (inputs, labels, raw) = after_a_task(resolve, "--beta", "0.7")
    assert not model.phi.any()
    expected = torch.zeros_like(model.phi)
    for _ in range(2):
        model.observe(inputs, labels, raw)
        expected = 0.7 * expected + 0.3 * model.net(inputs, returnt="features").mean(0).detach()
        assert_close(model.phi, expected)


def test_an_anchor_for_each_class_of_the_finished_tasks(resolve):
    """Two of the first task, of the images' shape, with no gradient of their own."""
    model, (inputs, _, _) = after_a_task(resolve)
    assert model.anchors.shape == (2, *inputs.shape[1:])
    assert not model.anchors.requires_grad
    assert model.net.training


def inputs_of(net, seen):
    """Note every batch that goes into a network; return the hook."""
    return net.register_forward_pre_hook(lambda _, given: seen.append(given[0].detach().clone()))


def test_the_search_climbs_the_gain(resolve, monkeypatch):
    """From uniform noise, each anchor's gain ends higher than it begins; the network stays as it is."""
    model, _ = after_a_task(resolve)
    start, gains, points, original = model.net.get_params().detach().clone(), [], [], hal.anchor_gain
    monkeypatch.setattr(hal, "anchor_gain", lambda *given: gains.append(original(*given)) or gains[-1])
    inputs_of(model.net, points)
    end = model.find_anchors(torch.tensor([0, 1]))
    assert len(gains) == model.args.hal_anchor_steps == 100
    assert (gains[-1] > gains[0]).all()
    noise = points[1]  # after the memory's batch
    assert ((noise >= 0) & (noise < 1)).all()
    assert not torch.equal(end, noise)
    assert torch.equal(model.net.get_params(), start)


def test_fine_tuned_network_is_one_step_away(resolve, monkeypatch):
    """theta_M = theta - lr grad CE(memory), here the whole of a small memory; the gain is of theta_M's outputs and theta's."""
    model, _ = after_a_task(resolve, "--buffer_size", "5", "--hal_anchor_steps", "1")
    images, targets = model.buffer.get_all_data(model.transform)
    start, given, points, original = model.net.get_params().detach().clone(), [], [], hal.anchor_gain
    own = gradient(model, model.loss(model.net(images), targets))
    monkeypatch.setattr(hal, "anchor_gain", lambda *parts: given.append(parts) or original(*parts))
    inputs_of(model.net, points)
    model.find_anchors(torch.tensor([1]))
    tuned, logits, features, phi, labels, gamma = given[0]
    anchors = points[1]
    assert_close(logits, model.net(anchors))
    assert_close(features, model.net(anchors, returnt="features"))
    model.net.set_params(start - model.args.lr * own)
    assert_close(tuned, model.net(anchors), rtol=1e-4, atol=1e-5)
    assert phi is model.phi
    assert (labels.tolist(), gamma) == ([1], model.args.gamma)


def test_without_anchors_it_is_er(resolve):
    """Before the first task's end, and with a weight of zero, the weights are those of ER on the whole memory."""
    ends, replay = {}, ("--replay_from_task", "1", "--replay_current", "1")
    for name, *flags in (("er", *replay), ("hal", "--hal_lambda", "0")):
        parts = build(resolve("--model", name, *flags))
        for _ in range(2):
            parts.dataset.get_data_loaders()
            train_task(parts)
        ends[name] = parts.model.net.get_params().detach()
    assert torch.equal(ends["er"], ends["hal"])


def test_it_learns(go):
    """One pass over the digits: 89.9, 74.1 and 86.2 for seeds 0 to 2; plain training reaches 19."""
    matrix = go("--model", "hal", "--seed", "0")["class_il"]
    assert sum(matrix[-1]) / 5 > 70
