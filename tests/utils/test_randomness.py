"""Named generators: independent of each other, the same at every start, and restorable."""

import random
from itertools import combinations, permutations
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from utils import conf, randomness
from utils.randomness import Randomness, derive_seed, distinct_indices

NAMES = ("initialisation", "class_order", "stream_order/0", "augmentation", "reservoir", "replay")


def draws(generator, count=5):
    """Return a few numbers from a generator."""
    return torch.rand(count, generator=generator).tolist()


@pytest.mark.parametrize(("seed", "name", "expected"), [(0, "reservoir", 6825453311786230697), (7, "replay", 1570221931991013575)])
def test_seeds_never_change(seed, name, expected):
    """Two pinned values: a change would silently unpair every stored record."""
    assert derive_seed(seed, name) == expected


@given(seed=st.integers(0, 2**31 - 1), name=st.text(max_size=20))
@settings(deadline=None, max_examples=100)
def test_seeds_fit_every_generator(seed, name):
    """63 bits, not negative."""
    assert 0 <= derive_seed(seed, name) < 2**63


def test_seeds_of_all_purposes_differ():
    """Over 200 runs and all purposes no two seeds agree."""
    seeds = [derive_seed(seed, name) for seed in range(200) for name in NAMES]
    assert len(set(seeds)) == len(seeds)


@pytest.mark.parametrize(("one", "other"), list(combinations(NAMES, 2)))
def test_drawing_from_one_generator_does_not_shift_another(one, other):
    """Whatever `one` has drawn before, `other` gives the same."""
    randomness.start(4)
    expected = draws(randomness.generator(other))
    randomness.start(4)
    draws(randomness.generator(one), 1000)
    assert draws(randomness.generator(other)) == expected
    assert draws(randomness.generator(one)) != expected


def test_named_draws_leave_the_global_generators_alone():
    """A method that draws globally is not shifted by replay."""
    before = (torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate())
    draws(randomness.generator("replay"))
    draws(randomness.fresh("class_order"))
    assert torch.equal(before[0], torch.get_rng_state())
    assert np.array_equal(before[1], np.random.get_state()[1])
    assert before[2] == random.getstate()


def test_global_draws_leave_the_named_generators_alone():
    """A method's own draws do not shift replay."""
    expected = draws(Randomness(0).generator("replay"))
    torch.rand(100)
    assert draws(randomness.generator("replay")) == expected


def test_start_repeats_everything():
    """Global and named draws of two runs with one seed agree; another seed differs."""

    def everything(seed):
        randomness.start(seed)
        return torch.rand(3).tolist(), np.random.rand(3).tolist(), random.random(), draws(randomness.generator("replay"))

    assert everything(5) == everything(5)
    assert all(one != other for one, other in zip(everything(5), everything(6), strict=True))


def test_a_purpose_has_one_generator():
    """The same object at each call, so draws go on."""
    assert randomness.generator("replay") is randomness.generator("replay")
    assert draws(randomness.generator("replay")) != draws(randomness.generator("replay"))


def test_a_fresh_generator_starts_at_the_beginning():
    """Whoever asks again gets the same draws, and they are the purpose's first."""
    expected = draws(randomness.fresh("stream_order/3"))
    draws(randomness.generator("stream_order/3"))
    assert draws(randomness.fresh("stream_order/3")) == expected == draws(Randomness(0).generator("stream_order/3"))


def test_initialisation_leaves_the_global_generator_untouched():
    """Weights come from their own generator, however many are drawn."""
    before = torch.get_rng_state()
    with randomness.initialisation():
        torch.rand(1000)
    assert torch.equal(torch.get_rng_state(), before)


def test_initialisation_leaves_the_global_generator_untouched_after_an_error():
    """Also when the network cannot be built."""
    before = torch.get_rng_state()

    def failing():
        with randomness.initialisation():
            torch.rand(1)
            raise KeyError

    with pytest.raises(KeyError):
        failing()
    assert torch.equal(torch.get_rng_state(), before)


def test_initialisation_does_not_depend_on_earlier_draws():
    """The same weights wherever the run stands; others for another seed."""

    def weights(seed, before):
        randomness.start(seed)
        torch.rand(before)
        with randomness.initialisation():
            return torch.nn.Linear(3, 2).weight

    assert torch.equal(weights(1, 0), weights(1, 99))
    assert not torch.equal(weights(1, 0), weights(2, 0))


@given(population=st.integers(0, 300), size=st.integers(0, 300), seed=st.integers(0, 2**31))
@settings(deadline=None, max_examples=150)
def test_distinct_indices_are_distinct_and_in_range(population, size, seed):
    """min(size, population) different int64 numbers below the population."""
    found = distinct_indices(population, size, torch.Generator().manual_seed(seed))
    assert found.dtype == torch.int64
    assert len(set(found.tolist())) == len(found) == min(size, population)
    assert all(0 <= index < population for index in found.tolist())


@pytest.mark.parametrize("population", [1, 2, 7])
@pytest.mark.parametrize("beyond", [0, 1, 100])
def test_asking_for_all_indices_gives_all(population, beyond):
    """Complete, in some order."""
    found = distinct_indices(population, population + beyond, torch.Generator().manual_seed(0))
    assert sorted(found.tolist()) == list(range(population))


@pytest.mark.parametrize(("population", "size"), [(5, 2), (4, 3)])
def test_every_ordered_choice_is_equally_likely(population, size):
    """Chi-square over all ordered choices; (5, 2) goes through rejection, (4, 3) through a permutation."""
    generator = torch.Generator().manual_seed(2)
    counts = dict.fromkeys(permutations(range(population), size), 0)
    for _ in range(200 * len(counts)):
        counts[tuple(distinct_indices(population, size, generator).tolist())] += 1
    assert stats.chisquare(list(counts.values())).pvalue > 1e-4


def test_state_round_trip_goes_on_where_it_stood():
    """Every generator, those made after the state was taken included."""
    run = Randomness(9)
    for name in NAMES[:3]:
        draws(run.generator(name))
    state = run.state_dict()
    expected = [draws(run.generator(name)) for name in NAMES]
    other = Randomness(9)
    draws(other.generator(NAMES[0]), 77)
    other.load_state_dict(state)
    assert [draws(other.generator(name)) for name in NAMES] == expected


def test_state_survives_names_with_an_at_sign():
    """The key is split at its last @."""
    run = Randomness(9)
    draws(run.generator("a@b"))
    state = run.state_dict()
    expected = draws(run.generator("a@b"))
    other = Randomness(1)
    other.load_state_dict(state)
    assert draws(other.generator("a@b")) == expected


def test_what_was_drawn_on_one_gpu_goes_on_on_the_device_at_hand():
    """A state's device is the earlier run's; which one of that kind this run has is said when it is put back."""
    run = Randomness(9)
    state = {"a@cuda:1": run.generator("a").get_state()}
    other = Randomness(1)
    other.load_state_dict(state, device="cpu")
    assert draws(other.generator("a")) == draws(run.generator("a"))


def test_a_device_is_named_as_its_tensors_name_it(monkeypatch):
    """`cuda` is `cuda:0`: generators are kept by the device that images say they are on, and found again by a run's."""
    on_gpu = SimpleNamespace(device=torch.device("cuda:0"))
    monkeypatch.setattr(torch, "empty", lambda *size, device: on_gpu)
    assert str(conf.get_device("cuda")) == "cuda:0"


def test_outside_a_run_the_generators_still_work(monkeypatch):
    """A seed from the operating system, kept for the process."""
    monkeypatch.setattr(randomness, "_current", None)
    assert randomness.current() is randomness.current()
    assert len(draws(randomness.generator("replay"))) == 5
