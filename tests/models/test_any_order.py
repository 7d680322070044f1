"""Any order, any split: orders of classes and of tasks, one class a task, tasks smaller than a batch, one image a step."""

import pytest
import torch
import yaml

from mammoth.cli import main
from mammoth.runner import InputError
from tests.models.made_sets import MadeColours
from tests.models.small_runs import after_tasks, weights

METHODS = ("er", "er_ace", "derpp", "icarl", "pvbf")
MEMORY = ("--buffer_size", "20", "--minibatch_size", "5")
ONLINE = {"protocol": "online", "backbone": "mnistmlp", "batch_size": 10, "n_epochs": 1, "lr": 0.1, "eval_classes": "all"}


@pytest.mark.parametrize("method", METHODS)
def test_an_order_of_tasks_is_the_order_of_classes_that_it_spells(method, resolve):
    """Two tasks of --custom_task_order and of the same --custom_class_order leave the same weights; the natural order others."""
    words = ("--model", method, "--n_iters", "5", *MEMORY)
    orders = (("--custom_task_order", "4,2,0,1,3"), ("--custom_class_order", "8,9,4,5,0,1,2,3,6,7"), ())
    by_task, by_class, natural = (weights(after_tasks(resolve(*words, *order), 2)[0]) for order in orders)
    assert torch.equal(by_task, by_class)
    assert not torch.equal(by_task, natural)


@pytest.mark.parametrize("method", METHODS)
def test_one_class_a_task(method, go, tmp_path):
    """Ten tasks, in an order of the seed: within its task the one class is always right."""
    (tmp_path / "one.yaml").write_text(yaml.safe_dump({"N_TASKS": 10, "N_CLASSES_PER_TASK": 1, **ONLINE}))
    flags = ("--dataset_config", str(tmp_path / "one.yaml"), "--permute_classes", "1", "--n_iters", "3", *MEMORY)
    record = go("--model", method, *flags)
    assert record["task_sizes"] == [1] * 10
    assert record["class_order"] != sorted(record["class_order"]) == list(range(10))
    assert record["task_il"][-1] == [100] * 10
    assert all(0 <= value <= 100 for value in record["class_il"][-1])


@pytest.mark.parametrize("method", METHODS)
def test_tasks_smaller_than_a_batch(method, go, tmp_path):
    """Batches of 1,000 images: one step a task, each of all its images, in uneven tasks whose order is turned round."""
    facts = {"N_TASKS": 3, "N_CLASSES_PER_TASK": [1, 4, 5], **ONLINE, "batch_size": 1000}
    (tmp_path / "uneven.yaml").write_text(yaml.safe_dump(facts))
    record = go("--model", method, "--dataset_config", str(tmp_path / "uneven.yaml"), "--custom_task_order", "2,1,0", *MEMORY)
    assert record["task_sizes"] == [5, 4, 1]
    assert record["class_order"] == [5, 6, 7, 8, 9, 1, 2, 3, 4, 0]
    assert record["provenance"]["steps"] == 3


@pytest.mark.parametrize("method", METHODS)
def test_one_image_a_step_through_batch_norm(method, resolve):
    """Stream and replay batches of one image, and a memory of one: the smallest maps are 4 x 4, so each step has statistics."""
    sizes = ("--batch_size", "1", "--buffer_size", "5" if method == "icarl" else "1", "--minibatch_size", "1")
    words = ("--dataset", MadeColours.NAME, "--backbone", "reduced-resnet18", "--n_epochs", "1", "--n_iters", "3", "--lr", "0.01")
    trained = weights(after_tasks(resolve("--model", method, *words, *sizes), 2)[0])
    assert trained.isfinite().all()


def test_one_image_where_batch_norm_cannot_train_on_it(go, capsys, tmp_path):
    """Maps of 1 x 1: refused before training if a stream batch is one image, in two lines later if a memory is; else it runs."""
    words = ("--model", "er", "--backbone", "resnet18", "--num_filters", "16", "--lr", "0.01", "--minibatch_size", "5")
    with pytest.raises(InputError, match=r"batch of one image.*\n.*--drop_last 1"):
        go(*words, "--buffer_size", "20", "--batch_size", "4")
    quiet = ("--non_verbose", "1", "--device", "cpu", "--seed", "0", "--base_path", str(tmp_path))
    assert main([*words, *quiet, "--buffer_size", "1", "--n_iters", "1"]) == 1
    _, error, way_out = capsys.readouterr().err.rstrip().rpartition("error: ")
    assert error
    assert len(way_out.splitlines()) == 2
    assert go(*words, "--buffer_size", "20", "--n_iters", "1", "--batch_size", "4")["status"] == "done"
