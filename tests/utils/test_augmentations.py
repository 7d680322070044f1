"""Transforms on whole batches: against plain loops, torchvision and kornia."""

import kornia.augmentation
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close
from torchvision.transforms import functional as tv

from utils import randomness
from utils.augmentations import (
    BatchTransform,
    apply_transform,
    crop_and_flip,
    normalize,
    normalize_images,
    random_crop,
    random_flip,
    to_float,
)

MEAN, STD = [0.4914, 0.4822, 0.4465], [0.2470, 0.2435, 0.2615]
NORMALIZE = {"Normalize": {"mean": MEAN, "std": STD}}
CIFAR = [{"RandomCrop": {"size": 32, "padding": 4}}, "RandomHorizontalFlip", "ToTensor", NORMALIZE]
EXACT = {"rtol": 0.0, "atol": 0.0}


def pixels(count=8, height=32, width=32, channels=3):
    """Return random 8-bit images."""
    generator = torch.Generator().manual_seed(0)
    return torch.randint(256, (count, channels, height, width), dtype=torch.uint8, generator=generator)


def windows(images, padding):
    """Return every window of each image's zero-padded self, mirrored or not, as tuples of numbers."""
    size = images.shape[-1]
    padded = torch.nn.functional.pad(images, (padding,) * 4)
    found = {}
    for top in range(2 * padding + 1):
        for left in range(2 * padding + 1):
            window = padded[..., top : top + size, left : left + size]
            found[tuple(window.flatten().tolist())] = (top, left, False)
            found[tuple(window.flip(-1).flatten().tolist())] = (top, left, True)
    return found


# -- crop and flip -----------------------------------------------------------------------------------------------------


@given(
    height=st.integers(3, 9),
    width=st.integers(3, 9),
    channels=st.integers(1, 4),
    padding=st.integers(0, 3),
    size=st.integers(1, 9),
    dtype=st.sampled_from([torch.uint8, torch.float32]),
    seed=st.integers(0, 1000),
)
@settings(deadline=None, max_examples=60)
def test_crop_and_flip_equals_a_loop_over_images(height, width, channels, padding, size, dtype, seed):
    """Torchvision's pad, crop and hflip image by image, bit for bit."""
    size = min(size, height + 2 * padding, width + 2 * padding)
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(256, (5, channels, height, width), generator=generator).to(dtype)
    top = torch.randint(height + 2 * padding - size + 1, (5,), generator=generator)
    left = torch.randint(width + 2 * padding - size + 1, (5,), generator=generator)
    flip = torch.rand(5, generator=generator) < 0.5
    expected = []
    for image, row, column, mirrored in zip(images, top.tolist(), left.tolist(), flip.tolist(), strict=True):
        cut = tv.crop(tv.pad(image, [padding]), row, column, size, size)
        expected.append(tv.hflip(cut) if mirrored else cut)
    found = crop_and_flip(images, top, left, flip, size, padding)
    assert found.dtype == dtype
    assert torch.equal(found, torch.stack(expected))


def test_the_whole_pipeline_equals_torchvision_with_the_same_offsets():
    """Offsets as the transform drew them; then pad, crop, hflip and normalize of torchvision on each image."""
    images = pixels(16)
    found = BatchTransform(CIFAR)(images)
    generator = randomness.fresh("augmentation")
    top, left = (torch.randint(9, (16,), generator=generator).tolist() for _ in range(2))
    flip = (torch.rand(16, generator=generator) < 0.5).tolist()
    assert len(set(top)) > 3
    assert len(set(flip)) == 2
    for image, row, column, mirrored, ours in zip(images, top, left, flip, found, strict=True):
        cut = tv.crop(tv.pad(image.float().div(255), [4]), row, column, 32, 32)
        theirs = tv.normalize(tv.hflip(cut) if mirrored else cut, MEAN, STD)
        assert_close(ours, theirs, **EXACT)


def test_kornias_crop_of_the_same_window_is_the_same_image():
    """Kornia's RandomCrop with padding 4, its parameters read back, against crop_and_flip at that corner."""
    images = to_float(pixels(6)).contiguous()
    kornias = kornia.augmentation.RandomCrop((32, 32), padding=4, p=1.0)
    theirs = kornias(images)
    corner = kornias._params["src"][:, 0].long()  # x, y
    assert corner.unique(dim=0).shape[0] > 2
    never = torch.zeros(6, dtype=torch.bool)
    assert_close(crop_and_flip(images, corner[:, 1], corner[:, 0], never, 32, 4), theirs, rtol=0, atol=1e-5)


def test_normalisation_is_kornias():
    """To 1e-6."""
    images = to_float(pixels())
    theirs = kornia.augmentation.Normalize(torch.tensor(MEAN), torch.tensor(STD))(images)
    assert_close(BatchTransform([NORMALIZE])(images), theirs, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "specs",
    [CIFAR, CIFAR[:1], CIFAR[1:2], CIFAR[2:], [{"RandomCrop": {"size": 32}}], ["ToTensor"]],
    ids=lambda specs: repr(specs)[:40],
)
def test_8_bit_and_float_images_give_the_same(specs):
    """Bit for bit, from the same generator state."""
    images = pixels()
    outcomes = []
    for batch in (images, to_float(images), images.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)):
        randomness.start(3)
        outcomes.append(BatchTransform(specs)(batch))
    assert outcomes[0].dtype == torch.float32
    assert torch.equal(outcomes[0], outcomes[1])
    assert torch.equal(outcomes[0], outcomes[2])


def test_every_window_and_both_mirrorings_come_equally_often():
    """Chi-square over 4,500 crops of a 3 x 3 image with padding 1: nine windows, each mirrored or not."""
    image = torch.arange(1, 10, dtype=torch.float32).view(1, 1, 3, 3)
    known = windows(image, 1)
    assert len(known) == 18
    found = BatchTransform([{"RandomCrop": {"size": 3, "padding": 1}}, "RandomHorizontalFlip"])(image.expand(4500, 1, 3, 3))
    counts = dict.fromkeys(known.values(), 0)
    for one in found:
        counts[known[tuple(one.flatten().tolist())]] += 1
    statistic = sum((count - 250) ** 2 / 250 for count in counts.values())
    assert statistic < 50.0  # chi-square, 17 degrees of freedom: exceeded once in 20,000 seeds


def test_without_a_flip_nothing_is_mirrored():
    """RandomCrop alone."""
    image = torch.arange(1, 10, dtype=torch.float32).view(1, 1, 3, 3)
    known = windows(image, 1)
    found = BatchTransform([{"RandomCrop": {"size": 3, "padding": 1}}])(image.expand(200, 1, 3, 3))
    assert not any(known[tuple(one.flatten().tolist())][2] for one in found)


@pytest.mark.parametrize(("height", "width"), [(5, 5), (4, 7), (7, 4)])
def test_flip_alone_keeps_the_size(height, width):
    """Every image comes out as it was or mirrored, of the same height and width; both occur."""
    images = pixels(40, height, width)
    found = BatchTransform(["RandomHorizontalFlip", "ToTensor"])(images)
    assert found.shape == images.shape
    same = [torch.equal(one, other) for one, other in zip(found, to_float(images), strict=True)]
    mirrored = [torch.equal(one, other) for one, other in zip(found, to_float(images).flip(3), strict=True)]
    assert all(one != other for one, other in zip(same, mirrored, strict=True))
    assert any(same)
    assert any(mirrored)


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_the_flip_takes_torchvisions_probability(p):
    """`RandomHorizontalFlip: {p: 1.0}` mirrors every image, `p: 0.0` none."""
    images = pixels(30)
    expected = to_float(images).flip(3) if p else to_float(images)
    assert torch.equal(BatchTransform([{"RandomHorizontalFlip": {"p": p}}, "ToTensor"])(images), expected)


@pytest.mark.parametrize("size", [[32, 32], (32, 32)])
def test_the_crop_takes_torchvisions_pair_of_sizes(size):
    """`size: [32, 32]` is the same as 32."""
    outcomes = []
    for argument in (32, size):
        randomness.start(0)
        outcomes.append(BatchTransform([{"RandomCrop": {"size": argument, "padding": 4}}])(pixels()))
    assert torch.equal(*outcomes)


@pytest.mark.parametrize("argument", [{"padding_mode": "reflect"}, {"fill": 1}])
def test_an_argument_of_torchvisions_crop_is_heeded_or_refused(argument):
    """Either of these pads with something other than zeros: a white image stays white, or a ValueError names the argument."""
    try:
        transform = BatchTransform([{"RandomCrop": {"size": 8, "padding": 4, **argument}}])
    except ValueError as error:
        assert next(iter(argument)) in str(error)  # noqa: PT017 - the one or the other
    else:
        assert bool((transform(torch.ones(20, 3, 8, 8)) == 1).all())


@pytest.mark.parametrize(
    "spec",
    [
        {"RandomCrop": {"size": 32, "paddign": 4}},
        {"Normalize": {"mean": MEAN, "std": STD, "sdt": 1}},
        {"RandomHorizontalFlip": {"q": 1}},
    ],
)
def test_a_misspelt_argument_is_refused(spec):
    """A YAML's typing error must not pass unnoticed: a ValueError names it."""
    with pytest.raises(ValueError, match=r"paddign|sdt|'q'"):
        BatchTransform([spec])


def test_transforms_happen_in_the_order_given():
    """Resize 64 to 32, then crop to 32 without padding: the crop has no choice left."""
    images = pixels(2, 64, 64)
    resized = BatchTransform([{"Resize": {"size": [32, 32]}}])(images)
    found = BatchTransform([{"Resize": {"size": [32, 32]}}, {"RandomCrop": {"size": 32}}])(images)
    assert_close(found, resized)


def test_a_window_larger_than_the_image_is_refused():
    """The message names both sizes."""
    with pytest.raises(ValueError, match=r"size 40 exceeds the padded image \(32, 32\) \+ 2 x 3"):
        BatchTransform([{"RandomCrop": {"size": 40, "padding": 3}}])(pixels())


# -- which generator ---------------------------------------------------------------------------------------------------


def test_two_streams_do_not_shift_each_other():
    """Replay's augmentation draws from a generator of its own."""
    images = pixels()
    expected = BatchTransform(CIFAR)(images)
    randomness.start(0)
    replay = BatchTransform(CIFAR).with_stream("replay_augmentation")
    for _ in range(3):
        replay(images)
    assert torch.equal(BatchTransform(CIFAR)(images), expected)
    assert not torch.equal(replay(images), expected)


def test_augmentation_leaves_the_global_generator_alone():
    """Crop and flip."""
    before = torch.get_rng_state()
    BatchTransform(CIFAR)(pixels())
    assert torch.equal(torch.get_rng_state(), before)


def test_kornias_transforms_leave_the_global_generator_alone():
    """A jitter that a YAML names must not shift a method's own draws."""
    transform = BatchTransform([{"ColorJitter": {"brightness": 0.5, "p": 1.0}}])
    before = torch.get_rng_state()
    transform(pixels())
    assert torch.equal(torch.get_rng_state(), before)


def test_kornias_transforms_draw_from_the_stream_of_that_name():
    """The method's own global draws do not change the augmentation."""
    outcomes = []
    for draws in (0, 5):
        randomness.start(0)
        torch.rand(draws)
        outcomes.append(BatchTransform([{"ColorJitter": {"brightness": 0.5, "p": 1.0}}])(pixels()))
    assert torch.equal(*outcomes)


@pytest.mark.parametrize(("name", "arguments"), [("RandomRotation", {"degrees": 90}), ("RandomAffine", {"degrees": [30, 90]})])
def test_what_torchvision_always_applies_is_always_applied(name, arguments):
    """Every image is turned, not every second one; a file that gives `p` has it."""
    images = pixels(64)
    randomness.start(0)
    changed = (BatchTransform([{name: arguments}])(images) != to_float(images)).flatten(1).any(1)
    assert changed.all()
    changed = (BatchTransform([{name: {**arguments, "p": 0.5}}])(images) != to_float(images)).flatten(1).any(1)
    assert 10 < changed.sum() < 54


# -- names -------------------------------------------------------------------------------------------------------------


def test_unknown_name_is_a_value_error():
    """It names the transform and those known."""
    with pytest.raises(ValueError, match=r"'RandomCorp'.*RandomCrop"):
        BatchTransform(["RandomCorp"])


def test_two_names_in_one_entry_are_refused():
    """A YAML list with a missing dash."""
    with pytest.raises(ValueError, match="name"):
        BatchTransform([{"ToTensor": {}, "RandomHorizontalFlip": {}}])


def test_a_kornia_transform_works_with_the_fused_ones():
    """Grey from kornia, normalisation from here."""
    images = pixels()
    found = BatchTransform([{"RandomGrayscale": {"p": 1.0}}, "ToTensor", {"Normalize": {"mean": [0.5] * 3, "std": [0.5] * 3}}])(
        images
    )
    assert found.shape == images.shape
    assert_close(found[:, 0], found[:, 1])
    weights = torch.tensor([0.299, 0.587, 0.114]).view(3, 1, 1)
    assert_close(found[:, 0], (to_float(images) * weights).sum(1) * 2 - 1, rtol=0, atol=1e-5)


def test_only_random_transforms_are_not_deterministic():
    """`deterministic` tells whether a data set needs a transform for replay."""
    assert BatchTransform(CIFAR[2:]).deterministic
    assert not BatchTransform(CIFAR[:1]).deterministic
    assert not BatchTransform(CIFAR[1:2]).deterministic


def test_a_yaml_entry_without_arguments_is_a_name():
    """`- RandomHorizontalFlip:` reads as {name: None}."""
    assert BatchTransform([{"ToTensor": None}]).specs == [("ToTensor", {})]


# -- single functions --------------------------------------------------------------------------------------------------


def test_to_float_is_to_tensor():
    """Division by 255, of every value, bit for bit as torchvision's."""
    values = torch.arange(256, dtype=torch.uint8).view(1, 16, 16)
    theirs = tv.to_tensor(values[0].numpy())
    assert torch.equal(to_float(values), theirs)
    assert torch.equal(to_float(values[None])[0], theirs)


def test_to_float_leaves_floats_alone():
    """The same object."""
    images = torch.rand(2, 3, 4, 4)
    assert to_float(images) is images


def test_normalising_leaves_its_input_alone():
    """The raw images are stored afterwards."""
    images = torch.rand(2, 3, 4, 4)
    before = images.clone()
    normalize(images, MEAN, STD)
    normalize_images(images, torch.zeros(3, 1, 1), torch.ones(3, 1, 1))
    BatchTransform(CIFAR[2:])(images)
    assert torch.equal(images, before)


def test_normalize_takes_plain_numbers():
    """(x - mean) / std by channel."""
    assert_close(normalize(torch.ones(1, 2, 1, 1), [0.5, 2.0], [0.25, 4.0]).flatten(), torch.tensor([2.0, -0.25]))


def test_random_crop_and_random_flip_use_the_generator_given():
    """Two generators in one state give the same; windows and mirrorings are real ones."""
    image = torch.arange(1, 10, dtype=torch.float32).view(1, 1, 3, 3)
    images = image.expand(50, 1, 3, 3)
    crops = [random_crop(images, 3, 1, torch.Generator().manual_seed(1)) for _ in range(2)]
    assert torch.equal(*crops)
    known = windows(image, 1)
    corners = [known[tuple(one.flatten().tolist())] for one in crops[0]]
    assert len(set(corners)) > 5
    assert not any(mirrored for _, _, mirrored in corners)
    flips = [random_flip(images, torch.Generator().manual_seed(1)) for _ in range(2)]
    assert torch.equal(*flips)
    plain = [torch.equal(one, image[0]) for one in flips[0]]
    assert 10 < sum(plain) < 40
    assert all(torch.equal(one, image[0].flip(2)) for one, same in zip(flips[0], plain, strict=True) if not same)


# -- apply_transform ---------------------------------------------------------------------------------------------------


def test_no_transform_leaves_the_batch():
    """None; 8-bit images become floats."""
    images = pixels()
    assert torch.equal(apply_transform(to_float(images), None), to_float(images))
    assert torch.equal(apply_transform(images, None), to_float(images))


def test_a_callable_on_one_image_is_called_for_each():
    """It sees (channels, height, width) floats."""
    shapes = []

    def darker(image):
        shapes.append((tuple(image.shape), image.dtype))
        return image / 2

    images = pixels(3)
    assert torch.equal(apply_transform(images, darker), to_float(images) / 2)
    assert shapes == [((3, 32, 32), torch.float32)] * 3


@pytest.mark.parametrize("transform", [BatchTransform([NORMALIZE]), lambda image: image * 2], ids=["batch", "callable"])
def test_a_single_image_is_transformed_as_in_a_batch(transform):
    """With a batch axis of one, or without if `autosqueeze`."""
    images = to_float(pixels(1))
    expected = apply_transform(images, transform)
    assert torch.equal(apply_transform(images[0], transform), expected)
    assert torch.equal(apply_transform(images[0], transform, autosqueeze=True), expected[0])
    assert torch.equal(apply_transform(images, transform, autosqueeze=True), expected)
