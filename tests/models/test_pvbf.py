"""PVBF: each equation against numbers worked out by hand, properties, the two modules, and the method in whole runs."""

import io
from math import inf, nan, sqrt

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch import nn
from torch.testing import assert_close

from mammoth.runner import prepare, train_and_close
from mammoth.watch import Tracker
from models import pvbf
from models.pvbf import DIAGNOSTICS, STANDARDIZATIONS, DualLayerCWR, ParameterCorrelation

EXACT = {"rtol": 0.0, "atol": 0.0}
CLOSE = {"rtol": 1e-13, "atol": 1e-13}
changes = hnp.arrays(np.float64, st.integers(2, 30), elements=st.integers(0, 1000).map(lambda n: n / 1000)).map(torch.from_numpy)
bounds = st.tuples(st.integers(1, 20), st.integers(0, 30)).map(lambda ends: (ends[0] / 10, (ends[0] + ends[1]) / 10))


def vector(*values):
    """Return a float64 tensor."""
    return torch.tensor(values, dtype=torch.float64)


def net_of(*sizes):
    """Return a network of one weight matrix (1, n) for each n, all zeros, in float64."""
    net = nn.Sequential(*(nn.Linear(size, 1, bias=False, dtype=torch.float64) for size in sizes))
    for parameter in net.parameters():
        nn.init.zeros_(parameter)
    return net


def task(tracker, net, delta):
    """Let a task change the flat parameters by `delta`."""
    tracker.begin_task(net)
    with torch.no_grad():
        for parameter, piece in zip(net.parameters(), delta.split([p.numel() for p in net.parameters()]), strict=True):
            parameter += piece.view(parameter.shape)
    tracker.end_task(net)


def set_gradients(net, value=1.0):
    """Give every parameter the same gradient everywhere, in the parameter's own memory layout."""
    for parameter in net.parameters():
        parameter.grad = torch.full_like(parameter, value)


def flat_gradients(net):
    """Return all gradients as one vector, in the order of theta."""
    return torch.cat([parameter.grad.reshape(-1) for parameter in net.parameters()])


def head_of(rows, bias=None):
    """Return a float64 linear classifier with these weights (classes, features) and bias."""
    rows = torch.as_tensor(rows, dtype=torch.float64)
    head = nn.Linear(rows.shape[1], rows.shape[0], bias=bias is not None, dtype=torch.float64)
    with torch.no_grad():
        head.weight.copy_(rows)
        if bias is not None:
            head.bias.copy_(torch.as_tensor(bias, dtype=torch.float64))
    return head


# -- section 3.1: variation and its standardisation (eqs. 1-5) ----------------------------------------------------------------


def test_variation_is_the_absolute_change():
    """Eq. 1."""
    assert_close(pvbf.parameter_variation(vector(1, -2, 3), vector(3, -5, 3)), vector(2, 3, 0), **EXACT)


def test_relative_ratio_divides_by_the_mean():
    """Eq. 3: the mean of 1, 2, 6 is 3."""
    assert_close(pvbf.relative_ratio(vector(1, 2, 6)), vector(1 / 3, 2 / 3, 2), **CLOSE)


def test_z_score_uses_the_populations_deviation():
    """Eq. 4: mean 3, squared deviations 4, 1, 9, divided by M = 3 (not by 2)."""
    sigma = sqrt(14 / 3)
    assert_close(pvbf.z_score(vector(1, 2, 6)), vector(-2 / sigma, -1 / sigma, 3 / sigma), **CLOSE)


def test_robust_scale_uses_median_and_quartiles():
    """Eq. 5: of 1, 2, 6 the median is 2 and the quartiles are 1.5 and 4."""
    assert_close(pvbf.robust_scale(vector(6, 1, 2)), vector(1.6, -0.4, 0), **CLOSE)


def test_robust_scale_interpolates_an_even_count():
    """Eq. 5: of 0, 1, 3, 8 the median is 2 and the quartiles are 0.75 and 4.25."""
    assert_close(pvbf.robust_scale(vector(0, 1, 3, 8)), vector(-2 / 3.5, -1 / 3.5, 1 / 3.5, 6 / 3.5), **CLOSE)


@pytest.mark.parametrize("name", STANDARDIZATIONS)
@pytest.mark.parametrize("value", [0.0, 0.25])
def test_equal_changes_give_the_least_correlation(name, value):
    """All changes equal, or all zero: nothing is divided by zero, and C is alpha everywhere."""
    relative = STANDARDIZATIONS[name](torch.full((5,), value, dtype=torch.float64))
    assert torch.isfinite(relative).all()
    assert_close(pvbf.parameter_correlation(relative, 0.5, 2.0), torch.full((5,), 0.5, dtype=torch.float64), **EXACT)


def test_robust_scale_without_spread_between_the_quartiles_keeps_the_order():
    """An IQR of zero with one change apart: that one gets beta, the others alpha."""
    relative = pvbf.robust_scale(vector(1, 1, 1, 1, 1, 1, 1, 4))
    assert_close(pvbf.parameter_correlation(relative, 0.5, 2.0), vector(*[0.5] * 7, 2.0), **EXACT)


# -- section 3.3: correlation (eqs. 7, 8) -------------------------------------------------------------------------------------


def test_correlation_maps_the_range_onto_alpha_and_beta():
    """Eq. 7: 1, 2, 5 are 0, 1/4 and 1 of the range, so 0.5, 0.875 and 2."""
    assert_close(pvbf.parameter_correlation(vector(1, 2, 5), 0.5, 2.0), vector(0.5, 0.875, 2.0), **CLOSE)


@settings(deadline=None, max_examples=50)
@given(changes, bounds, st.sampled_from(sorted(STANDARDIZATIONS)))
def test_correlation_lies_between_its_bounds_and_attains_both(delta, ends, name):
    """C in [alpha, beta]; the least and the largest change get the ends."""
    assume(delta.min() < delta.max())
    correlation = pvbf.parameter_correlation(STANDARDIZATIONS[name](delta), *ends)
    low, high = correlation.aminmax()
    assert low == ends[0]
    assert high.item() == pytest.approx(ends[1], rel=1e-15)
    assert correlation[delta.argmin()] == low
    assert correlation[delta.argmax()] == high


@settings(deadline=None, max_examples=50)
@given(changes, st.integers(1, 100).map(lambda n: n / 10), st.integers(-10, 10))
def test_increasing_affine_maps_of_the_changes_do_not_matter(delta, slope, offset):
    """Under the global min-max RR, ZS, RS and any a * delta + b with a > 0 give one C."""
    assume(delta.min() < delta.max())
    expected = pvbf.parameter_correlation(delta, 0.5, 2.0)
    others = [standardize(delta) for standardize in STANDARDIZATIONS.values()]
    for relative in [*others, slope * delta + offset]:
        assert_close(pvbf.parameter_correlation(relative, 0.5, 2.0), expected, rtol=0, atol=1e-10)


BY_MODULE = {  # changes 1, 2, 6 in one module and 10, 20, 90 in the other, standardised apart, then min-max over all
    "rr": [1 / 3, 2 / 3, 2, 1 / 4, 1 / 2, 9 / 4],
    "zs": [*(d / sqrt(14 / 3) for d in (-2, -1, 3)), *(d / sqrt(3800 / 3) for d in (-30, -20, 50))],
    "rs": [-0.4, 0, 1.6, -0.25, 0, 1.75],
}


@pytest.mark.parametrize("name", STANDARDIZATIONS)
def test_standardisation_by_module(name):
    """Each module's changes are standardised apart (the three give different C), the min-max is over all."""
    net, relative = net_of(3, 3), vector(*BY_MODULE[name])
    tracker = ParameterCorrelation(net, 0.5, 2.0, name, by_module=True)
    task(tracker, net, vector(1, 2, 6, 10, 20, 90))
    expected = (relative - min(BY_MODULE[name])) / (max(BY_MODULE[name]) - min(BY_MODULE[name])) * 1.5 + 0.5
    assert_close(tracker.correlation, expected, **CLOSE)


def test_standardisation_over_all_parameters_is_the_default():
    """Without by_module the same changes are compared over the whole network."""
    net, delta = net_of(3, 3), vector(1, 2, 6, 10, 20, 90)
    tracker = ParameterCorrelation(net)
    task(tracker, net, delta)
    assert_close(tracker.correlation, (delta - 1) / 89 * 1.5 + 0.5, **CLOSE)


def test_modules_weight_and_bias_are_standardised_together():
    """by_module takes a layer's weight and bias as one piece, in the order of theta."""
    net = nn.Sequential(nn.Linear(2, 1, dtype=torch.float64), nn.ReLU(), nn.Linear(1, 1, dtype=torch.float64))
    tracker = ParameterCorrelation(net, 0.5, 2.0, by_module=True)
    task(tracker, net, vector(1, 2, 6, 1, 3))
    assert_close(tracker.correlation, (vector(1 / 3, 2 / 3, 2, 1 / 2, 3 / 2) - 1 / 3) / (5 / 3) * 1.5 + 0.5, **CLOSE)


@settings(deadline=None, max_examples=30)
@given(hnp.arrays(np.float64, (4, 6), elements=st.integers(-1000, 1000).map(lambda n: n / 1000)))
def test_correlation_is_the_maximum_over_the_tasks(steps):
    """Eq. 8: C never falls from task to task, and is the largest C_k so far."""
    net = net_of(4, 2)
    tracker = ParameterCorrelation(net)
    alone = torch.zeros(6, dtype=torch.float64)
    for delta in torch.from_numpy(steps):
        before = tracker.correlation.clone()
        task(tracker, net, delta)
        alone = alone.maximum(pvbf.parameter_correlation(delta.abs(), 0.5, 2.0))
        assert (tracker.correlation >= before).all()
        assert_close(tracker.correlation, alone, rtol=0, atol=1e-11)


# -- section 3.4: Encourage and Consolidate (eq. 9) ---------------------------------------------------------------------------


def test_gradients_are_untouched_in_the_first_task():
    """There is no C before a task has ended."""
    net = net_of(3)
    tracker = ParameterCorrelation(net)
    tracker.begin_task(net)
    set_gradients(net, 3.0)
    tracker.scale_gradients_(net)
    assert_close(flat_gradients(net), vector(3, 3, 3), **EXACT)


def test_gradients_are_divided_by_correlation():
    """Eq. 9, from the second task on; changes 0, 1, 2 give C = 0.5, 1.25, 2."""
    net = net_of(3)
    tracker = ParameterCorrelation(net)
    task(tracker, net, vector(0, 1, 2))
    set_gradients(net, 10.0)
    tracker.scale_gradients_(net)
    assert_close(flat_gradients(net), vector(20, 8, 5), **CLOSE)


def test_gradients_follow_each_new_correlation():
    """The third task divides by the maximum over the first two, not by what the second task used."""
    net = net_of(3)
    tracker = ParameterCorrelation(net)
    for delta in (vector(0, 1, 2), vector(2, 0, 1)):
        task(tracker, net, delta)
        set_gradients(net, 10.0)
        tracker.scale_gradients_(net)
    assert_close(flat_gradients(net), vector(5, 8, 5), **CLOSE)


def test_missing_gradients_are_left_out():
    """A parameter without gradient does not shift the others' C."""
    net = net_of(2, 2)
    tracker = ParameterCorrelation(net)
    task(tracker, net, vector(0, 1, 2, 2))
    set_gradients(net)
    net[0].weight.grad = None
    tracker.scale_gradients_(net)
    assert net[0].weight.grad is None
    assert_close(net[1].weight.grad, vector(0.5, 0.5)[None], **CLOSE)


def test_frozen_parameters_take_no_part():
    """What is not trained has no C: neither its place nor its gradient."""
    net = net_of(2, 2)
    net[0].weight.requires_grad_(False)
    tracker = ParameterCorrelation(net)
    tracker.begin_task(net)
    with torch.no_grad():
        net[1].weight += vector(0, 1)
    tracker.end_task(net)
    assert_close(tracker.correlation, vector(0.5, 2.0), **CLOSE)
    net[1].weight.grad = torch.ones_like(net[1].weight)
    tracker.scale_gradients_(net)
    assert_close(net[1].weight.grad, vector(2.0, 0.5)[None], **CLOSE)


def test_correlation_fits_channels_last_parameters():
    """C goes to the right weight of a convolution whatever the memory layout of parameter and gradient."""
    net = nn.Conv2d(3, 2, 2, bias=False, dtype=torch.float64).to(memory_format=torch.channels_last)
    tracker = ParameterCorrelation(net)
    tracker.begin_task(net)
    with torch.no_grad():
        net.weight += torch.arange(24, dtype=torch.float64).view(2, 3, 2, 2)
    tracker.end_task(net)
    set_gradients(net)
    assert not net.weight.grad.is_contiguous()  # else this test shows nothing
    tracker.scale_gradients_(net)
    expected = 1 / (0.5 + 1.5 * torch.arange(24, dtype=torch.float64).view(2, 3, 2, 2) / 23)
    assert_close(net.weight.grad, expected, **CLOSE, check_stride=False)


def test_uniform_divides_all_by_the_harmonic_mean():
    """The control: C = 0.5, 1.25, 2 has the harmonic mean 1 / 1.1, so the mean gradient is that of eq. 9."""
    net = net_of(3)
    tracker = ParameterCorrelation(net, uniform=True)
    task(tracker, net, vector(0, 1, 2))
    assert_close(tracker.correlation, vector(0.5, 1.25, 2), **CLOSE)
    set_gradients(net, 10.0)
    tracker.scale_gradients_(net)
    assert_close(flat_gradients(net), vector(11, 11, 11), **CLOSE)


def test_running_statistics_are_not_parameters():
    """Batch norm's running mean and variance neither have a C nor change that of others."""
    net = nn.BatchNorm1d(2, dtype=torch.float64)
    tracker = ParameterCorrelation(net)
    tracker.begin_task(net)
    with torch.no_grad():
        net.weight += vector(0, 1)
        net.bias += vector(2, 4)
        net.running_mean += 100
    tracker.end_task(net)
    assert_close(tracker.correlation, vector(0.5, 0.875, 1.25, 2), **CLOSE)


def test_tracker_state_goes_on_in_a_copy_in_the_middle_of_a_task():
    """theta_{k-1} and C are in the state; a copy that has scaled nothing so far divides by C and ends the task alike."""
    net = net_of(3)
    tracker, copy = ParameterCorrelation(net), ParameterCorrelation(net)
    task(tracker, net, vector(0, 1, 2))
    tracker.begin_task(net)
    with torch.no_grad():
        net[0].weight += vector(5, 1, 0)
    set_gradients(net)
    copy.scale_gradients_(net)  # keeps "no C yet", which loading must end
    copy.load_state_dict(tracker.state_dict())
    copy.scale_gradients_(net)
    assert_close(flat_gradients(net), vector(2, 0.8, 0.5), **CLOSE)
    copy.end_task(net)
    assert_close(copy.correlation, vector(2, 1.25, 2), **CLOSE)


@pytest.mark.parametrize(("alpha", "beta"), [(0.0, 1.0), (-1.0, 1.0), (2.0, 1.0), (nan, 1.0), (0.5, nan)])
def test_bounds_of_correlation_are_checked(alpha, beta):
    """Gradients are divided by C, so 0 < alpha <= beta, or a ValueError that names both."""
    with pytest.raises(ValueError, match=rf"alpha={alpha}, beta={beta}"):
        ParameterCorrelation(net_of(2), alpha, beta)


def test_diagnostics_of_a_task():
    """Changes 0, 1, 5: C is 0.5, 0.8, 2, and the mean change is 2."""
    net = net_of(3)
    tracker = ParameterCorrelation(net)
    task(tracker, net, vector(0, 1, 5))
    expected = {"mean_C": 1.1, "mean_1/C": 3.75 / 3, "share_below_mean": 2 / 3, "largest_relative_change": 2.5}
    assert tracker.diagnostics == pytest.approx(expected, rel=1e-13)


# -- section 3.2: asymmetric cross-entropy (eq. 6) ----------------------------------------------------------------------------

LOGITS = [[0.0, 1.0, 2.0, 3.0], [1.0, 1.0, 1.0, 5.0]]


def test_stream_loss_covers_the_classes_of_the_batch():
    """L^in: the softmax is over classes 0 and 2 alone; log(1 + e^2) and log 2."""
    loss = pvbf.asymmetric_cross_entropy(vector(*LOGITS), torch.tensor([0, 2]))
    assert_close(loss, vector((np.log(1 + np.exp(2)) + np.log(2)) / 2)[0], **CLOSE)


def test_replay_loss_covers_the_classes_seen():
    """L^re: the softmax is over the first three classes."""
    loss = pvbf.asymmetric_cross_entropy(vector(*LOGITS), torch.tensor([0, 2]), n_seen=3)
    assert_close(loss, vector((np.log(1 + np.e + np.e**2) + np.log(3)) / 2)[0], **CLOSE)


@pytest.mark.parametrize("n_seen", [None, 3])
def test_loss_leaves_the_other_classes_without_gradient(n_seen):
    """Logits outside a term's classes get a gradient of exactly zero, the others not."""
    logits = vector(*LOGITS).requires_grad_()
    pvbf.asymmetric_cross_entropy(logits, torch.tensor([0, 2]), n_seen).backward()
    covered = [0, 2] if n_seen is None else [0, 1, 2]
    assert [j for j in range(4) if (logits.grad[:, j] != 0).all()] == covered
    assert [j for j in range(4) if (logits.grad[:, j] == 0).all()] == [j for j in range(4) if j not in covered]


# -- section 3.5: D-CWR (eqs. 10-13, Algorithm 2) -----------------------------------------------------------------------------


def test_sensory_memory_is_the_row_less_the_mean_over_the_steps_classes():
    """Eq. 10: S = {0, 2} as a set, mean (2, 3)."""
    rows = vector([1, 2], [9, 9], [3, 4])
    found = pvbf.sensory_memory(rows, torch.tensor([True, False, True]))
    assert_close(found[[0, 2]], vector([-1, -1], [1, 1]), **CLOSE)


def test_sensory_memory_with_a_class_twice_in_s():
    """Eq. 10: S = {0, 2, 2}, mean ((1 + 3 + 3) / 3, (2 + 4 + 4) / 3)."""
    rows = vector([1, 2], [9, 9], [3, 4])
    found = pvbf.sensory_memory(rows, vector(1, 0, 2))
    assert_close(found[[0, 2]], vector([-4 / 3, -4 / 3], [2 / 3, 2 / 3]), **CLOSE)


@settings(deadline=None, max_examples=50)
@given(hnp.arrays(np.int64, (5, 3), elements=st.integers(-100, 100)), hnp.arrays(np.int64, 5, elements=st.integers(0, 3)))
def test_sensory_memories_of_a_step_sum_to_zero(rows, occurrences):
    """Eq. 10: over the distinct classes of the step, or over its images."""
    assume(occurrences.any())
    counts = torch.from_numpy(occurrences).double()
    for members in (counts, (counts > 0).double()):
        found = pvbf.sensory_memory(torch.from_numpy(rows).double(), members)
        assert_close(members @ found, vector(0, 0, 0), rtol=0, atol=1e-11)


def test_retention_coefficients():
    """Eq. 13: P / U and its root; a class that is not in the step keeps everything."""
    short, long = pvbf.retention_coefficients(vector(9, 0, 5, 1), vector(1, 2, 0, 4))
    assert_close(short, vector(9, 0, inf, 0.25), **EXACT)
    assert_close(long, vector(3, 0, inf, 0.5), **EXACT)


def test_consolidation_weighs_the_old_memory_by_eta():
    """Eqs. 11 and 12: eta 0 takes the new, 3 takes a quarter of it, infinite nothing."""
    found = pvbf.consolidate(vector([2, 4], [2, 4], [2, 4]), vector([6, 8], [6, 8], [6, 8]), vector(0, 3, inf))
    assert_close(found, vector([6, 8], [3, 5], [2, 4]), **CLOSE)


def test_three_steps_of_dcwr_by_hand():
    """Algorithm 2 on three classes with one feature, p = 1, worked out in the comments."""
    dcwr = DualLayerCWR(head_of([[0], [0], [0]]), p=1.0, by_image=False)
    dcwr.update(head_of([[1], [3], [8]]), torch.tensor([0, 0, 1]))  # S = {0, 1}, mean 2; first meeting: eta = 0
    assert_close(dcwr.short_term[:, 0], vector(-1, 1, 0), **CLOSE)
    assert_close(dcwr.long_term[:, 0], vector(-1, 1, 0), **CLOSE)
    dcwr.update(head_of([[2], [4], [9]]), torch.tensor([0, 1, 2, 1]))  # mean 5, M^s = -3, -1, 4; P / U = 2, 1/2, 0
    short = -5 / 3, -1 / 3, 4  # (-1 * 2 - 3) / 3, (1 / 2 - 1) / 1.5, 4
    long = (-sqrt(2) - 5 / 3) / (sqrt(2) + 1), (sqrt(0.5) - 1 / 3) / (sqrt(0.5) + 1), 4
    assert_close(dcwr.short_term[:, 0], vector(*short), **CLOSE)
    assert_close(dcwr.long_term[:, 0], vector(*long), **CLOSE)
    dcwr.update(head_of([[0], [6], [6]]), torch.tensor([1, 1, 1]))  # S = {1}: M^s = 0; P / U = 1; classes 0 and 2 stay
    assert_close(dcwr.short_term[:, 0], vector(short[0], -1 / 6, 4), **CLOSE)
    assert_close(dcwr.long_term[:, 0], vector(long[0], (long[1] - 1 / 6) / 2, 4), **CLOSE)
    assert_close(dcwr.occurrences, vector(3, 6, 1), **EXACT)


def test_short_term_memory_is_the_running_mean_for_constant_counts():
    """p = 1 and the same counts U in each step: M^c_j is the mean of all M^s_j so far."""
    labels = torch.tensor([0, 1, 1, 3])
    dcwr, seen = DualLayerCWR(head_of(torch.zeros(4, 2)), p=1.0, by_image=False), []
    for _ in range(7):
        rows = torch.randn(4, 2, dtype=torch.float64)
        dcwr.update(head_of(rows), labels)
        seen.append(rows - rows[[0, 1, 3]].mean(0))
        assert_close(dcwr.short_term[[0, 1, 3]], torch.stack(seen).mean(0)[[0, 1, 3]], **CLOSE)


def test_epsilon_above_p_retains_short_term_memory_only():
    """Eq. 11: each class draws its own epsilon; long-term memory (eq. 12) and P go on either way."""
    draws = torch.rand(2, 4, generator=torch.Generator().manual_seed(3))
    p = float(draws[1].sort().values[1:3].mean())  # two of the four classes are consolidated in the second step
    dcwr, labels = DualLayerCWR(head_of(torch.zeros(4, 1)), p=p, seed=3), torch.arange(4)
    dcwr.short_term.fill_(8.0)
    dcwr.occurrences.fill_(1.0)
    dcwr.generator.manual_seed(3)
    torch.rand(4, generator=dcwr.generator)
    dcwr.update(head_of([[0], [2], [4], [6]]), labels)  # M^s = -3, -1, 1, 3; P / U = 1
    expected = torch.where(draws[1] < p, (8 + vector(-3, -1, 1, 3)) / 2, vector(8, 8, 8, 8))
    assert_close(dcwr.short_term[:, 0], expected, **CLOSE)
    assert_close(dcwr.long_term[:, 0], expected / 2, **CLOSE)
    assert_close(dcwr.occurrences, vector(2, 2, 2, 2), **EXACT)


def test_p_of_zero_is_not_off():
    """With p = 0 nothing ever enters short-term memory: the rows that predict stay zero, only P counts."""
    head = head_of([[1], [2], [3]], [1, 1, 1])
    dcwr = DualLayerCWR(head, p=0.0)
    dcwr.update(head, torch.tensor([0, 1, 1]))
    assert not dcwr.short_term.any()
    assert not dcwr.long_term.any()
    assert_close(dcwr.occurrences, vector(1, 2, 0), **EXACT)
    assert_close(dcwr.predict(head, vector([5.0])), vector([0, 0, 0]), **EXACT)


def test_write_back_zeroes_the_rows_of_classes_never_met():
    """Algorithm 2's last line takes all of M^l; class 2 has none."""
    head = head_of([[1, 5], [3, 5], [8, 5]], [2, 4, 7])
    dcwr = DualLayerCWR(head, p=1.0)
    dcwr.update(head, torch.tensor([0, 1]))
    dcwr.write_back(head)
    assert_close(head.weight.data, vector([-1, 0], [1, 0], [0, 0]), **CLOSE)
    assert_close(head.bias.data, vector(-1, 1, 0), **CLOSE)


def test_update_leaves_the_head_as_it_is():
    """Only write_back changes the classifier."""
    head = head_of([[1], [3]], [2, 4])
    DualLayerCWR(head, p=1.0).update(head, torch.tensor([0, 1]))
    assert_close(head.weight.data, vector([1], [3]), **EXACT)
    assert_close(head.bias.data, vector(2, 4), **EXACT)


def test_prediction_is_the_heads_before_the_first_update():
    """There is no long-term memory yet."""
    head = head_of([[1, 2], [3, 4]], [5, 6])
    assert_close(DualLayerCWR(head).predict(head, vector([1, 10])), vector([26, 49]), **EXACT)


def test_prediction_is_long_term_memorys_afterwards():
    """Weights and bias are M^l: rows (-1, -1 | -1) and (1, 1 | 1)."""
    head = head_of([[1, 2], [3, 4]], [5, 7])
    dcwr = DualLayerCWR(head, p=1.0)
    dcwr.update(head, torch.tensor([0, 1]))
    assert_close(dcwr.predict(head, vector([1, 10])), vector([-12, 12]), **CLOSE)


def test_without_bias_the_head_keeps_its_own():
    """bias=False: M^l has the weights only, the bias neither predicts nor is written."""
    head = head_of([[1, 2], [3, 4]], [5, 7])
    dcwr = DualLayerCWR(head, p=1.0, bias=False)
    dcwr.update(head, torch.tensor([0, 1]))
    assert dcwr.long_term.shape == (2, 2)
    assert_close(dcwr.predict(head, vector([1, 10])), vector([-6, 18]), **CLOSE)
    dcwr.write_back(head)
    assert_close(head.weight.data, vector([-1, -1], [1, 1]), **CLOSE)
    assert_close(head.bias.data, vector(5, 7), **EXACT)


def test_head_without_bias_is_allowed():
    """bias=True asks for nothing that the head does not have."""
    head = head_of([[1], [3]])
    dcwr = DualLayerCWR(head, p=1.0)
    dcwr.update(head, torch.tensor([0, 1]))
    dcwr.write_back(head)
    assert_close(dcwr.predict(head, vector([2])), vector([-2, 2]), **CLOSE)
    assert_close(head.weight.data, vector([-1], [1]), **CLOSE)


def test_dcwr_state_carries_the_draws_of_epsilon():
    """A copy loaded from a saved state goes on identically; with its own seed it would not."""
    head, labels = head_of(torch.arange(8.0)[:, None]), torch.arange(8)
    dcwr, copy = DualLayerCWR(head, p=0.5, seed=1), DualLayerCWR(head, p=0.5, seed=2)
    for module in (dcwr, copy):
        module.update(head, labels)
    assert not torch.equal(dcwr.short_term, copy.short_term)
    saved = io.BytesIO()
    torch.save(dcwr.state_dict(), saved)
    saved.seek(0)
    copy.load_state_dict(torch.load(saved, weights_only=True))
    for module in (dcwr, copy):
        for _ in range(3):
            module.update(head, labels)
    for name in ("short_term", "long_term", "occurrences"):
        assert_close(getattr(copy, name), getattr(dcwr, name), **EXACT)


@pytest.mark.parametrize("p", [-0.1, 1.1, nan])
def test_p_is_a_probability(p):
    """Else a ValueError that says what was given."""
    with pytest.raises(ValueError, match=rf"from 0 to 1, not {p}"):
        DualLayerCWR(head_of([[1]]), p=p)


# -- the method in whole runs -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runs():
    """The runs done so far, by their words."""
    return {}


@pytest.fixture
def trained(resolve, runs):
    """Return a function that does a run on the digits (once, unless `again`) and returns the trained method and its record."""

    def done(*words, tasks=2, model="pvbf", again=False):
        words = ("--model", model, "--dataset", "seq-digits", "--stop_after", str(tasks), *words)
        if again or words not in runs:
            args = resolve(*words)
            parts, record = prepare(args, list(words))
            train_and_close(parts, args, record, Tracker(args))
            runs[words] = parts.model, record.content
        return runs[words]

    return done


def weights(method):
    """Return the network's state as one vector."""
    return torch.cat([value.double().reshape(-1) for value in method.net.state_dict().values()])


def same(one, other):
    """Whether two runs ended in the same weights and made the same predictions, bit for bit."""
    return torch.equal(weights(one[0]), weights(other[0])) and one[1]["confusion"] == other[1]["confusion"]


OFF = ("--dcwr", "0", "--pvbf_alpha", "1", "--pvbf_beta", "1")


def test_without_its_parts_it_is_er_ace(trained):
    """alpha = beta = 1 divides by 1, D-CWR off: ER-ACE bit for bit, over all five tasks."""
    assert same(trained(*OFF, tasks=5), trained(tasks=5, model="er_ace"))


def test_without_its_parts_it_is_er_ace_offline(trained):
    """The same over several epochs a task."""
    offline = ("--dataset_config", "offline", "--n_epochs", "2", "--lr", "0.03")
    assert same(trained(*OFF, *offline), trained(*offline, model="er_ace"))


def test_no_ec_is_alpha_and_beta_of_one(trained):
    """--ec 0 is the same as dividing by 1."""
    assert same(trained(*OFF), trained("--ec", "0", "--dcwr", "0"))


def test_without_ace_it_is_er(trained):
    """--ace 0, the other parts off too: plain experience replay from the whole memory, bit for bit."""
    assert same(trained(*OFF, "--ace", "0"), trained("--replay_current", "1", model="er"))


def test_same_seed_repeats_bit_for_bit(trained):
    """Weights and predictions; another seed gives others."""
    first = trained()
    assert same(first, trained(again=True))
    assert not same(first, trained("--seed", "1"))


def test_predicting_with_long_term_memory_leaves_training_alone(trained):
    """--dcwr_apply predict: the trained weights are those without D-CWR, the predictions are not."""
    (with_dcwr, its_record), (without, other_record) = trained("--dcwr", "1"), trained("--dcwr", "0")
    assert torch.equal(weights(with_dcwr), weights(without))
    assert its_record["confusion"] != other_record["confusion"]


@pytest.mark.parametrize("apply", ["step", "task"])
def test_long_term_memory_is_written_into_the_head(trained, apply):
    """--dcwr_apply step|task: after a task the head is M^l, bias included; the rows of classes to come are zero."""
    method, _ = trained("--dcwr_apply", apply)
    head, memory = method.net.classifier, method.dcwr.long_term
    assert_close(torch.cat([head.weight.data, head.bias.data[:, None]], 1), memory, **EXACT)
    assert memory[:4].any(dim=1).all()
    assert not memory[4:].any()


def test_step_and_task_are_different_methods(trained):
    """Written back at each step or once a task, the network ends elsewhere, and elsewhere than without."""
    step, per_task, predict = (weights(trained("--dcwr_apply", apply)[0]) for apply in ("step", "task", "predict"))
    assert not torch.equal(step, per_task)
    assert not torch.equal(step, predict)
    assert not torch.equal(per_task, predict)


def test_every_image_trained_on_is_counted(trained):
    """P counts stream and replay together: 10 images a step from the stream, and from task 2 on as many replayed."""
    method, record = trained("--drop_last", "1")
    second = method.task_iteration
    first = record["provenance"]["steps"] - second
    assert int(method.dcwr.occurrences.sum()) == 10 * first + 20 * second


def test_diagnostics_are_recorded_after_each_task(trained):
    """The record has the four measures of each task; the last are those of the C that the method ends with."""
    method, record = trained(tasks=3)
    correlation = method.correlation.correlation.double()
    assert [set(stage) for stage in record["diagnostics"]] == [set(DIAGNOSTICS)] * 3
    assert record["diagnostics"][-1]["mean_C"] == pytest.approx(float(correlation.mean()), rel=1e-6)
    assert record["diagnostics"][-1]["mean_1/C"] == pytest.approx(float((1 / correlation).mean()), rel=1e-6)
    assert record["diagnostics"][0]["mean_C"] < record["diagnostics"][1]["mean_C"] < record["diagnostics"][2]["mean_C"]


def test_it_learns(trained):
    """On all five tasks at least 75 % of the digits are right at the end (about 85; without a memory 20)."""
    _, record = trained(tasks=5)
    assert np.mean(record["class_il"][-1]) >= 75


@pytest.mark.parametrize(
    "flags",
    [
        "--pvbf_alpha 0.9",
        "--pvbf_beta 4",
        "--pvbf_p 0.1",
        "--standardization_scope layer",
        "--ec 0",
        "--ec mean",
        "--ace 0",
        "--dcwr 0",
        "--dcwr_bias 0",
        "--dcwr_mean classes",
        "--dcwr_apply step",
        "--dcwr_apply task",
    ],
)
def test_each_flag_changes_the_run(trained, flags):
    """Each switch ends in other weights or other predictions than the default."""
    assert not same(trained(*flags.split()), trained())


@pytest.mark.parametrize("name", ["zs", "rs"])
def test_standardisation_matters_by_layer(trained, name):
    """Standardised layer by layer, ZS and RS train other weights than RR."""
    by_layer = ("--standardization_scope", "layer")
    assert not same(trained("--standardization", name, *by_layer), trained("--standardization", "rr", *by_layer))


@pytest.mark.parametrize("flag", ["--pvbf_alpha 0", "--pvbf_alpha 3", "--pvbf_p 2"])
def test_values_out_of_range_are_refused(resolve, flag):
    """A run with impossible hyper-parameters stops before it trains, and says why."""
    args = resolve("--model", "pvbf", "--dataset", "seq-digits", *flag.split())
    with pytest.raises(ValueError, match=r"PVBF needs 0 < alpha <= beta|D-CWR's p is a probability"):
        prepare(args, [])
