"""The replay memory: what goes in comes out, which rows stay, which are drawn."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from utils import randomness
from utils.augmentations import BatchTransform
from utils.buffer import Buffer, reservoir_slots


def pixels(count, height=4, width=5, channels=3, seed=0):
    """Return random 8-bit images, channels first."""
    return torch.randint(256, (count, channels, height, width), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


def to_tensor(images):
    """Return what torchvision's ToTensor makes of 8-bit images."""
    return images.to(torch.float32).div(255)


def eight_bit_buffer(size):
    """Return a memory that may keep 8-bit images."""
    buffer = Buffer(size)
    buffer.eight_bit = True
    return buffer


def numbered(first, past_last):
    """Return rows whose content is their number in the stream."""
    return torch.arange(first, past_last, dtype=torch.float32)[:, None]


def filled(size, stream):
    """Return a memory that has seen a stream of numbered rows."""
    buffer = Buffer(size)
    buffer.add_data(numbered(0, stream), labels=torch.arange(stream))
    return buffer


# -- what is stored ----------------------------------------------------------------------------------------------------


def test_every_8_bit_value_comes_back_bit_for_bit():
    """All 256 values: kept as uint8, handed out as the very floats of ToTensor."""
    images = to_tensor(torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16))
    buffer = eight_bit_buffer(1)
    buffer.add_data(images)
    assert buffer._rows["examples"].dtype == torch.uint8
    found = buffer.get_data(1)[0]
    assert found.dtype == torch.float32
    assert torch.equal(found, images)


@pytest.mark.parametrize("way", ["get_data", "get_all_data", "get_data_by_index", "attribute", "item"])
def test_colour_images_come_back_in_their_layout(way):
    """Height, width and channels differ, so a mixed-up axis shows; every way out gives the same floats."""
    images = to_tensor(pixels(6))
    buffer = eight_bit_buffer(6)
    buffer.add_data(images, labels=torch.arange(6))
    ways = {
        "get_data": lambda: buffer.get_data(6, force_indexes=torch.arange(6))[0],
        "get_all_data": lambda: buffer.get_all_data()[0],
        "get_data_by_index": lambda: buffer.get_data_by_index(torch.arange(6))[0],
        "attribute": lambda: buffer.examples,
        "item": lambda: torch.stack([row[0] for row in buffer]),
    }
    assert torch.equal(ways[way](), images)


def test_8_bit_memory_takes_a_quarter_of_the_bytes():
    """One byte a value."""
    buffer = eight_bit_buffer(10)
    buffer.add_data(to_tensor(pixels(10)))
    assert buffer._rows["examples"].nbytes == 10 * 4 * 5 * 3


def test_floats_that_are_no_8_bit_values_are_kept_as_they_are():
    """Half a step between two 8-bit values survives."""
    images = to_tensor(pixels(3)) + 0.5 / 255
    buffer = eight_bit_buffer(3)
    buffer.add_data(images)
    assert torch.equal(buffer.get_all_data()[0], images)


def test_values_outside_0_1_are_kept_as_they_are():
    """Normalised images are not clamped."""
    images = torch.tensor([-1.0, 0.0, 1.0, 2.0]).view(4, 1, 1, 1)
    buffer = eight_bit_buffer(4)
    buffer.add_data(images)
    assert torch.equal(buffer.get_all_data()[0], images)


def test_fall_back_to_floats_keeps_what_was_stored():
    """The first batch is 8-bit, the second is not: both come back exactly."""
    first, second = to_tensor(pixels(3)), torch.rand(3, 3, 4, 5)
    buffer = eight_bit_buffer(6)
    buffer.add_data(first)
    buffer.add_data(second)
    assert torch.equal(buffer.get_all_data()[0], torch.cat([first, second]))


def test_8_bit_images_after_the_fall_back_come_back_exactly():
    """Once floats are stored, later 8-bit images join them as floats."""
    first, second, third = to_tensor(pixels(2)), torch.rand(2, 3, 4, 5), to_tensor(pixels(2, seed=1))
    buffer = eight_bit_buffer(6)
    for batch in (first, second, third):
        buffer.add_data(batch)
    assert torch.equal(buffer.get_all_data()[0], torch.cat([first, second, third]))


def test_declaring_8_bit_again_after_the_fall_back_harms_nothing():
    """`meta_begin_task` sets `eight_bit` at each task; a memory that holds floats by then goes on with floats."""
    first, second = torch.rand(2, 3, 4, 4), to_tensor(pixels(2, 4, 4))
    buffer = eight_bit_buffer(4)
    buffer.add_data(first)
    buffer.eight_bit = True
    buffer.add_data(second)
    assert torch.equal(buffer.get_all_data()[0], torch.cat([first, second]))


def test_values_that_look_like_a_square_image_do_not_get_mixed_up():
    """Height = width = channels: a mistaken axis would raise no error, so the values are compared."""
    first, second = torch.rand(2, 3, 3, 3), to_tensor(pixels(2, 3, 3))
    buffer = eight_bit_buffer(4)
    buffer.add_data(first)
    buffer.eight_bit = True
    buffer.add_data(second)
    assert torch.equal(buffer.get_all_data()[0], torch.cat([first, second]))


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("labels", torch.int64), ("task_labels", torch.int64), ("true_labels", torch.int64), ("logits", torch.float32)],
)
def test_columns_have_mammoths_dtypes(name, dtype):
    """Names that end in `els` are int64, the rest float32, whatever comes in."""
    buffer = Buffer(2)
    buffer.add_data(numbered(0, 2).double(), **{name: torch.tensor([1, 2], dtype=torch.int32)})
    assert getattr(buffer, name).dtype == dtype
    assert buffer.examples.dtype == torch.float32


def test_columns_have_a_row_for_each_slot():
    """Tensors are allocated whole at the first insert; `len` counts the valid rows."""
    buffer = filled(10, 3)
    assert len(buffer.examples) == 10
    assert len(buffer) == 3


def test_stored_rows_are_copies():
    """Changing the batch afterwards does not change the memory; no graph is kept."""
    logits = torch.ones(2, 3, requires_grad=True)
    examples = numbered(0, 2)
    buffer = Buffer(2)
    buffer.add_data(examples, logits=logits * 2)
    examples.fill_(-1)
    assert buffer.examples[:, 0].tolist() == [0, 1]
    assert not buffer.logits.requires_grad


def test_writing_into_a_column_changes_the_memory():
    """X-DER writes `buffer.logits[index] = ...`."""
    buffer = Buffer(2)
    buffer.add_data(numbered(0, 2), logits=torch.zeros(2, 3))
    buffer.logits[1] = 7.0
    assert buffer.get_data_by_index(torch.tensor([1]))[1].tolist() == [[7.0, 7.0, 7.0]]


def test_length_and_fullness():
    """len = min(seen, size)."""
    buffer = Buffer(3)
    states = []
    for number in range(5):
        states.append((len(buffer), buffer.is_empty(), buffer.is_full(), buffer.num_seen_examples))
        buffer.add_data(numbered(number, number + 1))
    assert states == [(0, True, False, 0), (1, False, False, 1), (2, False, False, 2), (3, False, True, 3), (3, False, True, 4)]


def test_empty_forgets_everything():
    """Rows, counter and past rows go."""
    buffer = filled(4, 9)
    buffer.mark_past()
    buffer.empty()
    assert (len(buffer), buffer.num_seen_examples, buffer.num_past, buffer.used_attributes) == (0, 0, 0, [])
    with pytest.raises(AttributeError, match="empty"):
        buffer.get_data(1)


def test_absent_column_is_an_attribute_error_that_lists_what_there_is():
    """`buffer.logits` without logits."""
    with pytest.raises(AttributeError, match=r"logits.*examples, labels"):
        _ = filled(2, 2).logits


@pytest.mark.parametrize("size", [0, -1])
def test_a_memory_without_rows_is_refused(size):
    """The message names the size."""
    with pytest.raises(ValueError, match=f"at least 1, not {size}"):
        Buffer(size)


def test_unknown_strategy_is_refused():
    """The message names those allowed."""
    with pytest.raises(ValueError, match="'ring'; allowed: reservoir, unlimited"):
        Buffer(1, sample_selection_strategy="ring")


# -- what is handed out ------------------------------------------------------------------------------------------------


def test_columns_come_in_the_fixed_order_however_they_were_given():
    """examples, labels, logits, task_labels, true_labels."""
    buffer = Buffer(2)
    one = torch.ones(2, dtype=torch.int64)
    buffer.add_data(true_labels=5 * one, task_labels=4 * one, logits=3.0 * one, labels=2 * one, examples=1.0 * one)
    assert [column[0].item() for column in buffer.get_data(2)] == [1, 2, 3, 4, 5]
    assert buffer.used_attributes == ["examples", "labels", "logits", "task_labels", "true_labels"]


def test_a_column_that_comes_later_takes_its_place_in_the_order():
    """Labels that are first given with the second batch still come before the logits."""
    buffer = Buffer(4)
    buffer.add_data(numbered(0, 2), logits=torch.zeros(2))
    buffer.add_data(numbered(2, 4), labels=torch.ones(2, dtype=torch.int64), logits=torch.ones(2))
    _, labels, logits = buffer.get_all_data()
    assert (labels.dtype, logits.dtype) == (torch.int64, torch.float32)
    assert labels[2:].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("given_names", "parts"),
    [(("labels",), 2), (("logits",), 2), (("labels", "logits"), 3), (("labels", "logits", "task_labels"), 4)],
)
def test_number_of_parts_is_mammoths(given_names, parts):
    """ER unpacks 2, DER 2, DER++ 3, X-DER 4 and the index."""
    buffer = Buffer(2)
    buffer.add_data(numbered(0, 2), **{name: torch.zeros(2) for name in given_names})
    assert len(buffer.get_data(2)) == parts
    assert len(buffer.get_data(2, return_index=True)) == parts + 1


def test_the_index_comes_first_and_names_the_rows():
    """Row `index[i]` of the memory is entry i of what is returned."""
    index, examples, labels = filled(20, 20).get_data(7, return_index=True)
    assert index.dtype == torch.int64
    assert examples[:, 0].tolist() == index.tolist() == labels.tolist()


def test_plain_examples_come_before_the_augmented_ones():
    """`return_not_aug`: index, plain, augmented, labels; of the same rows."""
    found = filled(9, 9).get_data(5, transform=lambda x: -x, return_index=True, return_not_aug=True)
    index, plain, augmented, labels = found
    assert plain[:, 0].tolist() == index.tolist() == labels.tolist()
    assert torch.equal(augmented, -plain)


def test_plain_examples_take_a_transform_of_their_own():
    """`not_aug_transform`."""
    plain, augmented, _ = filled(9, 9).get_data(
        5, transform=lambda x: 2 * x, return_not_aug=True, not_aug_transform=lambda x: 3 * x
    )
    assert torch.equal(3 * augmented, 2 * plain)


def test_a_batch_transform_gets_the_whole_batch():
    """Normalisation of 8-bit rows gives what it gives on the floats."""
    images = to_tensor(pixels(4))
    buffer = eight_bit_buffer(4)
    buffer.add_data(images)
    transform = BatchTransform([{"Normalize": {"mean": [0.1, 0.2, 0.3], "std": [0.4, 0.5, 0.6]}}])
    assert torch.equal(buffer.get_all_data(transform)[0], transform(images))


@given(seed=st.integers(0, 2**31), stored=st.integers(1, 40), wanted=st.integers(0, 60))
@settings(deadline=None, max_examples=60)
def test_draws_are_without_replacement_and_of_valid_rows(seed, stored, wanted):
    """min(wanted, stored) distinct rows, none from the slots still empty."""
    randomness.start(seed)
    index = filled(50, stored).get_data(wanted, return_index=True)[0].tolist()
    assert len(index) == len(set(index)) == min(wanted, stored)
    assert set(index) <= set(range(stored))


def test_each_row_is_drawn_equally_often():
    """Chi-square over 3,000 draws of 3 out of 10."""
    buffer = filled(10, 10)
    counts = torch.zeros(10)
    for _ in range(3000):
        counts[buffer.get_data(3, return_index=True)[0]] += 1
    # rows of one draw exclude each other, which makes the counts' spread smaller by (10 - 3) / (10 - 1): scale it back
    statistic = float(((counts - 900) ** 2 / 900).sum()) * 9 / 7
    assert stats.chi2.sf(statistic, 9) > 1e-4


@pytest.mark.parametrize("wanted", [5, 6, 1000])
def test_asking_for_more_than_there_is_gives_every_row_once(wanted):
    """All rows."""
    assert sorted(filled(8, 5).get_data(wanted)[1].tolist()) == [0, 1, 2, 3, 4]


def test_drawing_from_an_empty_memory_is_an_attribute_error():
    """As upstream."""
    with pytest.raises(AttributeError, match="empty"):
        Buffer(5).get_data(1)


def test_forced_indexes_are_taken_as_they_are():
    """Order and repetition included; nothing is drawn."""
    buffer = filled(5, 5)
    before = randomness.generator("replay").get_state()
    assert buffer.get_data(1, force_indexes=torch.tensor([3, 0, 3]))[1].tolist() == [3, 0, 3]
    assert torch.equal(randomness.generator("replay").get_state(), before)


def test_a_masked_task_is_never_drawn():
    """Labels 2 and 3 are task 1 at two classes a task; all others come when all are asked for."""
    buffer = Buffer(12)
    labels = torch.arange(12) % 6
    buffer.add_data(numbered(0, 12), labels=labels)
    index, _, found = buffer.get_data(50, return_index=True, mask_task_out=1, cpt=2)
    assert sorted(index.tolist()) == [slot for slot in range(12) if labels[slot] not in (2, 3)]
    assert torch.equal(found, labels[index])
    for _ in range(20):
        assert not set(buffer.get_data(3, mask_task_out=1, cpt=2)[1].tolist()) & {2, 3}


def test_masking_ignores_slots_still_empty():
    """Empty slots have label 0, which belongs to no masked task."""
    buffer = Buffer(10)
    buffer.add_data(numbered(0, 4), labels=torch.tensor([0, 1, 2, 3]))
    assert sorted(buffer.get_data(50, return_index=True, mask_task_out=1, cpt=2)[0].tolist()) == [0, 1]


def test_masking_needs_the_number_of_classes():
    """A ValueError that names cpt."""
    with pytest.raises(ValueError, match="cpt"):
        filled(2, 2).get_data(1, mask_task_out=0)


def test_item_is_one_row():
    """`buffer[i]` has no batch axis."""
    example, label = filled(5, 5)[3]
    assert (example.tolist(), label.item()) == ([3.0], 3)


# -- the reservoir -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 4, 12])
def test_each_row_of_the_stream_is_kept_with_the_same_probability(batch):
    """Chi-square over 3,000 memories of 3 rows that saw 12, in batches of any size."""
    generator = torch.Generator().manual_seed(batch)
    counts = np.zeros(12)
    trials = 3000
    for _ in range(trials):
        slots = {}
        for seen in range(0, 12, batch):
            slots |= {slot: seen + row for slot, row in reservoir_slots(seen, batch, 3, generator).items()}
        counts[list(slots.values())] += 1
    assert counts.sum() == 3 * trials
    expected = trials * 3 / 12
    variance_ratio = 1 / (1 - 3 / 12) * 11 / 12  # three distinct rows a trial: covariances as without replacement
    statistic = ((counts - expected) ** 2 / expected).sum() * variance_ratio
    assert stats.chi2.sf(statistic, 11) > 1e-4


def test_row_n_goes_to_a_given_slot_with_probability_one_over_n():
    """Chi-square for one row, number 7 of the stream, and a memory of 4: slots 0 to 3 with 1/8 each, dropped with 4/8."""
    generator = torch.Generator().manual_seed(1)
    trials = 8000
    counts = np.zeros(5)
    for _ in range(trials):
        counts[next(iter(reservoir_slots(7, 1, 4, generator)), 4)] += 1
    assert stats.chisquare(counts, trials * np.array([1, 1, 1, 1, 4]) / 8).pvalue > 1e-4


def test_rows_fill_the_slots_in_order_while_there_is_room():
    """Nothing is dropped or moved before the memory is full."""
    assert reservoir_slots(2, 3, 10, torch.Generator()) == {2: 0, 3: 1, 4: 2}


@pytest.mark.parametrize("size", [1, 3])
def test_of_two_rows_for_one_slot_the_later_wins(size):
    """Against Algorithm R row by row with the same uniform numbers, also within the memory itself."""
    for seed in range(30):
        uniform = torch.rand(20, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).tolist()
        expected = {}
        for row, value in enumerate(uniform):
            slot = row if row < size else math.floor(value * (row + 1))
            if slot < size:
                expected[slot] = row
        assert reservoir_slots(0, 20, size, torch.Generator().manual_seed(seed)) == expected
        randomness.start(0)
        randomness.generator("reservoir").manual_seed(seed)
        buffer = filled(size, 20)
        assert [int(value) for value in buffer.examples[:, 0]] == [expected[slot] for slot in range(size)]


@given(cuts=st.lists(st.integers(1, 9), min_size=1, max_size=12), size=st.integers(1, 20))
@settings(deadline=None, max_examples=40)
def test_the_memory_does_not_depend_on_how_the_stream_is_cut(cuts, size):
    """One row at a time or in batches: the same rows stay."""
    total = sum(cuts)
    randomness.start(3)
    whole = filled(size, total)
    randomness.start(3)
    parts, seen = Buffer(size), 0
    for cut in cuts:
        parts.add_data(numbered(seen, seen + cut), labels=torch.arange(seen, seen + cut))
        seen += cut
    assert torch.equal(whole.examples, parts.examples)
    assert torch.equal(whole.labels, parts.labels)


def test_columns_of_a_row_stay_together():
    """After many replacements every label still belongs to its example."""
    buffer = filled(7, 500)
    assert buffer.examples[:, 0].tolist() == buffer.labels.tolist()


def test_replay_draws_never_change_the_reservoir():
    """With and without draws in between, the same rows are kept."""

    def kept(draws):
        randomness.start(11)
        buffer = Buffer(5)
        for number in range(60):
            buffer.add_data(numbered(number, number + 1))
            for _ in range(draws):
                buffer.get_data(3)
        return buffer.examples

    assert torch.equal(kept(0), kept(2))


def test_the_reservoir_never_changes_replay_draws():
    """Two memories of one size draw the same slots whatever else was inserted elsewhere."""

    def drawn(others):
        randomness.start(11)
        buffer = filled(20, 20)
        filled(5, others)
        return buffer.get_data(6, return_index=True)[0].tolist()

    assert drawn(1) == drawn(300)


# -- past rows ---------------------------------------------------------------------------------------------------------


class NaivePast:
    """What `only_past` may draw, kept the plain way: for each slot, whether its row was there when the past was marked."""

    def __init__(self, size):
        self.rows = [None] * size

    def add(self, slot):
        self.rows[slot] = False

    def mark(self):
        self.rows = [None if row is None else True for row in self.rows]

    def past(self):
        return {slot for slot, row in enumerate(self.rows) if row}


@given(
    seed=st.integers(0, 2**31),
    size=st.integers(1, 8),
    events=st.lists(st.one_of(st.just("mark"), st.integers(1, 7)), max_size=25),
)
@settings(deadline=None, max_examples=120)
def test_past_rows_are_those_marked_and_not_overwritten(seed, size, events):
    """Any sequence of inserts and marks, against the plain reference."""
    randomness.start(seed)
    mirror = torch.Generator().manual_seed(randomness.derive_seed(seed, "reservoir"))
    buffer, naive, seen = Buffer(size), NaivePast(size), 0
    for event in events:
        if event == "mark":
            buffer.mark_past()
            naive.mark()
            continue
        buffer.add_data(numbered(seen, seen + event))
        for slot in reservoir_slots(seen, event, size, mirror):
            naive.add(slot)
        seen += event
        assert buffer.num_past == len(naive.past())
        assert set(buffer.get_data(100, return_index=True, only_past=True)[0].tolist()) == naive.past()
        some = buffer.get_data(2, return_index=True, only_past=True)[0].tolist()
        assert len(some) == len(set(some)) == min(2, len(naive.past()))
        assert set(some) <= naive.past()


def test_past_draws_hold_only_old_rows():
    """By content: rows 0 to 9 are the past; nothing from 10 on comes."""
    buffer = filled(10, 10)
    buffer.mark_past()
    for first in range(10, 200, 10):
        buffer.add_data(numbered(first, first + 10), labels=torch.arange(first, first + 10))
        found = buffer.get_data(100, only_past=True)[1]
        assert sorted(found.tolist()) == sorted(label for label in buffer.labels.tolist() if label < 10)


def test_no_past_gives_no_rows():
    """Before the first mark."""
    assert [len(column) for column in filled(5, 5).get_data(3, only_past=True)] == [0, 0]


# -- unlimited ---------------------------------------------------------------------------------------------------------


def test_unlimited_keeps_everything_in_order():
    """However much comes, in any batches."""
    buffer = Buffer(0, sample_selection_strategy="unlimited")
    cuts = [0, 1, 3, 10, 11, 40, 200]
    for first, past_last in itertools.pairwise(cuts):
        buffer.add_data(numbered(first, past_last), labels=torch.arange(first, past_last))
    examples, labels = buffer.get_all_data()
    assert len(buffer) == buffer.num_seen_examples == 200
    assert examples[:, 0].tolist() == labels.tolist() == list(range(200))


def test_unlimited_draws_nothing():
    """No reservoir decision is made, so none is drawn."""
    before = randomness.generator("reservoir").get_state()
    Buffer(1, sample_selection_strategy="unlimited").add_data(numbered(0, 50))
    assert torch.equal(randomness.generator("reservoir").get_state(), before)


def test_unlimited_keeps_8_bit_images_exactly():
    """Growing the column keeps dtype and layout."""
    images = to_tensor(pixels(30))
    buffer = Buffer(1, sample_selection_strategy="unlimited")
    buffer.eight_bit = True
    for batch in images.split(7):
        buffer.add_data(batch)
    assert buffer._rows["examples"].dtype == torch.uint8
    assert torch.equal(buffer.get_all_data()[0], images)


# -- state -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [3, 40])
def test_a_restored_memory_goes_on_as_the_original(stream):
    """Rows, counter, past; then the same inserts and the same draws on both."""
    images = to_tensor(pixels(stream + 20))
    original = eight_bit_buffer(8)
    original.add_data(images[: stream - 2], labels=torch.arange(stream - 2), logits=torch.rand(stream - 2, 4))
    original.mark_past()
    original.add_data(images[stream - 2 : stream], labels=torch.arange(2), logits=torch.rand(2, 4))
    restored = Buffer(8)
    restored.load_state_dict(original.state_dict())
    assert restored.num_seen_examples == original.num_seen_examples == stream
    assert restored.used_attributes == original.used_attributes
    later = (images[stream:], torch.arange(20), torch.rand(20, 4))
    outcomes = []
    for buffer in (original, restored):
        randomness.start(5)
        before = buffer.get_data(100, return_index=True, only_past=True)
        buffer.add_data(*later)
        outcomes.append((*before, *buffer.get_all_data(), *buffer.get_data(3, return_index=True, only_past=True)))
    assert all(torch.equal(one, other) for one, other in zip(*outcomes, strict=True))
    assert restored._rows["examples"].dtype == torch.uint8


def test_state_holds_only_valid_rows():
    """A large memory with three rows has a small state."""
    state = filled(1000, 3).state_dict()
    assert len(state["examples"]) == len(state["labels"]) == 3


def test_state_of_an_empty_memory_round_trips():
    """Loading it empties what was there."""
    buffer = filled(4, 9)
    buffer.load_state_dict(Buffer(4).state_dict())
    assert (len(buffer), buffer.num_seen_examples, buffer.used_attributes) == (0, 0, [])


def test_floats_restored_into_an_8_bit_memory_go_on_as_floats():
    """A memory that fell back to floats is restored into one that was declared 8-bit."""
    original = eight_bit_buffer(4)
    images = torch.rand(2, 3, 4, 5)
    original.add_data(images)
    restored = eight_bit_buffer(4)
    restored.load_state_dict(original.state_dict())
    later = to_tensor(pixels(2))
    restored.add_data(later)
    assert torch.equal(restored.get_all_data()[0], torch.cat([images, later]))


def test_an_unlimited_memory_round_trips():
    """Size and rows."""
    original = Buffer(1, sample_selection_strategy="unlimited")
    original.add_data(numbered(0, 30), labels=torch.arange(30))
    restored = Buffer(1, sample_selection_strategy="unlimited")
    restored.load_state_dict(original.state_dict())
    restored.add_data(numbered(30, 40), labels=torch.arange(30, 40))
    assert restored.get_all_data()[1].tolist() == list(range(40))
