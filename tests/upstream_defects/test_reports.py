"""What users of such frameworks report (docs/mammoth.md): the behaviour wanted, where no other test shows it."""

import pytest
import torch

from datasets.seq_digits import SequentialDigits
from mammoth.cli import _headline
from mammoth.runner import build, train_task
from utils.metrics import average_accuracy

AUGMENTED = (
    "TRANSFORM: [{RandomCrop: {size: 8, padding: 2}}, ToTensor, {Normalize: {mean: [0.5], std: [0.5]}}]",
    "TEST_TRANSFORM: [ToTensor, {Normalize: {mean: [0.5], std: [0.5]}}]",
)


@pytest.fixture
def facts(tmp_path):
    """Return a function from YAML lines to the flags of a run on the digits with these facts."""

    def written(*lines):
        path = tmp_path / "facts.yaml"
        path.write_text("\n".join(["backbone: mnistmlp", "lr: 0.1", "batch_size: 10", "n_epochs: 1", *lines]) + "\n")
        return ("--dataset", "seq-digits", "--dataset_config", str(path))

    return written


def second_task(args):
    """Train on one task and begin the next; return method and benchmark."""
    method, dataset = build(args)
    dataset.get_data_loaders()
    train_task((method, dataset))
    dataset.get_data_loaders()
    method.net.train()
    method.meta_begin_task(dataset)
    return method, dataset


def test_the_first_line_names_both_batches(resolve):
    """Stream and replay, memory, rate and seed, before anything is trained (mammoth 21, avalanche 1106)."""
    line = _headline(resolve("--model", "er", "--buffer_size", "70", "--batch_size", "12", "--minibatch_size", "34", "--lr", "0.2"))
    assert "12 + 34 replayed images a step, lr 0.2, memory 70, seed 0" in line


def test_memory_stream_and_test_images_each_have_their_transform(resolve, facts):
    """Memory as read from disk; replay and stream augmented anew at each draw; test images never (mammoth 8, avalanche 1277)."""
    method, dataset = second_task(resolve("--model", "er", "--buffer_size", "30", *facts(*AUGMENTED), "--n_iters", "5"))
    on_disk = SequentialDigits(method.args).load(train=True).images.permute(0, 3, 1, 2).float() / 255
    known = {image.numpy().tobytes() for image in on_disk}
    assert {image.contiguous().numpy().tobytes() for image in method.buffer.examples[: len(method.buffer)]} <= known
    slots = torch.arange(10)
    first, second = (method.buffer.get_data_by_index(slots, method.transform)[0] for _ in range(2))
    assert first.min() >= -1
    assert not torch.equal(first, second)
    loader = dataset.train_loader
    rows = torch.arange(10)
    assert not torch.equal(loader.dataset.batch(rows)[0], loader.dataset.batch(rows)[0])
    shown, _, raw = dataset.test_loaders[0].dataset.batch(rows)
    assert torch.equal(shown, (raw - 0.5) / 0.5)


@pytest.mark.parametrize("method", ["er", "er_ace", "derpp", "pvbf"])
def test_each_step_meets_as_many_stored_images_as_asked_for(method, resolve, facts):
    """Ten of the stream and seven replayed go through the network, DER++ twice seven, no more and no fewer (GMvandeVen 2, 15)."""
    more = ("--alpha", "0.1", "--beta", "0.5") if method == "derpp" else ()
    words = ("--model", method, "--buffer_size", "30", "--minibatch_size", "7", *more)
    method, dataset = second_task(resolve(*words, *facts()))
    seen, forward = [], method.net.forward
    method.net.forward = lambda x, *rest, **named: (seen.append(len(x)), forward(x, *rest, **named))[1]
    for batch in list(dataset.train_loader)[:4]:
        seen.clear()
        method.meta_observe(*batch, epoch=0)
        assert sum(seen) == 10 + (14 if more else 7)


def test_the_average_is_over_tasks_whatever_their_sizes(go, facts):
    """ACC is the mean of the tasks' accuracies; the mean over images follows from the confusion matrix (avalanche 1137)."""
    found = go("--model", "er", "--buffer_size", "50", *facts("N_CLASSES_PER_TASK: [6, 3, 1]", "N_TASKS: 3"))
    last = found["class_il"][-1]
    assert average_accuracy(found["class_il"]) == pytest.approx(sum(last) / 3)
    confusion = torch.tensor(found["confusion"][-1], dtype=torch.float64)
    over_images = 100 * float(confusion.trace() / confusion.sum())
    sizes = [float(rows.sum()) for rows in confusion.split([6, 3, 1])]
    assert over_images == pytest.approx(sum(size * task for size, task in zip(sizes, last, strict=True)) / sum(sizes), abs=1e-3)
    assert abs(over_images - sum(last) / 3) > 0.1


def test_a_run_on_the_cpu_never_wakes_a_gpu(go, monkeypatch):
    """No context is made, not even to ask for memory or a name (mammoth 72)."""

    def woken():
        raise AssertionError("a run with --device cpu asked for CUDA")

    monkeypatch.setattr(torch.cuda, "_lazy_init", woken)
    assert go(*"--model er --dataset seq-digits --buffer_size 20 --n_iters 3 --stop_after 2".split())["status"] == "done"
