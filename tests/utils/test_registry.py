"""Classes by name: the nearest name in the message, and a broken file that hurts nobody else."""

import itertools
import sys

import pytest

from utils.registry import Registry, canonical, nearest


class Method:
    """The base of the entries in these tests."""

    NAME = None


class Elsewhere(Method):
    """A named method that no file of the packages defines."""

    NAME = "elsewhere"


GOOD = "from {test} import Method\n\nclass {cls}(Method):\n    NAME = {name!r}\n"
_numbers = itertools.count()


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Return a function that makes a package of files (stem -> source) and its registry."""

    def made(files):
        name = f"registry_test_package_{next(_numbers)}"
        folder = tmp_path / name
        folder.mkdir()
        (folder / "__init__.py").touch()
        for stem, source in files.items():
            (folder / f"{stem}.py").write_text(source)
        monkeypatch.syspath_prepend(str(tmp_path))
        return Registry("method", name, [str(folder)], Method)

    yield made
    for name in [name for name in sys.modules if name.startswith("registry_test_package_")]:
        del sys.modules[name]


def good(name, cls="Good"):
    """Return the source of a file that defines one method."""
    return GOOD.format(test=__name__, cls=cls, name=name)


# -- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("given_name", "stored"), [("ER_ACE", "er-ace"), (" derpp ", "derpp"), ("seq-cifar10", "seq-cifar10")])
def test_names_are_canonical(given_name, stored):
    """Lower case, hyphens, no blanks around."""
    assert canonical(given_name) == stored


def test_the_nearest_name_is_suggested():
    """A typing error of one letter."""
    assert nearest("derp", ["er", "derpp", "icarl"]).startswith("did you mean derpp")


def test_without_a_near_name_all_are_listed():
    """In order."""
    assert nearest("zzzzzz", ["mir", "er"]) == "there are: er, mir"


def test_at_most_three_names_are_suggested():
    """The closest."""
    assert nearest("era", [f"er{letter}" for letter in "abcdefg"]).count(" or ") == 2


# -- entries -----------------------------------------------------------------------------------------------------------


def test_a_class_is_found_by_its_name_in_any_spelling(package):
    """NAME, not the file's; underscores and case do not matter."""
    registry = package({"some_file": good("my-method")})
    assert registry.get("my-method").__name__ == "Good"
    assert registry.get("MY_Method") is registry.get("my-method")


def test_entries_are_sorted_and_complete(package):
    """Two in one file included; imported classes and those without a name are not entries."""
    files = {"b": good("zeta") + good("alpha", "Second"), "a": good("mid") + "\nclass Nameless(Method):\n    NAME = None\n"}
    files["c"] = f"from {__name__} import Method\n"
    assert list(package(files).entries()) == ["alpha", "mid", "zeta"]


def test_an_imported_class_is_no_second_entry(package):
    """A file that builds on another's class."""
    registry = package({"base_one": good("base-one")})
    folder = registry.path[0]
    with open(f"{folder}/child.py", "w") as file:
        file.write(f"from {registry.package}.base_one import Good\n\nclass Child(Good):\n    NAME = 'child'\n")
    assert list(registry.entries()) == ["base-one", "child"]


def test_a_class_from_outside_the_package_is_no_entry(package):
    """It is imported, not defined there."""
    assert list(package({"a": good("alpha") + f"from {__name__} import Elsewhere\n"}).entries()) == ["alpha"]


def test_an_unknown_name_is_a_value_error_with_the_nearest(package):
    """Kind, name and suggestion."""
    with pytest.raises(ValueError, match=r"unknown method 'alpa'; did you mean alpha\?"):
        package({"a": good("alpha"), "b": good("beta")}).get("alpa")


BROKEN = {
    "syntax": "def broken(:\n",
    "import": "import no_such_module_anywhere\n",
    "name": "undefined_name\n",
    "attribute": "import os\nos.no_such_attribute\n",
    "key": "{}['absent']\n",
    "index": "[][0]\n",
    "zero": "1 / 0\n",
    "assertion": "assert False, 'never'\n",
    "value": "int('x')\n",
    "runtime": "raise RuntimeError('down')\n",
    "own_error": "class Odd(Exception):\n    pass\n\n\nraise Odd('down')\n",
}


@pytest.mark.parametrize("source", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_file_hurts_nobody_else(package, source):
    """The other files are entries; the broken one stands under its file's name with its exception."""
    registry = package({"a_first": good("first"), "broken_one": source, "z_last": good("last")})
    entries = registry.entries()
    assert list(entries) == ["broken-one", "first", "last"]
    assert isinstance(entries["broken-one"], Exception)
    assert registry.get("last").NAME == "last"


@pytest.mark.parametrize("source", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_file_says_why_when_asked_for(package, source):
    """A ValueError that names the method, and the reason as its cause."""
    registry = package({"broken_one": source, "good_one": good("good-one")})
    with pytest.raises(ValueError, match="method 'broken_one' does not load: ") as caught:
        registry.get("broken_one")
    assert type(caught.value.__cause__).__name__ in str(caught.value)
    with pytest.raises(ValueError, match="does not load"):
        registry.get("broken-one")


def test_one_name_twice_hurts_nobody_else(package):
    """A copied file whose NAME was not changed: the other methods are still there, each time they are asked for."""
    registry = package({"a": good("alpha"), "b": good("alpha"), "c": good("gamma")})
    assert {"alpha", "gamma"} <= set(registry.entries())
    assert registry.get("gamma").NAME == "gamma"


def test_only_the_file_asked_for_is_loaded(package):
    """Asked for by its file's name, a method costs no other import."""
    registry = package({"wanted": good("wanted"), "other": good("other")})
    registry.get("wanted")
    assert f"{registry.package}.wanted" in sys.modules
    assert f"{registry.package}.other" not in sys.modules


def test_making_a_registry_imports_nothing(package):
    """Not before something is asked for."""
    registry = package({"a": "raise SystemExit(3)\n"})
    assert f"{registry.package}.a" not in sys.modules


def test_register_adds_a_class_without_a_file(package):
    """The decorator returns the class."""
    registry = package({})

    @registry.register("Made_Here")
    class Made(Method):
        pass

    assert registry.get("made-here") is Made
    assert registry.register("made-here")(Made) is Made


def test_a_registered_class_without_a_name_gets_it():
    """As upstream's own tests do it: the name is given in the decorator alone."""

    class Nameless:
        pass

    registry = Registry("thing", "utils", [], Nameless)

    class Thing(Nameless):
        pass

    registry.register("a_thing")(Thing)
    assert Thing.NAME == "a-thing"


def test_a_taken_name_is_refused(package):
    """Two different classes."""
    registry = package({})
    registry.register("one")(type("One", (Method,), {}))
    with pytest.raises(ValueError, match="two methods are named 'one'"):
        registry.register("one")(type("Two", (Method,), {}))


# -- folders added -----------------------------------------------------------------------------------------------------


def folder_of(path, files):
    """Make a folder of files (name -> source); return its path."""
    path.mkdir()
    for name, source in files.items():
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_text(source)
    return str(path)


def test_a_folder_adds_its_files_and_says_what_it_hides(package, tmp_path):
    """A new name is found, a name that is taken is the folder's from then on, even if the project's was loaded before."""
    registry = package({"a": good("a"), "b": good("b")})
    before = registry.get("a")
    folder = folder_of(tmp_path / "mine", {"a.py": good("a", "Mine"), "c.py": good("c")})
    assert registry.add_folder(folder) == ["a"]
    assert registry.get("a").__name__ == "Mine"
    assert registry.get("a") is not before
    assert list(registry.entries()) == ["a", "b", "c"]
    assert [registry.folder(registry.get(name)) is None for name in "abc"] == [False, True, False]
    assert registry.add_folder(folder) == []


def test_the_first_folder_wins(package, tmp_path):
    """Of two folders with one name, the one added first is used."""
    registry = package({})
    for name in ("first", "second"):
        registry.add_folder(folder_of(tmp_path / name, {"x.py": good("x", name.title())}))
    assert registry.get("x").__name__ == "First"


def test_a_name_that_an_added_file_states_wins_over_the_projects(package, tmp_path):
    """What counts is NAME, whatever the file is called."""
    registry = package({"a": good("a")})
    registry.add_folder(folder_of(tmp_path / "mine", {"other.py": good("a", "Mine")}))
    assert registry.get("a").__name__ == "Mine"


def test_an_added_file_that_does_not_load_hurts_nobody_else(package, tmp_path):
    """It stands in the list with its reason, and is raised only when asked for."""
    registry = package({"a": good("a")})
    registry.add_folder(folder_of(tmp_path / "mine", {"broken.py": "import absent_package", "c.py": good("c")}))
    assert isinstance(registry.entries()["broken"], ModuleNotFoundError)
    assert registry.get("c").NAME == "c"
    with pytest.raises(ValueError, match=r"broken.*absent_package"):
        registry.get("broken")


def test_added_files_import_each_other_and_their_sub_folders(package, tmp_path):
    """As modules of the package: `from package.helper import ...`, `from package.parts.one import ...`."""
    registry = package({"a": good("a")})
    files = {"c.py": good("c") + f"from {registry.package}.helper import H\nfrom {registry.package}.parts.one import P\n"}
    folder = folder_of(tmp_path / "mine", files | {"helper.py": "H = 1", "parts/one.py": "P = 1"})
    registry.add_folder(folder)
    assert registry.get("c").NAME == "c"


def test_an_absent_folder_is_an_error(package, tmp_path):
    """One line that names it."""
    with pytest.raises(ValueError, match="no such folder of methods"):
        package({}).add_folder(str(tmp_path / "absent"))


def test_a_folder_that_holds_none_is_an_error(package, tmp_path):
    """The project above its folder of methods: nothing is imported, and the folder that was meant is named."""
    registry = package({})
    files = {"main.py": "raise SystemExit('imported')", f"{registry.package}/x.py": good("x")}
    folder = folder_of(tmp_path / "project", files)
    says = rf"project: no file in this folder defines a method \(a class with a NAME\); .*/{registry.package} does"
    with pytest.raises(ValueError, match=says):
        registry.add_folder(folder)
    registry.add_folder(f"{folder}/{registry.package}")
    assert registry.get("x").NAME == "x"
    with pytest.raises(ValueError, match=r"a class with a NAME\)$"):
        registry.add_folder(folder_of(tmp_path / "empty", {}))
