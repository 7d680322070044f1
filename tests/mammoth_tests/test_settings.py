"""From the command line to one resolved Namespace: who wins, what is refused, and every YAML file that is shipped."""

import pickle
from argparse import ArgumentParser
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from PIL import Image

import datasets
import models
from mammoth import settings
from models.sgd import Sgd
from tests.datasets.made_files import write_mini_tree, write_mnist, write_tiny_folder
from utils.args import MANAGEMENT
from utils.yaml_files import ROOT

METHODS = sorted(models.get_model_names())
CONFIG_FILES = sorted((ROOT / "datasets" / "configs").glob("*/*.yaml"))
DIGITS = {
    "protocol": "online", "backbone": "mnistmlp", "batch_size": 10, "n_epochs": 1, "lr": 0.1, "eval_classes": "all",
}  # fmt: skip


class WithDefaults(Sgd):
    """A method that sets a default for a flag of the engine."""

    NAME = "with-defaults"

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser:
        parser.set_defaults(optim_wd=0.3)
        return parser


@pytest.fixture
def method_folder(tmp_path, monkeypatch) -> Path:
    """An empty folder in the place of models/config."""
    folder = tmp_path / "model_config"
    folder.mkdir()
    monkeypatch.setattr(settings, "MODEL_CONFIGS", folder)
    return folder


@pytest.fixture
def benchmark_folder(tmp_path, monkeypatch) -> Path:
    """A folder in the place of datasets/configs, with a default for seq-digits."""
    folder = tmp_path / "dataset_configs"
    (folder / "seq-digits").mkdir(parents=True)
    monkeypatch.setattr(datasets, "CONFIGS", folder)
    write(folder / "seq-digits" / "default.yaml", DIGITS)
    return folder


def write(path: Path, content: dict) -> Path:
    path.write_text(yaml.safe_dump(content))
    return path


# -- precedence ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("layers", "winner"), [(0, 0.0), (1, 0.1), (2, 0.3), (3, 0.4), (4, 0.5)])
def test_each_layer_wins_over_those_before_it(layers, winner, method_folder, benchmark_folder, monkeypatch, resolve):
    """Parser 0.0 < benchmark YAML 0.1 < method's set_defaults 0.3 < method YAML 0.4 < command line 0.5."""
    model = "with-defaults" if layers >= 2 else "sgd"
    monkeypatch.setitem(models._registry._entries, "with-defaults", WithDefaults)
    if layers >= 1:
        write(benchmark_folder / "seq-digits" / "default.yaml", {**DIGITS, "optim_wd": 0.1})
    if layers >= 3:
        write(method_folder / "with_defaults.yaml", {"default": {"optim_wd": 0.4}})
    words = ("--optim_wd", "0.5") if layers >= 4 else ()
    assert resolve("--model", model, *words).optim_wd == winner


def test_precedence_with_the_shipped_files(resolve):
    """ER-ACE on CIFAR-10: lr 0.1 from the online config, 0.03 offline from the method's YAML, and the flag above both."""
    words = ("--model", "er_ace", "--dataset", "seq-cifar10", "--buffer_size", "200")
    assert resolve(*words, "--dataset_config", "online").lr == 0.1
    assert resolve(*words).lr == 0.03
    assert resolve(*words, "--lr", "0.5").lr == 0.5


def test_method_defaults_win_over_the_benchmark(method_folder, benchmark_folder, resolve):
    """`joint` sets joint=1 itself; a benchmark's YAML cannot undo it, the method's YAML can, the command line undoes that."""
    write(benchmark_folder / "seq-digits" / "default.yaml", {**DIGITS, "joint": 0})
    assert resolve("--model", "joint").joint == 1
    write(method_folder / "joint.yaml", {"default": {"joint": 0}})
    assert resolve("--model", "joint").joint == 0
    assert resolve("--model", "joint", "--joint", "1").joint == 1


def test_a_config_named_in_the_methods_file(method_folder, benchmark_folder, resolve):
    """D15: the flags of the config that the published values name are used, its name is recorded; --dataset_config wins."""
    write(benchmark_folder / "seq-digits" / "slow.yaml", DIGITS | {"lr": 0.1})
    write(method_folder / "sgd.yaml", {"seq-digits": {"dataset_config": "slow"}})
    words = ("--model", "sgd", "--dataset", "seq-digits", "--model_config", "best")
    named, other = resolve(*words), resolve(*words, "--dataset_config", "default")
    assert (named.dataset_config, named.lr) == ("slow", 0.1)
    assert other.dataset_config == "default"


def test_protocol_sections_of_a_method(resolve):
    """ER's YAML: online never replays the current task and forwards apart; offline the other way round."""
    online, offline = resolve("--model", "er"), resolve("--model", "er", "--dataset_config", "offline")
    assert (online.protocol, online.replay_current, online.replay_from_task, online.replay_forward) == ("online", 0, 2, "separate")
    assert (offline.protocol, offline.replay_current, offline.replay_from_task, offline.replay_forward) == (
        "offline",
        1,
        1,
        "joint",
    )


def test_protocol_section_wins_over_default(method_folder, resolve):
    """`default:` holds for both protocols, and the protocol's own section is above it."""
    write(method_folder / "sgd.yaml", {"default": {"optim_wd": 0.1, "optim_mom": 0.2}, "online": {"optim_wd": 0.3}})
    online, offline = resolve("--model", "sgd"), resolve("--model", "sgd", "--dataset_config", "offline", "--lr", "1")
    assert (online.optim_wd, online.optim_mom) == (0.3, 0.2)
    assert (offline.optim_wd, offline.optim_mom) == (0.1, 0.2)


# -- ways of writing -----------------------------------------------------------------------------------------------------


def test_equals_sign_and_space_are_the_same(resolve):
    """`--lr=0.2` and `--lr 0.2` resolve to the same run."""
    spaced, joined = resolve("--model", "er", "--lr", "0.2"), resolve("--model=er", "--lr=0.2")
    assert joined.lr == 0.2
    assert vars(spaced) == vars(joined)


@pytest.mark.parametrize("name", ["er-ace", "er_ace", "ER-ACE"])
def test_dashes_and_underscores_are_the_same(name, resolve):
    """Names are stored with `-`, however they were written, and find the same YAML file."""
    args = resolve("--model", name, "--dataset", "seq_digits")
    assert (args.model, args.dataset, args.replay_from_task) == ("er-ace", "seq-digits", 2)


def test_abbreviations_are_refused(resolve):
    """`--buffer` is no short form of `--buffer_size`."""
    with pytest.raises(ValueError, match="--buffer"):
        resolve("--model", "er", "--buffer", "10")


# -- memory --------------------------------------------------------------------------------------------------------------


def test_memory_per_class_is_times_the_classes(resolve):
    """--buffer_per_class 500 on ten classes is a memory of 5,000."""
    words = ("--model", "er", "--dataset", "seq-cifar10", "--dataset_config", "online")
    assert resolve(*words, "--buffer_per_class", "500").buffer_size == 5000
    assert resolve("--model", "er", "--buffer_per_class=3").buffer_size == 30


def test_the_memory_flag_given_wins_over_the_configs_other_one(resolve):
    """A config's memory per class gives way to --buffer_size, and its total to --buffer_per_class."""
    total = resolve("--model", "er", "--buffer_size", "7")
    assert (total.buffer_size, total.buffer_per_class) == (7, None)
    assert resolve("--model", "er", "--dataset_config", "offline", "--buffer_per_class", "5").buffer_size == 50


def test_a_memory_per_class_counts_the_benchmarks_classes(resolve):
    """Not the network's outputs, of which there may be more."""
    assert resolve("--model", "er", "--buffer_per_class", "5", "--num_classes", "30").buffer_size == 50


def test_both_memory_flags_are_an_error(resolve):
    """The two ways to size the memory exclude each other."""
    with pytest.raises(ValueError, match=r"buffer_size.*buffer_per_class"):
        resolve("--model", "er", "--buffer_size", "10", "--buffer_per_class", "10")


def test_a_method_meets_only_the_settings_that_it_lists(resolve, monkeypatch):
    """Another is refused at the start in one line; general-continual runs on any, task-il where tasks have classes of their own."""
    monkeypatch.setattr(Sgd, "COMPATIBILITY", ["domain-il"])
    with pytest.raises(ValueError, match=r"^--model sgd takes domain-il benchmarks; seq-digits is class-il$"):
        resolve("--model", "sgd", "--dataset", "seq-digits")
    for takes in ([], ["general-continual"], ["task-il"]):
        monkeypatch.setattr(Sgd, "COMPATIBILITY", takes)
        assert resolve("--model", "sgd", "--dataset", "seq-digits").model == "sgd"
    with pytest.raises(ValueError, match=r"^--model sgd takes task-il benchmarks; perm-mnist is domain-il$"):
        resolve("--model", "sgd", "--dataset", "perm-mnist")


def test_a_network_that_would_crash_is_refused(resolve):
    """Few channels on large images, on a CPU; the same on small images, or enough of them, is taken."""
    words = ("--model", "er", "--buffer_size", "10", "--backbone", "resnet18", "--num_filters")
    with pytest.raises(ValueError, match=r"^--num_filters 15: .*\(84\); give at least 16$"):
        resolve(*words, "15", "--dataset", "seq-miniimg")
    assert resolve(*words, "16", "--dataset", "seq-miniimg").num_filters == 16
    assert resolve(*words, "4", "--dataset", "seq-cifar10").num_filters == 4


def test_a_missing_memory_is_an_error(resolve):
    """A replay method on a benchmark without a default memory asks for one."""
    with pytest.raises(ValueError, match="--buffer_size or --buffer_per_class is missing"):
        resolve("--model", "er", "--dataset", "seq-cifar10")


@pytest.mark.parametrize("flag", ["--buffer_size", "--buffer_per_class", "--minibatch_size"])
def test_memory_flags_of_a_method_without_memory(flag, resolve):
    """`sgd` keeps no memory, and says so."""
    with pytest.raises(ValueError, match=f"{flag}: sgd keeps no memory"):
        resolve("--model", "sgd", flag, "10")


def test_the_methods_memory_wins_over_the_benchmarks(method_folder, resolve):
    """A total in the method's YAML is above the benchmark's memory per class, as for any other value."""
    write(method_folder / "er.yaml", {"default": {"buffer_size": 50}})
    assert resolve("--model", "er").buffer_size == 50


# -- published values ----------------------------------------------------------------------------------------------------


def test_best_values_depend_on_the_memory(resolve):
    """--model_config best: DER++ on CIFAR-10 takes the values published for that memory."""
    words = ("--model", "derpp", "--dataset", "seq-cifar10", "--model_config", "best")
    small, large = resolve(*words, "--buffer_size", "500"), resolve(*words, "--buffer_size", "5120")
    assert (small.alpha, small.beta, small.lr) == (0.2, 0.5, 0.03)
    assert (large.alpha, large.beta, large.lr) == (0.1, 1.0, 0.03)


@pytest.mark.parametrize(
    ("words", "there_is"),
    [
        (("--dataset", "seq-cifar10", "--buffer_size", "300"), "200, 500, 5120"),
        (("--dataset", "seq-digits"), "seq-cifar10"),
        (("--dataset", "seq-cifar10", "--buffer_size", "500", "--dataset_config", "online"), "offline protocol, not of online"),
        (("--dataset", "seq-cifar10", "--buffer_size", "500", "--model_config", "bst"), "best"),
    ],
)
def test_missing_best_values_name_what_exists(words, there_is, resolve):
    """Nothing published for this benchmark or memory: the message lists what is."""
    which = () if "--model_config" in words else ("--model_config", "best")
    with pytest.raises(ValueError, match=there_is):
        resolve("--model", "derpp", *words, *which)


# -- YAML files that are wrong ---------------------------------------------------------------------------------------------


def test_unknown_key_in_a_methods_file(method_folder, resolve):
    """The error names file and key."""
    path = write(method_folder / "er.yaml", {"online": {"replay_curent": 0}})
    with pytest.raises(ValueError, match=rf"{path}.*replay_curent.*replay_current"):
        resolve("--model", "er")


@pytest.mark.parametrize("key", ["batchsize", "N_CLASSES_PER_TAKS"])
def test_unknown_key_in_a_benchmarks_file(key, benchmark_folder, resolve):
    """A flag or a fact that does not exist: the error names file and key."""
    path = write(benchmark_folder / "seq-digits" / "default.yaml", {**DIGITS, key: 3})
    with pytest.raises(ValueError, match=rf"{path}.*{key}"):
        resolve("--model", "sgd")


@pytest.mark.parametrize(("key", "value"), [("lr", -1), ("batch_size", "many"), ("optimizer", "lion"), ("n_epochs", 1.5)])
def test_bad_value_in_a_benchmarks_file(key, value, benchmark_folder, resolve):
    """YAML values are checked as the flag's are: the error names file and key."""
    path = write(benchmark_folder / "seq-digits" / "default.yaml", {**DIGITS, key: value})
    with pytest.raises(ValueError, match=rf"{path}.*{key}"):
        resolve("--model", "sgd")


@pytest.mark.parametrize(("key", "value"), [("pvbf_alpha", "half"), ("standardization", "z"), ("ec", 2)])
def test_bad_value_in_a_methods_file(key, value, method_folder, resolve):
    """The same for a method's file."""
    path = write(method_folder / "pvbf.yaml", {"default": {key: value}})
    with pytest.raises(ValueError, match=rf"{path}.*{key}"):
        resolve("--model", "pvbf")


@pytest.mark.parametrize("section", [["lr"], "lr", 3])
def test_a_methods_section_that_is_no_mapping(section, method_folder, resolve):
    """`online: lr` is an error that names file and section."""
    path = write(method_folder / "sgd.yaml", {"online": section})
    with pytest.raises(ValueError, match=rf"{path}.*online"):
        resolve("--model", "sgd")


@pytest.mark.parametrize("value", [0, 1, "mean"])
def test_a_choice_written_as_a_number(value, method_folder, resolve):
    """`ec: 0` in a YAML file means what `--ec 0` means, although YAML reads a number."""
    write(method_folder / "pvbf.yaml", {"default": {"ec": value}})
    assert resolve("--model", "pvbf").ec == str(value)


def test_a_list_in_a_file_is_what_the_flag_would_be(benchmark_folder, resolve):
    """`lr_milestones: [35, 45]` reads as `--lr_milestones 35,45`."""
    write(benchmark_folder / "seq-digits" / "default.yaml", {**DIGITS, "lr_milestones": [35, 45]})
    assert resolve("--model", "sgd").lr_milestones == resolve("--model", "sgd", "--lr_milestones", "35,45").lr_milestones


def test_no_valid_yaml_names_the_file(benchmark_folder, resolve):
    """A YAML file with a syntax error is named."""
    path = benchmark_folder / "seq-digits" / "default.yaml"
    path.write_text("lr: [1, 2")
    with pytest.raises(ValueError, match=rf"{path}"):
        resolve("--model", "sgd")


@pytest.mark.parametrize("protocol", ["onlne", "Online", ""])
def test_an_unknown_protocol_in_a_config(protocol, benchmark_folder, resolve):
    """It would choose no section of any method's file, in silence."""
    path = benchmark_folder / "seq-digits" / "default.yaml"
    write(path, {**DIGITS, "protocol": protocol})
    with pytest.raises(ValueError, match=rf"{path}: protocol: '{protocol}'; .*online"):
        resolve("--model", "sgd")


def test_a_word_of_the_environment_that_is_neither_yes_nor_no(monkeypatch, resolve):
    """The variable is named; an empty one counts as none."""
    monkeypatch.setenv("MAMMOTH_VERIFY_DATA", "perhaps")
    with pytest.raises(ValueError, match="MAMMOTH_VERIFY_DATA=perhaps"):
        resolve("--model", "sgd")
    monkeypatch.setenv("MAMMOTH_VERIFY_DATA", "")
    assert resolve("--model", "sgd").verify_data == 1


# -- seed ----------------------------------------------------------------------------------------------------------------


def test_a_run_without_seed_draws_one():
    """The drawn seed is in the arguments, and two draws differ."""
    first, second = (settings.resolve(["--model", "sgd"]).args for _ in range(2))
    assert isinstance(first.seed, int)
    assert first.seed >= 0
    assert first.seed != second.seed
    assert first.run_id != second.run_id


def test_no_dataset_is_the_bundled_one_and_says_so():
    """Without --dataset the digits run, and a notice names the paper's benchmark."""
    resolved = settings.resolve(["--model", "pvbf"])
    assert resolved.args.dataset == "seq-digits"
    assert len(resolved.notices) == 1
    assert "--dataset seq-cifar10 --dataset_config online" in resolved.notices[0]


def test_one_epoch_alone_names_the_online_protocol():
    """--n_epochs 1 on the offline config prints the line that names --dataset_config online; on the online one it does not."""
    words = ["--model", "sgd", "--dataset", "seq-cifar10", "--n_epochs", "1"]
    assert any("--dataset_config online" in notice for notice in settings.resolve(words).notices)
    assert not settings.resolve([*words, "--dataset_config", "online"]).notices


def test_debug_mode_keeps_the_epochs_asked_for(resolve):
    """Debug mode shortens the default number of epochs, not the one given."""
    words = ("--model", "sgd", "--dataset_config", "offline", "--lr", "0.1", "--debug_mode", "1")
    assert resolve(*words).n_epochs == 1
    assert resolve(*words, "--n_epochs", "3").n_epochs == 3


@pytest.mark.parametrize(("value", "expected"), [("0", 0), ("1", 1), (None, 1)])
def test_verify_data_from_the_environment(value, expected, monkeypatch, resolve):
    """MAMMOTH_VERIFY_DATA sets the default of --verify_data, and the flag wins."""
    monkeypatch.delenv("MAMMOTH_VERIFY_DATA", raising=False)
    if value is not None:
        monkeypatch.setenv("MAMMOTH_VERIFY_DATA", value)
    assert resolve("--model", "sgd").verify_data == expected
    assert resolve("--model", "sgd", "--verify_data", "0").verify_data == 0


# -- run id --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ("--base_path", "elsewhere"), ("--results_path", "other"), ("--device", "cpu"),
        ("--threads", "3"), ("--notes", "a try"), ("--non_verbose", "1"), ("--verify_data", "0"),
        ("--savecheck", "last"), ("--checkpoint_path", "elsewhere"), ("--ckpt_name", "mine"), ("--save_checkpoint_mode", "safe"),
        ("--tensorboard", "1"), ("--wandb_name", "a"), ("--wandb_entity", "b"), ("--wandb_project", "c"),
    ],
)  # fmt: skip
def test_run_id_does_not_depend_on_where(words):
    """Paths, device, threads and notes leave the run's name as it is; each flag of MANAGEMENT is tried."""
    assert words[0].removeprefix("--") in MANAGEMENT
    plain = ["--model", "er", "--seed", "0"]
    assert settings.resolve(plain).args.run_id == settings.resolve([*plain, *words]).args.run_id


METHOD_FLAGS = [
    (method, action.dest, action)
    for method in METHODS
    for action in settings.actions_by_name(settings.resolve(["--model", method, "--help"]).parser).values()
    if action.dest not in settings.actions_by_name(settings.common_parser())
]


@pytest.mark.parametrize(("method", "flag", "action"), METHOD_FLAGS, ids=[f"{m}-{f}" for m, f, _ in METHOD_FLAGS])
def test_run_id_differs_by_any_method_flag(method, flag, action):
    """Another value of a method's, a benchmark's or a network's flag is another run."""
    plain = ["--model", method, "--seed", "0"]
    before = getattr(settings.resolve(plain).args, flag)
    tries = [str(choice) for choice in action.choices or ()] + [
        "1",
        "2",
        "0",
        "0.7",
        "3",
        "unseen",
        "all",
        "cosine",
        "joint",
        "separate",
        "offline",
        "eval",
    ]
    for value in tries:
        try:
            args = settings.resolve([*plain, f"--{flag}", value]).args
        except ValueError:
            continue
        if getattr(args, flag) != before:
            assert args.run_id != settings.resolve(plain).args.run_id
            return
    pytest.fail(f"no other value found for --{flag}: add one to `tries`")


@pytest.mark.parametrize(
    "words", [("--seed", "1"), ("--lr", "0.2"), ("--joint", "1"), ("--stop_after", "2"), ("--dataset_config", "offline")]
)
def test_run_id_differs_by_what_is_learnt(words):
    """Seed, learning rate, protocol: another run."""
    seed = () if "--seed" in words else ("--seed", "0")
    plain = settings.resolve(["--model", "er", "--seed", "0"]).args.run_id
    assert settings.resolve(["--model", "er", *seed, *words]).args.run_id != plain


@pytest.mark.parametrize("owner", [Sgd, settings], ids=["method", "engine"])
def test_run_id_survives_a_new_flag(owner, monkeypatch, resolve):
    """A flag that a method or the engine gets later leaves old names as they are while it stands at its default, and only then."""
    maker = "get_parser" if owner is Sgd else "common_parser"
    before, make = resolve("--model", "sgd").run_id, getattr(owner, maker)

    def with_one_more(*parts):
        parser = make(*parts)
        parser.add_argument("--fresh", type=int, default=7)
        return parser

    monkeypatch.setattr(owner, maker, staticmethod(with_one_more) if owner is Sgd else with_one_more)
    assert resolve("--model", "sgd").fresh == 7
    assert resolve("--model", "sgd").run_id == before != resolve("--model", "sgd", "--fresh", "8").run_id


def test_run_id_depends_on_the_facts_of_the_config(tmp_path, monkeypatch, resolve):
    """Other transforms or tasks in a config of the same name compute something else, so the run has another name."""
    specs = ["ToTensor", {"Normalize": {"mean": [0.1], "std": [1]}}]
    transform = {"TRANSFORM": specs, "TEST_TRANSFORM": specs}
    ids = set()
    for number, facts in enumerate(({}, {"N_TASKS": 2, "N_CLASSES_PER_TASK": 5}, transform)):
        folder = tmp_path / str(number)
        (folder / "seq-digits").mkdir(parents=True)
        write(folder / "seq-digits" / "default.yaml", {**DIGITS, **facts})
        monkeypatch.setattr(datasets, "CONFIGS", folder)
        ids.add(resolve("--model", "sgd").run_id)
    assert len(ids) == 3


# -- every YAML file that is shipped -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made_folder(tmp_path_factory) -> Path:
    """Every benchmark's files in a published format, small: a few noisy images of each class; and a folder of photos."""
    root = tmp_path_factory.mktemp("made")
    write_mini_tree(root / "MiniImageNet")
    write_tiny_folder(root / "TINYIMG" / "tiny-imagenet-200")
    for name in ("MNIST", "FashionMNIST"):
        write_mnist(root / name / "raw")
    rng = np.random.default_rng(0)
    for name, classes in (("seq-cifar10", 10), ("seq-cifar100", 100)):
        benchmark = datasets.get_dataset_class(name)
        folder = root / benchmark.FOLDER / benchmark.ARCHIVE.folder
        folder.mkdir(parents=True)
        for file in (*benchmark.ARCHIVE.train, *benchmark.ARCHIVE.test):
            labels = [label for label in range(classes) for _ in range(2)]
            pixels = rng.integers(0, 256, (len(labels), 3072), dtype=np.uint8)
            (folder / file).write_bytes(pickle.dumps({"data": pixels, benchmark.LABELS: labels}, protocol=2))
    for place in range(8):
        path = root / "photos" / ("train", "test")[place % 2] / str(place // 2) / "0.png"
        path.parent.mkdir(parents=True)
        Image.fromarray(rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)).save(path)
    return root


def one_step(go, made_folder, method, path, *words):
    """Run two tasks of one step each of a method on a config, two images a batch."""
    known = settings.actions_by_name(settings.resolve(["--model", method, "--help"]).parser)
    sizes = {"buffer_size": "40", "minibatch_size": "2", "fitting_epochs": "1"}
    memory = tuple(word for name, size in sizes.items() if name in known for word in (f"--{name}", size))
    where = ["--results_path", "results"]
    if path.parent.name == "seq-folder":
        where += ["--data_path", str(made_folder / "photos")]
    (made_folder / "results").mkdir(exist_ok=True)
    return go(
        "--model", method, "--dataset", path.parent.name, "--dataset_config", path.stem, "--verify_data", "0",
        "--n_iters", "1", "--stop_after", "2", "--batch_size", "2", *memory, *where, *words,
    )  # fmt: skip


@pytest.fixture
def go_here(made_folder):
    """As `go`, with the made files under the base path."""
    from mammoth.runner import run

    def gone(*words):
        quiet = ("--non_verbose", "1", "--threads", "1", "--device", "cpu", "--seed", "0", "--base_path", str(made_folder))
        return run(settings.resolve([*words, *quiet]).args, list(words)).content

    return gone


PAIRS = [
    pytest.param(path, method, marks=[pytest.mark.long] if large and method not in ("er", "pvbf") else [])
    for path in CONFIG_FILES
    for large in [path.parent.name in ("seq-miniimg", "seq-tinyimg")]
    for method in METHODS
]


def name_of(part: Path | str) -> str:
    return part if isinstance(part, str) else f"{part.parent.name}-{part.stem}"


@pytest.mark.parametrize(("path", "method"), PAIRS, ids=name_of)
def test_every_config_runs_a_step_of_every_method(path, method, made_folder, go_here):
    """Every benchmark's YAML with every method's: two tasks of one step (narrow where the network has a width).

    Not narrower than 16: oneDNN's strided 1x1 convolutions of fewer channels write out of bounds on large channels-last images.
    """
    narrow = ("--num_filters", "16") if "resnet18" in path.read_text() and "reduced" not in path.read_text() else ()
    narrow += ("--hal_anchor_steps", "2") if method == "hal" else ()
    if method == "icarl" and datasets.get_dataset_class(path.parent.name).SETTING == "domain-il":
        with pytest.raises(ValueError, match="icarl takes class-il"):
            one_step(go_here, made_folder, method, path, *narrow)
        return
    record = one_step(go_here, made_folder, method, path, *narrow)
    stages = 1 if record["joint"] else 2
    assert record["status"] == "done"
    assert record["provenance"]["steps"] == stages
    assert len(record["class_il"]) == stages


@pytest.mark.long
@pytest.mark.parametrize("path", CONFIG_FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_config_runs_with_its_own_network(path, made_folder, go_here):
    """The same at full width, with PVBF."""
    assert one_step(go_here, made_folder, "pvbf", path)["status"] == "done"


@pytest.mark.parametrize("path", sorted((ROOT / "models" / "config").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_methods_file_resolves_whole(path, resolve):
    """Each section of each method's file is read: both protocols, and all published values."""
    content = yaml.safe_load(path.read_text())
    replays = "buffer_size" in settings.actions_by_name(settings.resolve(["--model", path.stem, "--help"]).parser)
    memory = ("--buffer_size", "200") if replays else ()
    for config in ("default", "offline"):
        resolve("--model", path.stem, "--dataset_config", config, *memory)
    for dataset in content.keys() - {"default", "online", "offline"}:
        for size in [key for key in content[dataset] if isinstance(key, int)] or [200]:
            memory = ("--buffer_size", str(size)) if replays else ()
            resolve("--model", path.stem, "--dataset", dataset, "--model_config", "best", *memory)


def test_every_methods_file_belongs_to_a_method():
    """No YAML file of a method that does not exist."""
    assert {path.stem.replace("_", "-") for path in settings.MODEL_CONFIGS.glob("*.yaml")} <= set(METHODS)


@pytest.mark.parametrize(
    ("fact", "says"),
    [
        ({"N_TASKS": "two"}, "N_TASKS: 'two'"),
        ({"N_CLASSES": True}, "N_CLASSES: True"),
        ({"N_CLASSES_PER_TASK": [2, "a"]}, "N_CLASSES_PER_TASK"),
        ({"SIZE": [8, 8]}, "SIZE"),
        ({"TRANSFORM": [3]}, "TRANSFORM"),
        ({"TRANSFORM": [{"RandomCrop": {"size": "x"}}]}, "TRANSFORM"),
        ({"TRANSFORM": [{"RandomHorizontalFlip": {"p": "q"}}]}, "TRANSFORM"),
        ({"TEST_TRANSFORM": [{"Normalize": {"mean": 0.5, "std": 1}}]}, "TEST_TRANSFORM"),
        ({"TRANSFORM": [{"Normalize": {"mean": [0.1, 0.2], "std": [1, 1]}}]}, "not [1, 8, 8]"),
    ],
    ids=str,
)
def test_a_fact_of_the_wrong_kind_names_file_and_key(fact, says, tmp_path, resolve):
    """A config of one's own: a ValueError of one line, before anything is built."""
    write(tmp_path / "own.yaml", {"protocol": "online", "backbone": "mnistmlp", "batch_size": 10, "n_epochs": 1, **fact})
    with pytest.raises(ValueError, match=r"own\.yaml") as caught:
        resolve("--model", "er", "--dataset_config", str(tmp_path / "own.yaml"), "--buffer_per_class", "5", "--lr", "1")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_trying_a_transform_shifts_no_draw(tmp_path):
    """Reading a config, which tries its transforms, leaves the run's generators where they were."""
    from utils import randomness

    expected = randomness.start(0).generator("augmentation").get_state()
    randomness.start(0)
    before = torch.get_rng_state()
    datasets.read_config("seq-cifar10", "default")
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(randomness.generator("augmentation").get_state(), expected)
