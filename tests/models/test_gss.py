"""GSS: per-image gradients, scores and replacement odds by hand, and how the memory fills."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from mammoth.runner import build, train_task
from models import gss
from models.memories.placed_buffer import PlacedBuffer


def small_net():
    """Return a convolutional network with batch norm whose statistics are not the initial ones, in evaluation mode."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3))
    net(torch.randn(8, 2, 4, 4))
    net[0].bias.requires_grad_(False)
    return net.eval()


def by_backward(net, images, labels):
    """Return the gradient of the mean loss on these images, by an ordinary backward."""
    trained = [parameter for parameter in net.parameters() if parameter.requires_grad]
    grads = torch.autograd.grad(F.cross_entropy(net(images), labels), trained)
    return torch.cat([grad.reshape(-1) for grad in grads])


def test_image_gradients_equal_a_loop_of_backwards():
    """More images than a chunk; frozen parameters take no part; running statistics stay."""
    net, images, labels = small_net(), torch.randn(11, 2, 4, 4), torch.randint(3, (11,))
    statistics = [buffer.clone() for buffer in net.buffers()]
    rows = gss.gradients(net, F.cross_entropy, images[:, None], labels[:, None])
    loop = torch.stack([by_backward(net, image[None], label[None]) for image, label in zip(images, labels, strict=True)])
    assert_close(rows, loop, rtol=1e-4, atol=1e-6)
    assert all(map(torch.equal, statistics, net.buffers()))


def test_gradient_of_a_batch_is_that_of_its_mean_loss():
    """A group of several images gives one row, the mean of its images' rows."""
    net, images, labels = small_net(), torch.randn(5, 2, 4, 4), torch.randint(3, (5,))
    row = gss.gradients(net, F.cross_entropy, images[None], labels[None])
    assert_close(row[0], by_backward(net, images, labels), rtol=1e-4, atol=1e-6)
    assert_close(row[0], gss.gradients(net, F.cross_entropy, images[:, None], labels[:, None]).mean(0), rtol=1e-4, atol=1e-6)


def test_scores_by_hand():
    """References (1, 0) and (0, 2): cosines of (3, 3) are both 1/sqrt 2, of (-1, 0) are -1 and 0, of (-3, -4) are -.6 and -.8."""
    new = torch.tensor([[3.0, 3.0], [-1.0, 0.0], [-3.0, -4.0], [0.0, 0.0]])
    expected = torch.tensor([1 + 0.5**0.5, 1.0, 0.4, 1.0])
    assert_close(gss.scores(new, torch.tensor([[1.0, 0.0], [0.0, 2.0]])), expected)


def test_scores_stay_positive():
    """A gradient opposite to the only reference has a score of all but zero, so that odds are defined."""
    score = gss.scores(torch.tensor([[-1.0, 0.0]]), torch.tensor([[1.0, 0.0]]))
    assert 0 < score < 1e-5
    assert_close(gss.replacement_odds(score, score), torch.tensor([0.5]))


def test_replacement_odds_by_hand():
    """C_i = 1.5 against c = .5 gives way three times in four."""
    assert_close(gss.replacement_odds(torch.tensor([1.5, 0.5]), torch.tensor(0.5)), torch.tensor([0.75, 0.5]))


def test_slots_are_challenged_and_replaced_as_often_as_the_scores_say():
    """Scores .5 and 1.5, new .5: slot 0 falls with 1/4 x 1/2, slot 1 with 3/4 x 3/4. 4,000 draws, tolerance 4 standard errors."""
    generator = torch.Generator().manual_seed(0)
    won = [gss.replace_(torch.tensor([0.5, 1.5]), torch.tensor([0.5]), generator) for _ in range(4000)]
    shares = [sum(slot in one for one in won) / 4000 for slot in (0, 1)]
    assert shares[0] == pytest.approx(0.125, abs=0.021)
    assert shares[1] == pytest.approx(0.5625, abs=0.032)


def test_a_won_slot_takes_the_new_score():
    """One slot, and images whose score is all but zero: the first wins for certain, and its score counts for the second."""
    stored = torch.tensor([2.0])
    won = gss.replace_(stored, torch.tensor([1e-6, 1e6]), torch.Generator().manual_seed(0))
    assert won == {0: 0}
    assert_close(stored, torch.tensor([1e-6]))


def test_memory_without_a_rule_refuses_rows():
    """Rows are put into slots, not offered."""
    with pytest.raises(TypeError, match="put"):
        PlacedBuffer(3).add_data(torch.zeros(1, 2))


def begun(resolve, *flags):
    """Return GSS at the beginning of the digits' first task, and batches of it."""
    parts = build(resolve("--model", "gss", *flags))
    parts.dataset.get_data_loaders()
    parts.model.meta_begin_task(parts.dataset)
    return parts.model, list(parts.dataset.train_loader)


def test_memory_fills_in_order_with_the_batch_score(resolve):
    """The first batch scores .1; a later one its own, 1 + the largest cosine, and the rest of a full memory's batch waits."""
    model, batches = begun(resolve, "--buffer_size", "25")
    for batch in batches[:3]:
        model.observe(*batch)
    assert len(model.buffer) == 25
    assert_close(model.memory_scores[:10], torch.full((10,), 0.1))
    assert len(model.memory_scores[10:20].unique()) == 1
    raw = torch.cat([batch[2] for batch in batches[:2]])
    assert torch.equal(model.buffer.examples[:20], raw)


@pytest.mark.parametrize(("batch_score", "replaced"), [(1.0, False), (0.99, True)])
def test_a_full_memory_is_challenged_only_by_a_batch_that_points_elsewhere(resolve, monkeypatch, batch_score, replaced):
    """A batch score of 1 or more (a cosine of 0 or more) leaves the memory alone; below, each image has its own score."""
    model, batches = begun(resolve, "--buffer_size", "10")
    model.observe(*batches[0])
    given = {1: batch_score, 10: 1e-6}  # by number of groups: the batch as one, or its images
    monkeypatch.setattr(model, "scores_of", lambda groups, *_: torch.full((len(groups),), given[len(groups)]))
    before = model.buffer.examples.clone()
    model.select(*batches[1][2:0:-1])
    assert torch.equal(model.buffer.examples, before) != replaced
    assert bool((model.memory_scores < 1e-5).any()) == replaced
    assert model.net.training


def test_gradients_are_taken_in_evaluation_mode_on_normalised_images(resolve, monkeypatch):
    """The network is in evaluation mode, and pixels lie in [-1, 1], not in [0, 1]."""
    model, batches = begun(resolve)
    model.observe(*batches[0])
    seen = []
    original = gss.gradients
    monkeypatch.setattr(gss, "gradients", lambda net, *given: seen.append((net.training, given[1].min())) or original(net, *given))
    model.observe(*batches[1])
    assert [training for training, _ in seen] == [False, False]
    assert all(lowest == -1 for _, lowest in seen)


def test_replay_walks_through_distinct_images(resolve):
    """Two steps a batch: 2 x 4 distinct images while the memory has them; from 3 images, the same again."""
    model, batches = begun(resolve, "--batch_num", "2", "--minibatch_size", "4", "--buffer_size", "30")
    model.observe(*batches[0])
    walked = torch.cat([images for images, _ in model.replay_batches()])
    assert len(walked.flatten(1).unique(dim=0)) == 8
    small, batches = begun(resolve, "--batch_num", "2", "--minibatch_size", "4", "--buffer_size", "3")
    small.observe(*batches[0])
    assert [len(images) for images, _ in small.replay_batches()] == [3]
    small.observe(*batches[1])


@pytest.mark.parametrize("steps", [1, 3])
def test_batch_num_is_the_number_of_steps(resolve, monkeypatch, steps):
    """Each has its own replay."""
    model, batches = begun(resolve, "--batch_num", str(steps))
    model.observe(*batches[0])
    taken, drawn, step, draw = [], [], model.opt.step, model.draw
    monkeypatch.setattr(model.opt, "step", lambda: taken.append(1) or step())
    monkeypatch.setattr(model, "draw", lambda: drawn.append(1) or draw())
    model.observe(*batches[1])
    assert (len(taken), len(drawn)) == (steps, steps)


def test_it_learns(go):
    """One pass over the digits: 89.3, 81.4 and 80.4 for seeds 0 to 2; plain training reaches 19."""
    matrix = go("--model", "gss", "--seed", "0")["class_il"]
    assert sum(matrix[-1]) / 5 > 75


def test_scores_survive_a_whole_task(resolve):
    """Every stored image has a positive score."""
    parts = build(resolve("--model", "gss", "--buffer_size", "15"))
    parts.dataset.get_data_loaders()
    train_task(parts)
    assert (parts.model.memory_scores > 0).all()
