"""Command lines made at random: a run, or an error of at most two lines; never a traceback."""

import argparse
import contextlib
import io
import resource
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

import models
from backbone import get_backbone
from mammoth import cli, settings
from utils.args import actions_by_name, convert

METHODS = sorted(models.get_model_names())
ALWAYS = ("--n_iters", "1", "--stop_after", "1", "--non_verbose", "1", "--device", "cpu", "--threads", "1")
# given always, or what would reach the network or another folder
LEFT_OUT = {"help", "model", "n_iters", "stop_after", "non_verbose", "device", "threads", "base_path", "list", "wandb_entity"}
NUMBERS = ("0", "1", "2", "3", "10", "16", "-1", "0.5", "0.05", "1.5", "100", "1e-3", "1e30", "1e-400", "nan", "-inf", "2147483647")
LOOPS = ("fitting_epochs", "hal_anchor_steps", "batch_num")  # a large number of which takes years
WORDS = (
    "",
    "-",
    "--",
    "x",
    "no",
    "true",
    "auto",
    "default",
    "best",
    "all",
    "1,2",
    "9,8,7,6,5,4,3,2,1,0",
    "9" * 30,
    "\u0663",
    "a b",
    "../up",
)
NAMES = {
    "dataset": ("seq-digits", "seq_digits", "seq-digits", "seq-digit"),
    "dataset_config": ("default", "online", "absent", "absent.yaml"),
    "backbone": ("mnistmlp", "mnistmlp", "resnet99"),
    "models_path": ("folder", "folder", "absent"),
    "datasets_path": ("folder", "folder", "absent"),
    "results_path": ("results", "a/b/c", "file"),
    "checkpoint_path": ("kept", "file"),
    "resume": ("auto", "auto", "absent.pt", "file", "folder"),
    "loadcheck": ("weights.pt", "weights.pt", "misfit.pt", "absent.pt", "file", "folder"),
}


class Flag(NamedTuple):
    """A flag's spelling, the values tried, and those of them that it takes by itself."""

    spelling: str
    values: tuple[str, ...]
    taken: tuple[str, ...]


def flag_of(action: argparse.Action) -> Flag:
    """Return a flag with numbers, words, and the values that its help names; of a flag that names a thing, names alone."""
    own = (*str(action.metavar or "").split("|"), *map(str, action.choices or ()))
    values = NAMES.get(action.dest) or (*own, *NUMBERS, *WORDS)
    values = tuple(value for value in values if action.dest not in LOOPS or not value.isdigit() or len(value) <= 3)
    taken = []
    for value in values:
        with contextlib.suppress(ValueError):
            convert(action, value, "")
            taken.append(value)
    return Flag(action.option_strings[0], values, tuple(taken))


def flags_of(method: str) -> dict[str, Flag]:
    """Return a method's flags on the digits."""
    actions = actions_by_name(settings.resolve(["--model", method, "--help"]).parser)
    return {name: flag_of(action) for name, action in actions.items() if name not in LEFT_OUT}


FLAGS = {method: flags_of(method) for method in METHODS}


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    """Draw a method and up to eight of its flags, most with a value that they take by themselves, some with any or none."""
    method = draw(st.sampled_from(METHODS))
    words = ["--model", method]
    for name in draw(st.lists(st.sampled_from(sorted(FLAGS[method])), unique=True, max_size=8)):
        flag, values, taken = FLAGS[method][name]
        kind = draw(st.integers(0, 19))
        value = draw(st.sampled_from(taken if kind > 1 and taken else values))
        words += [flag] if kind == 0 else [f"{flag}={value}"] if kind % 2 else [flag, value]
    return words


def outcome(words: list[str]) -> tuple[int, str]:
    """Run a command line in this process; return its exit status and what it wrote to stderr after `error: `."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        status = cli.main([*words, *ALWAYS])
    return status, said.getvalue().partition("error: ")[2]


def check(words: list[str]) -> None:
    """A run; an error of one or two lines with status 2; or, with status 1, a run that diverged or outgrew the memory."""
    status, error = outcome(words)
    lines = error.splitlines()
    if status == 0:
        assert lines == []
    else:
        assert 1 <= len(lines) <= 2
        assert lines[0].strip()
        assert status == 2 or (status == 1 and any(reason in lines[0] for reason in ("not finite", "not enough memory")))


def fuzz(cases: int) -> None:
    """Check so many command lines, the same ones each time."""
    quiet = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large]
    hypothesis_settings(max_examples=cases, deadline=None, derandomize=True, database=None, suppress_health_check=quiet)(
        given(command_lines())(check)
    )()


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """A folder to run in: in it a folder, a file that is none of ours, two of weights; 4 GB of memory beyond what is taken."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "unnamed.py").write_text("NAME = None")  # as much as a folder of methods or benchmarks must hold
    (tmp_path / "file").write_text("neither a checkpoint nor a folder")
    weights = get_backbone(settings.resolve(["--model", "sgd", "--seed", "0"]).args).state_dict()
    torch.save(weights, "weights.pt")
    torch.save({name: value[:1] for name, value in weights.items()}, "misfit.pt")
    before = resource.getrlimit(resource.RLIMIT_AS)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + 4 * 2**30, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def test_random_command_lines(workplace):
    """200 of them, any subset of flags with values in and out of range."""
    fuzz(200)


@pytest.mark.long
def test_many_random_command_lines(workplace, note):
    """10,000 of them."""
    fuzz(10_000)
    note("fuzz", cases=10_000)


def test_a_memory_that_does_not_fit(workplace):
    """Two thousand million images: said in one line, status 1."""
    status, error = outcome(["--model", "er", "--buffer_size", "2147483647"])
    assert status == 1
    assert error == "not enough memory for this run; try a smaller --buffer_size, --batch_size or network\n"
