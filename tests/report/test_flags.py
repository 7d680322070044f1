"""The table of methods and flags: its values are the parsers' and the YAML files', and nothing is left out."""

import re
from argparse import ArgumentParser

import pytest

import models
from mammoth.report import documents, flags
from utils.args import actions_by_name
from utils.yaml_files import ROOT

PAGE = ROOT / "docs" / "methods" / "README.md"
METHODS = sorted(models.get_model_names())


def rows(method):
    """Return a method's lines of the second table by flag: online, offline, published."""
    name = models.get_model_class(method).NAME
    found = re.findall(rf"^\| {name} \| `--(\w+)` \| (.*?) \| (.*?) \| (.*?) \|", flags.markdown(), re.MULTILINE)
    return {flag: values for flag, *values in found}


@pytest.mark.parametrize(
    ("method", "flag", "values"),
    [
        ("derpp", "alpha", ["0.1", "0.1", "0.1 / 0.2 / 0.1"]),  # one published value for each memory size
        ("derpp", "lr", ["0.1", "0.03", "0.03"]),  # the same for all
        ("icarl", "icarl_mode", ["online", "offline", "–"]),
        ("gss", "replay_forward", ["separate", "joint", "–"]),
        ("gdumb", "minibatch_size", ["16", "16", "–"]),  # of the memory's flags, what the file sets
        ("sgd", "lr", ["0.1", "0.1", "–"]),
    ],
)
def test_values_are_those_of_both_protocols_and_the_published_ones(method, flag, values):
    """Online and offline defaults on seq-cifar10, then `--model_config best`."""
    assert rows(method)[flag] == values


@pytest.mark.parametrize("method", METHODS)
def test_every_flag_of_every_method_has_a_row(method):
    """All that its parser declares but the memory's, which all methods share."""
    parser = ArgumentParser()
    models.get_model_class(method).get_parser(parser)
    assert set(actions_by_name(parser)) - set(rows(method)) <= {"buffer_size", "buffer_per_class", "minibatch_size"}


def test_every_method_has_a_page():
    """Each link of the first table leads to a file."""
    links = re.findall(r"^\| \[`\w+`\]\((.*?)\)", flags.markdown(), re.MULTILINE)
    assert len(links) == len(METHODS)
    assert all((PAGE.parent / link).is_file() for link in links)


def test_a_value_changed_by_hand_is_noticed():
    """The document says what the files say, whatever was typed."""
    text = PAGE.read_text(encoding="utf-8")
    tampered = text.replace("0.1 / 0.2 / 0.1", "0.1 / 0.3 / 0.1")
    assert documents.refreshed(tampered) == text != tampered
