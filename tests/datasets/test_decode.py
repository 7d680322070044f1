"""Files become images: every mode that people's photos have, and each kind of file that is none."""

import errno
import os

import numpy as np
import pytest
import torch
from PIL import Image

from datasets.utils import decode
from datasets.utils.decode import cached, decode_images, fingerprint_of, read_image

RED = (200, 40, 10)


def saved(path, mode, colour, size=(8, 8), **options):
    """A file of one colour; returns its path."""
    Image.new(mode, size, colour).save(path, **options)
    return path


# -- what is read ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "colour", "expected"),
    [
        ("RGB", RED, RED),
        ("L", 100, (100, 100, 100)),
        ("RGBA", (*RED, 255), RED),
        ("RGBA", (0, 0, 0, 0), (255, 255, 255)),
        ("LA", (50, 255), (50, 50, 50)),
        ("1", 1, (255, 255, 255)),
        ("I;16", 100 * 256 + 7, (100, 100, 100)),
    ],
)
def test_every_mode_of_a_png_becomes_rgb(mode, colour, expected, tmp_path):
    """Grey, colour, with alpha (over white), black and white, 16 bits a channel (the upper byte)."""
    path = saved(tmp_path / "a.png", mode, colour)
    assert read_image(path, None, 3).shape == (8, 8, 3)
    assert tuple(read_image(path, None, 3)[4, 4]) == expected


def test_a_palette_with_a_transparent_colour_lies_over_white(tmp_path):
    """Palette images name one colour as transparent."""
    image = Image.new("P", (4, 4), 0)
    image.putpalette([10, 20, 30] + [0] * 765)
    image.save(tmp_path / "a.png", transparency=0)
    image.save(tmp_path / "b.png")
    assert tuple(read_image(tmp_path / "a.png", None, 3)[0, 0]) == (255, 255, 255)
    assert tuple(read_image(tmp_path / "b.png", None, 3)[0, 0]) == (10, 20, 30)


def test_cmyk_becomes_rgb(tmp_path):
    """A print's JPEG: no ink is white, all black ink is black, within what JPEG loses."""
    for name, ink, grey in (("white", 0, 255), ("black", 255, 0)):
        path = saved(tmp_path / f"{name}.jpg", "CMYK", (0, 0, 0, ink))
        assert np.abs(read_image(path, None, 3).astype(int) - grey).max() <= 3


def test_one_channel_is_grey(tmp_path):
    """Colour to grey by the usual weights (ITU-R 601)."""
    found = read_image(saved(tmp_path / "a.png", "RGB", RED), None, 1)
    assert found.shape == (8, 8, 1)
    assert abs(int(found[0, 0, 0]) - round(0.299 * 200 + 0.587 * 40 + 0.114 * 10)) <= 1


def test_a_rotated_photo_stands_upright(tmp_path):
    """EXIF orientation 6: the camera's top row is the picture's right column."""
    pixels = np.zeros((2, 4, 3), dtype=np.uint8)
    pixels[0] = 255
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(pixels).save(tmp_path / "a.png", exif=exif)
    found = read_image(tmp_path / "a.png", None, 3)
    assert found.shape == (4, 2, 3)
    assert found[:, 1].min() == 255
    assert found[:, 0].max() == 0


def test_the_middle_is_cut_out_and_scaled(tmp_path):
    """A wide picture, black, white, black: asked for a square, the white middle stays; asked for its own size, all pixels."""
    pixels = np.zeros((10, 30, 3), dtype=np.uint8)
    pixels[:, 10:20] = 255
    Image.fromarray(pixels).save(tmp_path / "a.png")
    assert read_image(tmp_path / "a.png", (5, 5), 3)[:, 1:-1].min() == 255  # its edges blend with their neighbours
    assert read_image(tmp_path / "a.png", (5, 5), 3).mean() > 230
    assert np.array_equal(read_image(tmp_path / "a.png", (10, 30), 3), pixels)


# -- what is not -----------------------------------------------------------------------------------------------------------


def no_image(path, kind):
    """Write a file of that kind."""
    if kind == "empty":
        path.write_bytes(b"")
    elif kind == "text":
        path.write_text("not an image")
    elif kind == "wide":
        Image.new("L", (100_000, 1)).save(path, format="png")
    elif kind == "bomb":
        Image.new("1", (20_000, 20_000)).save(path, format="png")
    elif kind == "12 bits":
        Image.fromarray(np.full((4, 4), 4000, dtype=np.uint16)).save(path, format="png")
    elif kind == "32 bits":
        Image.fromarray(np.full((4, 4), 70_000, dtype=np.int32)).save(path, format="tiff")
    elif kind == "floats":
        Image.new("F", (4, 4), 0.5).save(path, format="tiff")
    else:
        rng = np.random.default_rng(0)
        Image.fromarray(rng.integers(0, 255, (64, 64, 3), dtype=np.uint8)).save(path, format="png")
        path.write_bytes(path.read_bytes()[:3000])
    return path


REASONS = {
    "empty": "an empty file",
    "text": "cannot identify",
    "wide": "at most 30000 a side",
    "bomb": "too large|at most",
    "12 bits": "greys from 0 to 4000, not of 16 bits",
    "32 bits": "greys from 0 to 70000, not of 16 bits",
    "floats": "unknown range",
    "cut off": "truncated",
}


@pytest.mark.parametrize("kind", REASONS)
def test_what_is_no_image_says_why(kind, tmp_path):
    """One line with the reason; a bomb is refused before it is decoded."""
    with pytest.raises(ValueError, match=REASONS[kind]) as error:
        read_image(no_image(tmp_path / "a.png", kind), (4, 4), 3)
    assert str(tmp_path) not in str(error.value)
    assert "\n" not in str(error.value)


def test_bad_files_are_counted_and_named_or_left_out(tmp_path):
    """Four of six are bad: an error names three and counts all, or the two good ones come with their places."""
    good = [saved(tmp_path / f"{place}.png", "RGB", (place, 0, 0)) for place in (1, 2)]
    bad = [no_image(tmp_path / f"bad{place}.png", kind) for place, kind in enumerate(("empty", "text", "cut off", "empty"))]
    paths = [bad[0], good[0], bad[1], bad[2], good[1], bad[3]]
    with pytest.raises(ValueError, match=r"4 file\(s\) cannot be read: .*bad0\.png \(an empty file\).*and 1 more") as error:
        decode_images(paths, (8, 8), 3)
    assert len(str(error.value).splitlines()) == 2
    found = decode_images(paths, (8, 8), 3, skip_bad=True)
    assert found.kept == [1, 4]
    assert found.images[:, 0, 0, 0].tolist() == [1, 2]
    assert [path for path, _ in found.bad] == bad
    with pytest.raises(ValueError, match="none of 4"):
        decode_images(bad, (8, 8), 3, skip_bad=True)


def test_many_files_keep_their_order(tmp_path):
    """More than one block of files, decoded side by side."""
    path = [saved(tmp_path / f"{place}.png", "L", place) for place in range(200)]
    found = decode_images([path[place % 200] for place in range(1500)], None, 1)
    assert found.images[:, 0, 0, 0].tolist() == [place % 200 for place in range(1500)]


def test_without_a_size_all_must_agree(tmp_path):
    """Two sizes: both are named, with the file."""
    paths = [saved(tmp_path / "a.png", "L", 0), saved(tmp_path / "b.png", "L", 0, (9, 7))]
    with pytest.raises(ValueError, match=r"b\.png.*8 x 8 and 9 x 7"):
        decode_images(paths, None, 1)


# -- the cache -------------------------------------------------------------------------------------------------------------


def test_the_cache_is_made_once_and_anew_when_a_source_changes(tmp_path):
    """The same fingerprint: from the file. A changed source, a damaged or foreign cache file: made again."""
    source = saved(tmp_path / "a.png", "L", 5)
    made = []

    def make():
        made.append(1)
        return {"images": decode_images([source], None, 1).images, "names": ["a"]}

    def ask():
        return cached(tmp_path / "cache", "decoded", fingerprint_of([source], (8, 8)), make)["images"][0, 0, 0, 0].item()

    assert [ask(), ask(), len(made)] == [5, 5, 1]
    saved(source, "L", 6)
    os.utime(source, ns=(1, 1))
    assert [ask(), ask(), len(made)] == [6, 6, 2]
    file = tmp_path / "cache" / "decoded.pt"
    for damaged in (file.read_bytes()[:-200], b"", b"\x80\x02cos\nsystem\n(S'true'\ntR."):
        file.write_bytes(damaged)
        assert ask() == 6
    torch.save([1, 2], file)
    assert ask() == 6
    assert len(made) == 6
    assert [path.name for path in file.parent.iterdir()] == ["decoded.pt"]


def test_the_fingerprint_sees_names_sizes_times_and_settings(tmp_path):
    """Each of them alone changes it; asking again does not."""
    a, b = saved(tmp_path / "a.png", "L", 0), saved(tmp_path / "b.png", "L", 0)
    os.utime(a, ns=(5, 5)), os.utime(b, ns=(5, 5))
    prints = [fingerprint_of([a], 1), fingerprint_of([b], 1), fingerprint_of([a], 2), fingerprint_of([a, b], 1)]
    os.utime(a, ns=(6, 6))
    prints.append(fingerprint_of([a], 1))
    a.write_bytes(a.read_bytes() + b"x")
    os.utime(a, ns=(6, 6))
    prints.append(fingerprint_of([a], 1))
    assert len(set(prints)) == 6
    assert fingerprint_of([a], 1) == prints[-1]


def test_a_decoder_that_fails_in_its_own_way(tmp_path, monkeypatch):
    """Pillow's AVIF plugin raises RuntimeError on a damaged file: one more that cannot be read."""
    saved(tmp_path / "a.png", "RGB", (1, 2, 3))

    def failing(*words, **named):
        raise RuntimeError("Failed to decode image: Invalid ftyp")

    monkeypatch.setattr(Image.Image, "load", failing)
    with pytest.raises(ValueError, match="Failed to decode"):
        read_image(tmp_path / "a.png", (4, 4), 3)


def test_a_folder_that_is_read_only(tmp_path, monkeypatch, caplog):
    """Nothing is kept, which is said once; a full disk is an error."""

    def failing(number):
        def write(path, fill):
            raise OSError(number, os.strerror(number), str(path))

        return write

    made = {"images": torch.zeros(1, dtype=torch.uint8)}
    monkeypatch.setattr(decode, "write_stream_atomically", failing(errno.EROFS))
    with caplog.at_level("WARNING", logger="mammoth"):
        assert decode.cached(tmp_path, "a", "f", lambda: made) is made
    assert "decoded again at each run" in caplog.text
    monkeypatch.setattr(decode, "write_stream_atomically", failing(errno.ENOSPC))
    with pytest.raises(OSError, match="No space left"):
        decode.cached(tmp_path, "a", "f", lambda: made)


def test_a_failure_leaves_no_cache(tmp_path, monkeypatch):
    """A disk that fills up while the cache is written: the error comes through, no part of a file stays."""

    def full(content, file):
        file.write(b"part")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(decode.torch, "save", full)
    with pytest.raises(OSError, match="No space"):
        cached(tmp_path / "cache", "decoded", "x", lambda: {"a": torch.zeros(3)})
    assert list((tmp_path / "cache").iterdir()) == []
