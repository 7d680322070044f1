"""The flags' types and the parser's errors."""

import argparse
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from utils import binary_to_boolean_type, none_or_float
from utils.args import (
    SLIPS,
    Parser,
    actions_by_name,
    add_choice_args,
    add_experiment_args,
    add_management_args,
    add_rehearsal_args,
    convert,
    meant,
    number,
    one_of,
    yes_or_no,
)

Error = argparse.ArgumentTypeError


@pytest.fixture
def parser():
    """Return a parser with all flags of a method with a memory."""
    made = Parser(prog="main.py")
    for add in (add_rehearsal_args, add_experiment_args, add_management_args):
        add(made)
    return made


# -- types -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["1", "7", "0100"])
def test_a_whole_number_is_read(text):
    """As int."""
    assert number(int, 1)(text) == int(text)


@pytest.mark.parametrize("text", ["1.5", "two", "", "1e3", "0x10"])
def test_no_whole_number_is_an_error(text):
    """It says what is wanted and what came."""
    with pytest.raises(Error, match=f"'{text}' is not a whole number"):
        number(int, 1)(text)


@pytest.mark.parametrize(("text", "low", "high", "bounds"), [("0", 1, math.inf, "at least 1"), ("5", 0, 4, "from 0 to 4")])
def test_out_of_range_is_an_error_with_the_bounds(text, low, high, bounds):
    """Both kinds of range."""
    with pytest.raises(Error, match=f"{text} is out of range; it must be {bounds}"):
        number(int, low, high)(text)


def test_an_open_lower_bound_is_excluded():
    """A learning rate of 0 is none."""
    with pytest.raises(Error, match="above 0"):
        number(float, 0, open_low=True)("0")
    with pytest.raises(Error, match=r"0 is out of range; it must be above 0 and at most 0.95"):
        number(float, 0, 0.95, open_low=True)("0")
    assert number(float, 0, open_low=True)("1e-9") == 1e-9


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e999"])
@pytest.mark.parametrize("high", [math.inf, 10])
def test_nan_and_infinity_are_out_of_range(text, high):
    """Whatever the bounds."""
    with pytest.raises(Error, match="out of range"):
        number(float, -math.inf if high == math.inf else 0, high)(text)


def test_an_absurdly_long_number_is_an_error_not_a_crash():
    """10^400 has no float; 10^5000 exceeds Python's limit on digits."""
    for digits in (400, 5000):
        with pytest.raises(Error):
            number(int, 1, 2**31 - 1)("1" + "0" * digits)


@given(value=st.integers(-1000, 1000), low=st.integers(-100, 100), width=st.integers(0, 200))
@settings(deadline=None, max_examples=80)
def test_exactly_the_numbers_in_range_are_read(value, low, width):
    """Both ends belong to it."""
    if low <= value <= low + width:
        assert number(int, low, low + width)(str(value)) == value
    else:
        with pytest.raises(Error):
            number(int, low, low + width)(str(value))


def test_one_of_reads_its_words_and_names_them_otherwise():
    """The message lists all of them."""
    read = one_of("sgd", "adam", "adamw")
    assert read("adam") == "adam"
    with pytest.raises(Error, match="'adm' is not one of sgd, adam, adamw"):
        read("adm")


@pytest.mark.parametrize(("text", "value"), [("1", 1), ("0", 0), ("True", 1), ("false", 0), ("YES", 1), ("no", 0)])
def test_yes_and_no_are_read(text, value):
    """Any case, as 0 or 1."""
    assert yes_or_no(text) == value == binary_to_boolean_type(text)


@pytest.mark.parametrize("text", ["2", "", "maybe", "-1", "1.0"])
def test_neither_yes_nor_no_is_an_error(text):
    """A type's error for argparse, a ValueError for others."""
    with pytest.raises(Error, match="not a yes or a no; use 0 or 1"):
        yes_or_no(text)
    with pytest.raises(ValueError, match="not a yes or a no"):
        binary_to_boolean_type(text)


@pytest.mark.parametrize(("given_value", "read"), [("none", None), (None, None), ("None", None), ("0.5", 0.5), (2, 2.0)])
def test_none_or_a_float(given_value, read):
    """Mammoth's helper."""
    assert none_or_float(given_value) == read


# -- the parser --------------------------------------------------------------------------------------------------------


def test_flags_are_read(parser):
    """Both ways of giving a value."""
    args = parser.parse_strictly(["--lr", "0.1", "--buffer_size=200", "--seed", "0"])
    assert (args.lr, args.buffer_size, args.seed, args.buffer_per_class) == (0.1, 200, 0, None)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--buffr_size", "5"], r"unknown flag --buffr_size; did you mean .*--buffer_size"),
        (["--buffr_size=5"], r"unknown flag --buffr_size; did you mean .*--buffer_size"),
        (["--zzzzzzzzzzzzzz", "5"], "unknown flag --zzzzzzzzzzzzzz; see --help"),
        (["stray"], "unknown flag stray; flags start with --"),
        (["--buffer", "5"], r"unknown flag --buffer; did you mean --buffer_size\?"),
        (["--learning_rate", "0.1"], r"unknown flag --learning_rate; did you mean --lr\?"),
        (["--learning-rate=0.1"], r"unknown flag --learning-rate; did you mean --lr\?"),
        (["--epochs", "5"], r"unknown flag --epochs; did you mean --n_epochs\?"),
        (["--memory_size", "5"], r"unknown flag --memory_size; did you mean --buffer_size\?"),
        (["--mem_size", "5"], r"unknown flag --mem_size; did you mean --buffer_size\?"),
        (["--bs", "5"], r"unknown flag --bs; did you mean --batch_size\?"),
        (["--gpu", "0"], r"unknown flag --gpu; did you mean --device\?"),
        (["--cuda"], r"unknown flag --cuda; did you mean --device\?"),
        (["--data_root", "here"], r"unknown flag --data_root; did you mean --base_path\?"),
        (["--dataset_path", "here"], r"unknown flag --dataset_path; did you mean --base_path\?"),
    ],
)
def test_an_unknown_flag_names_the_nearest(parser, argv, message):
    """A beginning of a flag is not taken for it."""
    with pytest.raises(ValueError, match=message):
        parser.parse_strictly(argv)


def test_a_slip_leads_to_a_flag_that_the_run_has(parser):
    """Photos lie under --data_path where a benchmark has that flag; a method without a memory is not led to one."""
    parser.add_argument("--data_path", required=True)
    with pytest.raises(ValueError, match=r"unknown flag --data_dir; did you mean --data_path\?"):
        parser.parse_strictly(["--data_dir", "photos"])
    without = Parser()
    add_experiment_args(without)
    assert meant("--memory_size", without._option_string_actions) is None


def test_no_flag_is_taken_for_a_slip(parser):
    """What the table leads to is there, and what it calls a slip is no flag."""
    add_choice_args(parser)
    assert {f"--{name}" for name in SLIPS} - {"--data_path"} <= set(parser._option_string_actions)
    slips = {name for names in SLIPS.values() for name in names.split()} - {"data_path"}
    assert not {f"--{name}" for name in slips} & set(parser._option_string_actions)


@pytest.mark.parametrize(
    "argv", [["--lr", "0.1", "--lr", "0.2"], ["--lr=0.1", "--lr", "0.1"], ["--lr=0.1", "--seed", "1", "--lr=0.2"]]
)
def test_a_flag_given_twice_is_an_error(parser, argv):
    """The last one must not win in silence."""
    with pytest.raises(ValueError, match="--lr: given more than once"):
        parser.parse_strictly(argv)


def test_a_flag_that_collects_may_be_given_twice(parser):
    """`action="append"`."""
    parser.add_argument("--tag", action="append")
    assert parser.parse_strictly(["--tag", "a", "--tag", "b"]).tag == ["a", "b"]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--lr", "fast"], "--lr: 'fast' is not a number"),
        (["--lr=--"], "--lr: '--' is no value"),
        (["--lr", "0"], "--lr: 0 is out of range; it must be above 0"),
        (["--lr", "-0.1"], "--lr: -0.1 is out of range"),
        (["--n_epochs", "0"], "--n_epochs: 0 is out of range"),
        (["--seed", "-1"], "--seed: -1 is out of range"),
        (["--lr"], "--lr: expected one argument"),
        (["--eval_classes", "some"], "--eval_classes: 'some' is not one of all, seen"),
        (["--joint", "2"], "--joint: '2' is not a yes or a no"),
        (["--validation", "100"], "--validation: 100 is out of range"),
        (["--lr_milestones", "35,x"], "--lr_milestones: .*35,x"),
    ],
)
def test_a_bad_value_names_the_flag(parser, argv, message):
    """A ValueError of one line, no usage, no exit."""
    with pytest.raises(ValueError, match=f"^{message}") as caught:
        parser.parse_strictly(argv)
    assert len(str(caught.value).splitlines()) == 1


def test_rehearsal_flags_go_into_a_group_too():
    """Upstream's methods may hand over either."""
    made = Parser()
    add_rehearsal_args(made.add_argument_group("memory"))
    assert made.parse_strictly(["--minibatch_size", "32"]).minibatch_size == 32


def test_mammoths_names_can_be_imported():
    """`from utils.args import ArgumentParser, Namespace`."""
    from utils import args

    assert args.ArgumentParser is argparse.ArgumentParser
    assert args.Namespace is argparse.Namespace


def test_help_shows_defaults_and_percent_signs(parser):
    """Formatting the help of every flag raises nothing."""
    parser.add_argument("--share", default="50%", help="a share")
    text = parser.format_help()
    assert "(default: 50%)" in text
    assert "(default: ./data/)" in text


# -- values from YAML --------------------------------------------------------------------------------------------------


def test_yaml_values_are_read_as_the_flags_would(parser):
    """Numbers, booleans, lists and nothing."""
    actions = actions_by_name(parser)
    assert convert(actions["lr"], "1e-2", "x.yaml") == 0.01
    assert convert(actions["batch_size"], 10, "x.yaml") == 10
    assert convert(actions["joint"], True, "x.yaml") == 1
    assert convert(actions["lr_milestones"], [35, 45], "x.yaml") == "35,45"
    assert convert(actions["lr"], None, "x.yaml") is None


@pytest.mark.parametrize(("name", "value"), [("lr", "fast"), ("batch_size", 1.5), ("eval_classes", "some"), ("joint", 2)])
def test_a_bad_yaml_value_names_file_and_key(parser, name, value):
    """And is a ValueError."""
    with pytest.raises(ValueError, match=f"x.yaml: {name}: "):
        convert(actions_by_name(parser)[name], value, "x.yaml")


def test_yaml_values_outside_the_choices_are_refused(parser):
    """For flags that use argparse's own choices."""
    parser.add_argument("--size", choices=["small", "large"])
    assert convert(actions_by_name(parser)["size"], "small", "x.yaml") == "small"
    with pytest.raises(ValueError, match=r"x.yaml: size: 'huge' is not one of small, large"):
        convert(actions_by_name(parser)["size"], "huge", "x.yaml")
