"""Upstream Mammoth's flags: what they do here, and those that are refused in a line."""

from argparse import ArgumentParser

import pytest
import torch

import models
from datasets.utils.label_changes import noisy, partly_unlabelled
from mammoth import runner
from mammoth.fitting import EarlyStopping
from mammoth.runner import build
from utils.args import add_rehearsal_args
from utils.evaluate import evaluate_tasks

SGD = ("--model", "sgd", "--dataset", "seq-digits")
FLAGSHIP = "--model pvbf --dataset seq-cifar10 --dataset_config online --buffer_per_class 500 --seed 0"


def test_flags_at_their_defaults_leave_run_ids_as_they_were(resolve):
    """The flagship's id is the one of its committed rows."""
    assert resolve(*FLAGSHIP.split()).run_id == "pvbf_seq-cifar10_online_b5000_s0_9ef7a9bc9d"


@pytest.mark.parametrize(
    "words", ["--num_workers 4 --eval_epochs 2 --disable_log 1 --disable_noisy_labels_cache 1", "--distributed no"]
)
def test_flags_of_where_and_how_leave_the_run_id(words, resolve):
    """They change nothing that is computed."""
    assert resolve(*SGD, *words.split()).run_id == resolve(*SGD).run_id


@pytest.mark.parametrize(
    "words",
    ["--label_perc 0.5", "--lpc 0.5", "--noise_rate 0.2", "--fitting_mode early_stopping --validation 10", "--num_classes 12"],
)
def test_flags_that_change_what_is_learnt_change_the_run_id(words, resolve):
    """Two different runs never share a name."""
    assert resolve(*SGD, *words.split()).run_id != resolve(*SGD).run_id


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--distributed dp", "one device"),
        ("--distributed ddp", "one device"),
        ("--code_optimization 3", "torch.compile"),
        ("-O 3", "torch.compile"),
        ("--fitting_mode time", "never implemented"),
        ("--fitting_mode iters", "needs --n_iters"),
        ("--fitting_mode early_stopping", "--validation"),
        ("--label_perc 0.5 --lpc 0.5", "exclude each other"),
        ("--transform_type strong", "TRANSFORM"),
        ("--num_classes 3", "has 10"),
    ],
)
def test_what_cannot_be_had_is_refused_in_a_line(words, said, resolve):
    """Each message says why or what to do."""
    with pytest.raises(ValueError, match=said) as raised:
        resolve(*SGD, *words.split())
    assert len(str(raised.value).splitlines()) <= 2


@pytest.mark.parametrize("words", ["--lr_milestones 35 45", "--lr_milestones=35,45", "--lr_milestones 35,45"])
def test_milestones_in_all_spellings(words, resolve):
    """Separate words as in Mammoth, or commas."""
    assert resolve(*SGD, "--lr_scheduler", "multisteplr", *words.split()).lr_milestones == "35,45"


@pytest.mark.parametrize("spelling", ["--label_perc_by_task", "--label_perc", "--lpt"])
def test_spellings_of_the_labelled_share(spelling, resolve):
    """All three set one value."""
    assert resolve(*SGD, spelling, "0.5").label_perc == 0.5


def test_symmetric_noise_changes_its_share_and_follows_from_the_generator():
    """Half of each class's labels are drawn anew; the same state gives the same labels, another state others."""
    labels = torch.arange(10).repeat_interleave(200)
    first, again = (noisy(labels, 0.5, None, 10, torch.Generator().manual_seed(1)) for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.equal(first, noisy(labels, 0.5, None, 10, torch.Generator().manual_seed(2)))
    assert (first != labels).float().mean() == pytest.approx(0.45, abs=0.02)


def test_asymmetric_noise_goes_one_way():
    """round(rate n) images of each class get the class that it is taken for."""
    labels = torch.tensor([0, 0, 0, 0, 1, 1])
    assert noisy(labels, 0.5, [1, 1], 2, torch.Generator()).bincount().tolist() == [2, 4]


def test_asymmetric_noise_needs_a_benchmark_that_knows_it(resolve):
    """The digits do not say what is confused with what."""
    dataset = build(resolve(*SGD, "--noise_rate", "0.2", "--noise_type", "asymmetric")).dataset
    with pytest.raises(ValueError, match="does not say which classes"):
        dataset.get_data_loaders()


def test_noise_is_the_same_whatever_was_run_before_and_is_never_in_the_test_images(resolve):
    """No cache that could go stale: the labels follow from seed, rate, order and split (upstream's defect D22)."""
    plain = build(resolve(*SGD)).dataset
    first, again = (build(resolve(*SGD, "--noise_rate", "0.4")).dataset.split(train=True).targets for _ in range(2))
    assert torch.equal(first, again)
    assert 0.3 < (first != plain.split(train=True).targets).float().mean() < 0.45
    noisy_test = build(resolve(*SGD, "--noise_rate", "0.4")).dataset.split(train=False).targets
    assert torch.equal(noisy_test, plain.split(train=False).targets)


@pytest.mark.parametrize(("flag", "kept"), [("--label_perc", 0.25), ("--lpc", 0.25)])
def test_a_share_of_the_labels_is_kept(flag, kept, resolve):
    """A quarter, of the task or of each class; the rest is -1."""
    labels = torch.arange(2).repeat_interleave(40)
    found = partly_unlabelled(labels, resolve(*SGD, flag, str(kept)), task=0)
    assert (found >= 0).sum() == 20
    assert torch.equal(found[found >= 0], labels[found >= 0])
    if flag == "--lpc":
        assert found[found >= 0].bincount().tolist() == [10, 10]


@pytest.mark.parametrize("share", ["0.1", "0.001"])
@pytest.mark.parametrize("method", sorted(models.get_model_names()))
def test_images_without_a_label_do_not_reach_the_method(method, share, go):
    """Every method's run with a tenth of the labels ends, and with a few only, in memories chosen at a task's end too."""
    record = go("--model", method, "--label_perc", share, "--n_iters", "3", "--stop_after", "2")
    assert record["args"]["label_perc"] == float(share)
    assert len(record["class_il"]) == (1 if record["joint"] else 2)


@pytest.mark.parametrize("method", ["pvbf", "icarl"])
def test_what_early_stopping_puts_back_predicts_as_it_did_then(method, resolve):
    """Not the network alone: M^l of PVBF is that of the best look, and iCaRL's means are made anew with the network put back."""
    args = resolve("--model", method, "--dataset", "seq-digits", "--buffer_per_class", "20")
    model, dataset = runner.build(args)
    dataset.get_data_loaders()
    runner.train_task((model, dataset))
    stopping = EarlyStopping("loss", 2, 1e-6)
    best = evaluate_tasks(model, dataset, range(1))
    stopping.enough(best.loss, model)
    model.net.train()
    for inputs, labels, not_aug_inputs in dataset.train_loader:
        model.meta_observe(inputs, labels, not_aug_inputs)
    assert evaluate_tasks(model, dataset, range(1)).loss != best.loss
    stopping.restore(model)
    if method == "icarl":  # the memory is as it is now, so the means are others
        assert model.means is None
        return
    again = evaluate_tasks(model, dataset, range(1))
    assert (again.loss, again.class_il) == (best.loss, best.class_il)


def test_early_stopping_waits_and_puts_the_best_back():
    """Scripted losses: the third is the best, two more without a gain end the task, the network of the third is back."""
    net = torch.nn.Linear(1, 1)
    stopping = EarlyStopping("loss", 2, 1e-6)
    seen = []
    for step, loss in enumerate([3.0, 2.0, 1.0, 1.0, 4.0, 0.0]):
        net.weight.data.fill_(step)
        seen.append(stopping.enough(loss, net))
        if seen[-1]:
            break
    stopping.restore(net)
    assert seen == [False, False, False, False, True]
    assert net.weight.item() == 2


def test_early_stopping_starts_anew_at_each_task(go):
    """Both tasks of a run train: with a patience of 1 neither ends before its second epoch."""
    words = "--fitting_mode early_stopping --validation 20 --early_stopping_patience 1 --early_stopping_epsilon 100 --n_epochs 4"
    found = go(*SGD, *words.split(), "--stop_after", "2")
    once = go(*SGD, "--validation", "20", "--n_epochs", "1", "--stop_after", "2")
    assert found["provenance"]["steps"] == 2 * once["provenance"]["steps"]


def test_future_tasks_are_evaluated_on_demand(go):
    """After task k there are N - k entries; the matrices are as without the flag."""
    found = go(*SGD, "--eval_future", "1", "--n_iters", "5")
    assert [len(row) for row in found["future"]] == [4, 3, 2, 1, 0]
    assert found["class_il"] == go(*SGD, "--n_iters", "5")["class_il"]


def test_the_replay_batch_is_the_one_that_was_asked_for(resolve):
    """Upstream's defect D1: it was overwritten by the batch size."""
    args = resolve("--model", "er", "--dataset", "seq-digits", *"--buffer_size 50 --minibatch_size 7 --batch_size 10".split())
    assert (args.minibatch_size, args.batch_size) == (7, 10)


def test_memory_flags_go_into_a_group_without_nesting():
    """Upstream's defect D21: a group inside a group is deprecated, and an error from Python 3.14 on."""
    parser = ArgumentParser()
    add_rehearsal_args(parser.add_argument_group("method"))
    assert parser.parse_args(["--buffer_size", "5"]).buffer_size == 5
