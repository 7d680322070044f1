"""What every method in the registry must do, whatever it is: run, repeat itself, and mean its flags."""

import math
from argparse import ArgumentParser

import pytest
import torch
import yaml

import models
from backbone import backbone_flags, get_backbone_names
from mammoth import runner, settings
from models import ContinualModel
from utils.args import actions_by_name, add_experiment_args

METHODS = sorted(models.get_model_names())
SHORT = ("--debug_mode", "1", "--stop_after", "2")
FASTER = {"gdumb": ("--fitting_epochs", "2")}  # where a run is not in debug mode; the default is 256


def own_flags(method: str) -> list[str]:
    """The flags that a method declares beside the engine's (the network's aside)."""
    everything = settings.resolve(["--model", method, "--help"]).parser
    engine = settings.actions_by_name(settings.common_parser())
    return [name for name in settings.actions_by_name(everything) if name not in engine and name != "mlp_hidden_size"]


def sizes(method: str, memory: int, batch: int) -> tuple[str, ...]:
    """The flags for a memory and, where the method does not always use all of it, for a replay batch."""
    replay = ("--minibatch_size", str(batch)) if "minibatch_size" in own_flags(method) else ()
    return ("--buffer_size", str(memory), *replay)


REPLAYING = [method for method in METHODS if "buffer_size" in own_flags(method)]


@pytest.fixture
def train(resolve, monkeypatch):
    """Return a function that runs a command line: (model, record's content, losses of each step)."""

    def trained(*words):
        parts, losses = [], []
        build, observe = runner.build, ContinualModel.meta_observe

        def building(args):
            parts.append(build(args))
            return parts[0]

        def observing(self, *batch, **fields):
            losses.append(observe(self, *batch, **fields))
            return losses[-1]

        with monkeypatch.context() as patch:
            patch.setattr(runner, "build", building)
            patch.setattr(ContinualModel, "meta_observe", observing)
            content = runner.run(resolve(*words), list(words)).content
        return parts[0].model, content, losses

    return trained


def outcome(model, record) -> dict:
    """All that a run computed: weights, the numbers in the record, and the predictions for fixed images."""
    model.net.eval()
    channels, side = model.args.input_channels, model.args.input_height
    images = torch.rand(20, channels, side, side, generator=torch.Generator().manual_seed(0)) * 2 - 1
    with torch.no_grad():
        logits = model(images)
    numbers = {key: record.get(key) for key in ("class_il", "task_il", "confusion", "diagnostics", "future")}
    return {"weights": model.net.get_params().detach().clone(), "logits": logits, **numbers}


def same(first: dict, second: dict) -> bool:
    return all(
        torch.equal(first[key], second[key]) if isinstance(first[key], torch.Tensor) else first[key] == second[key] for key in first
    )


# -- running -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_two_tasks(method, train):
    """Finite losses and parts, one step each of six a task, logits for every class, accuracies that are percentages."""
    model, record, losses = train("--model", method, *SHORT)
    stages = 1 if record["joint"] else 2
    assert record["status"] == "done"
    assert len(losses) == record["provenance"]["steps"] == 6 * stages
    for step in losses:
        assert "loss" in step
        assert all(math.isfinite(float(value)) for value in step.values()), step
    model.net.eval()
    for count in (1, 7):
        logits = model(torch.zeros(count, 1, 8, 8))
        assert logits.shape == (count, 10)
        assert logits.isfinite().all()
    for matrix in (record["class_il"], record["task_il"]):
        assert [len(row) for row in matrix] == ([5] if record["joint"] else [1, 2])
        assert all(0 <= value <= 100 for row in matrix for value in row)


@pytest.mark.parametrize("method", METHODS)
def test_losses_leave_no_graph_behind(method, train):
    """What `observe` returns holds no autograd graph: a watch over many steps must not keep their activations."""
    _, _, losses = train("--model", method, "--n_iters", "2", "--stop_after", "2", *FASTER.get(method, ()))
    assert not any(value.requires_grad for step in losses for value in step.values() if isinstance(value, torch.Tensor))


@pytest.mark.parametrize("method", METHODS)
def test_the_same_command_twice(method, train):
    """Bit for bit the same weights, predictions and matrices."""
    words = ("--model", method, *SHORT)
    first, second = (outcome(*train(*words)[:2]) for _ in range(2))
    assert same(first, second)


@pytest.mark.parametrize("method", METHODS)
def test_another_seed_is_another_run(method, train):
    """--seed reaches initialisation and stream: other weights."""
    first, second = (train("--model", method, *SHORT, "--seed", seed)[0].net.get_params() for seed in ("0", "1"))
    assert not torch.equal(first, second)


@pytest.mark.parametrize("method", METHODS)
def test_uneven_tasks_one_image_a_step_and_a_tiny_memory(method, train, tmp_path):
    """Tasks of 1, 4 and 5 classes, batches of one image, a memory smaller than a replay batch."""
    facts = {"N_TASKS": 3, "N_CLASSES_PER_TASK": [1, 4, 5]}
    flags = {"protocol": "online", "backbone": "mnistmlp", "batch_size": 1, "n_epochs": 1, "lr": 0.1, "eval_classes": "all"}
    (tmp_path / "uneven.yaml").write_text(yaml.safe_dump({**facts, **flags}))
    memory = sizes(method, 3, 10) if method in REPLAYING else ()
    words = ("--model", method, "--dataset_config", str(tmp_path / "uneven.yaml"), "--n_iters", "8", *memory)
    model, record, losses = train(*words, *FASTER.get(method, ()))
    assert record["task_sizes"] == [1, 4, 5]
    assert [len(row) for row in record["class_il"]] == ([3] if record["joint"] else [1, 2, 3])
    assert all(math.isfinite(float(value)) for step in losses for value in step.values())
    if method in REPLAYING:
        assert len(model.buffer) == 3


@pytest.mark.parametrize("method", REPLAYING)
def test_a_memory_larger_than_the_data(method, train):
    """Room for 5,000 images and a replay batch of 1,000: what there is is kept and replayed, and the losses are finite."""
    model, _, losses = train("--model", method, *SHORT, *sizes(method, 5000, 1000))
    assert len(model.buffer) <= 1442
    assert len(model.buffer) >= 120
    assert all(math.isfinite(float(value)) for step in losses for value in step.values())


@pytest.mark.parametrize("method", METHODS)
def test_offline_config_runs(method, train):
    """The other protocol's defaults of every method (a method without a rate of its own gets one), on more than one epoch."""
    words = ("--model", method, "--dataset_config", "offline", "--batch_size", "100", "--n_epochs", "2", "--stop_after", "2")
    has_rate = settings.resolve([*words, "--help"]).parser.get_default("lr") is not None
    _, record, losses = train(*words, *(() if has_rate else ("--lr", "0.1")), *FASTER.get(method, ()))
    assert record["args"]["protocol"] == "offline"
    assert len(losses) == record["provenance"]["steps"] >= (2 * 15 if record["joint"] else 2 * (3 + 3))
    assert all(math.isfinite(float(value)) for step in losses for value in step.values())


@pytest.mark.parametrize("method", METHODS)
def test_only_the_network_has_parameters(method, resolve):
    """The interface's rule: a method's only parameters are those of `net` (Mammoth's GEM sizes its vectors by them)."""
    model, _ = runner.build(resolve("--model", method))
    assert {id(p) for p in model.parameters()} == {id(p) for p in model.net.parameters()}


@pytest.mark.parametrize("method", METHODS)
def test_name_compatibility_and_words(method):
    """NAME, COMPATIBILITY and a docstring for --list; every own flag has a help text."""
    cls = models.get_model_class(method)
    assert cls.NAME.replace("_", "-") == method
    assert set(cls.COMPATIBILITY) <= {"class-il", "domain-il", "task-il", "general-continual", "cssl"}
    assert cls.__doc__
    actions = settings.actions_by_name(settings.resolve(["--model", method, "--help"]).parser)
    assert all(actions[flag].help for flag in own_flags(method))


@pytest.mark.parametrize("method", [method for method in METHODS if method not in ("sgd", "joint", "iid")])
def test_it_is_not_sgd(method, train):
    """With the same seed, other weights than SGD's after the second task: the method's own part reaches the optimiser."""
    weights, plain = (train("--model", name, *SHORT)[0].net.get_params() for name in (method, "sgd"))
    assert weights.shape != plain.shape or not torch.equal(weights, plain)


# -- flags ---------------------------------------------------------------------------------------------------------------

# another value than the default, and what else the run needs for the flag to matter
NORMS = ("--backbone", "resnet18", "--num_filters", "2")  # a network with batch norm
LAYERS = ("--standardization_scope", "layer")  # with one min-max over all parameters, RR, ZS and RS give the same C
VALUES: dict[str, list[tuple[str, tuple[str, ...]]]] = {
    "buffer_size": [("15", ())],
    "buffer_per_class": [("1", ())],
    "minibatch_size": [("3", ())],
    "replay_from_task": [("3", ())],
    "replay_forward": [("joint", ())],
    "alpha": [("0.9", ())],
    "beta": [("0.1", ())],
    "stream_classes": [("unseen", ())],
    "replay_classes": [("all", ())],
    "head": [("cosine", ())],
    "iid_batches": [("1", ())],
    "pvbf_alpha": [("0.9", ())],
    "pvbf_beta": [("4", ())],
    "pvbf_p": [("0.3", ())],
    "standardization": [("zs", LAYERS), ("rs", LAYERS)],
    "standardization_scope": [("layer", ())],
    "ec": [("0", ()), ("mean", ())],
    "ace": [("0", ())],
    "dcwr": [("0", ())],
    "dcwr_apply": [("step", ()), ("task", ())],
    "dcwr_bias": [("0", ())],
    "dcwr_mean": [("classes", ())],
    "ar1_lambda": [("1e6", ())],
    "mir_candidates": [("12", ())],
    "mir_head_only": [("1", ())],
    "mir_score_mode": [("eval", NORMS)],
    "icarl_mode": [("offline", ())],
    "wd_reg": [("0.1", ())],
    "gamma": [("5", ())],
    "gss_minibatch_size": [("2", ("--buffer_size", "15"))],  # the scores matter once the memory is full
    "batch_num": [("2", ())],
    "hal_lambda": [("3", ())],
    "hal_anchor_steps": [("10", ())],
    "fitting_epochs": [("2", ())],
    "lr_min": [("0.01", ())],
    "cutmix_alpha": [("1", ())],
}


def cases() -> list:
    found = []
    for method in METHODS:
        for flag in own_flags(method):
            if flag == "replay_current":
                found.append((method, flag, "", ()))
            else:
                found += [(method, flag, value, more) for value, more in VALUES.get(flag, [("", ())])]
    return found


def another(method: str, flag: str) -> str:
    """Another value than a flag's default, for flags that have none in VALUES: twice the number, or another choice."""
    action = settings.actions_by_name(settings.resolve(["--model", method, "--help"]).parser)[flag]
    choices = [str(choice) for choice in action.choices or () if str(choice) != str(action.default)]
    number = isinstance(action.default, int | float) and action.default != 0
    assert choices or number, f"--{flag} is new: give it a value in VALUES"
    return choices[0] if choices else str(2 * action.default)


@pytest.fixture(scope="module")
def remembered() -> dict:
    """The outcomes of runs with default flags, each made once."""
    return {}


@pytest.mark.parametrize(("method", "flag", "value", "more"), cases(), ids=lambda value: value if isinstance(value, str) else "")
def test_every_flag_matters(method, flag, value, more, train, remembered):
    """Another value of any declared flag changes the weights, the predictions or the record's numbers of a short run."""
    if flag == "replay_current":
        value = str(1 - settings.resolve(["--model", method]).args.replay_current)
    if flag == "replay_forward":
        value = "separate" if settings.resolve(["--model", method]).args.replay_forward == "joint" else "joint"
    value = value or another(method, flag)
    key = (method, more)
    if key not in remembered:
        remembered[key] = outcome(*train("--model", method, *SHORT, *more)[:2])
    changed = outcome(*train("--model", method, *SHORT, *more, f"--{flag}", value)[:2])
    assert not same(remembered[key], changed), f"--{flag} {value} of {method} changes nothing"


WIDTHS = [(network, flag) for network in get_backbone_names() for flag in backbone_flags(network)]


@pytest.mark.parametrize(("network", "flag"), WIDTHS)
def test_every_flag_of_a_network_matters(network, flag, resolve):
    """Another width: another number of parameters."""
    words = ("--model", "sgd", "--backbone", network, f"--{flag}")
    small, large = (runner.build(resolve(*words, value)).model.net.get_params() for value in ("2", "3"))
    assert len(small) < len(large)


WHOLE = ("--stop_after", "2")  # two tasks of 29 and 28 steps
TWICE = (*WHOLE, "--n_epochs", "2")
WATCHED = (*WHOLE, "--n_epochs", "8", "--validation", "20", "--lr", "1", "--early_stopping_patience", "2")
EARLY = (*WATCHED, "--fitting_mode", "early_stopping")
STEPPED = (*TWICE, "--lr_scheduler", "multisteplr", "--lr_milestones", "1")
# the run, and a flag of it that gets another value than it has there
SHARED_FLAGS: dict[str, tuple[tuple[str, ...], str]] = {
    "seed": (SHORT, "1"),
    "lr": (SHORT, "0.01"),
    "batch_size": (SHORT, "5"),
    "n_epochs": (WHOLE, "2"),
    "n_iters": (WHOLE, "3"),
    "optimizer": (SHORT, "adam"),
    "optim_wd": (SHORT, "0.1"),
    "optim_mom": (SHORT, "0.9"),
    "optim_nesterov": ((*SHORT, "--optim_mom", "0.9"), "1"),
    "lr_scheduler": (TWICE, "cosine"),
    "scheduler_mode": ((*TWICE, "--lr_scheduler", "cosine"), "iter"),
    "lr_milestones": ((*TWICE, "--lr_scheduler", "multisteplr"), "1"),
    "sched_multistep_lr_gamma": (STEPPED, "0.5"),
    "drop_last": (WHOLE, "1"),
    "joint": (SHORT, "1"),
    "eval_classes": ((*SHORT, "--lr", "0.001"), "seen"),  # hardly trained: classes to come still win
    "validation": (SHORT, "20"),
    "permute_classes": (SHORT, "1"),
    "custom_class_order": (SHORT, "9,8,7,6,5,4,3,2,1,0"),
    "custom_task_order": (SHORT, "4,3,2,1,0"),
    "debug_mode": (WHOLE, "1"),
    "stop_after": (("--debug_mode", "1"), "1"),
    "num_classes": (SHORT, "12"),
    "fitting_mode": (WATCHED, "early_stopping"),
    "validation_mode": (EARLY, "complete"),
    "early_stopping_patience": (EARLY[:-4] + EARLY[-2:], "1"),
    "early_stopping_metric": (EARLY, "accuracy"),
    "early_stopping_freq": (EARLY, "2"),
    "early_stopping_epsilon": (EARLY, "10"),
    "eval_future": (SHORT, "1"),
    "code_optimization": (SHORT, "1"),
    "label_perc": (SHORT, "0.5"),
    "label_perc_by_class": (SHORT, "0.5"),
    "noise_rate": (SHORT, "0.5"),
}
ON_A_GPU = ("code_optimization",)
WITH_A_FILE = ("loadcheck", "start_from", "inference_only")  # tests/mammoth_tests/test_loading.py
ON_CIFAR = ("noise_type",)  # the digits have no similar classes; tests/mammoth_tests/test_upstreams_flags.py has CIFAR's


def shared_flags() -> list[str]:
    """The flags of every run that change what is learnt or measured."""
    parser = ArgumentParser()
    add_experiment_args(parser)
    return list(actions_by_name(parser))


REQUIRED = {"lr_milestones": ("--lr_milestones", "9")}  # flags without which the schedule is refused: another value instead


@pytest.mark.parametrize("flag", [flag for flag in shared_flags() if flag not in (*ON_CIFAR, *WITH_A_FILE)])
def test_every_shared_flag_matters(flag, train):
    """As for the methods' own flags, with plain training."""
    assert flag in SHARED_FLAGS, f"--{flag} is new: give it a value in SHARED_FLAGS"
    if flag in ON_A_GPU and not torch.cuda.is_available():
        pytest.skip(f"--{flag} matters on a GPU only, and there is none")
    words, value = SHARED_FLAGS[flag]
    plain, changed = (
        outcome(*train("--model", "sgd", *words, *more)[:2]) for more in (REQUIRED.get(flag, ()), (f"--{flag}", value))
    )
    assert not same(plain, changed), f"--{flag} {value} changes nothing"
