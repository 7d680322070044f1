"""Find classes by name in a package: one file each, and a broken file hurts nobody else."""

import difflib
import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")


def canonical(name: str) -> str:
    """Return a name as it is stored: lower case, `-` for `_`."""
    return name.strip().lower().replace("_", "-")


def nearest(name: str, names: Iterable[str], most: int = 3) -> str:
    """Return the words `did you mean ...?` with the closest names, or the names themselves if none is close."""
    names = sorted(names)
    close = difflib.get_close_matches(name, names, n=most, cutoff=0.5)
    return f"did you mean {' or '.join(close)}?" if close else f"there are: {', '.join(names)}"


def _defines_any(folder: Path) -> bool:
    """Whether a file in a folder may define an entry: it sets a NAME, or registers a class. Nothing is imported."""
    sources = (path.read_text(encoding="utf-8", errors="replace") for path in folder.glob("*.py") if path.is_file())
    return any(re.search(r"\bNAME\b|\bregister_(model|dataset)\b", source) for source in sources)


class Registry(Generic[T]):
    """The subclasses of `base` defined by the modules directly inside a package.

    Args:
        kind: what to call an entry in messages.
        package: the package's name; `path`: its folders.
        base: the class whose subclasses with a `NAME` are entries.
    """

    def __init__(self, kind: str, package: str, path: Iterable[str], base: type[T]) -> None:
        self.kind = kind
        self.package = package
        self.path = list(path)
        self.own = list(path)
        self.base = base
        self._entries: dict[str, type[T] | Exception] = {}
        self._scanned = False

    def register(self, name: str) -> Callable[[type[T]], type[T]]:
        """Return a decorator that adds a class under a name, its NAME where it has none. Raises ValueError if the name is taken."""

        def add(cls: type[T]) -> type[T]:
            key = canonical(name)
            if self._entries.get(key, cls) is not cls:
                raise ValueError(f"two {self.kind}s are named {key!r}")
            if not getattr(cls, "NAME", None):
                setattr(cls, "NAME", key)  # noqa: B010 - not every base has one
            self._entries[key] = cls
            return cls

        return add

    def add_folder(self, folder: str) -> list[str]:
        """Make a folder's files modules of the package, found before those of the same name in the project.

        Its sub-folders with the name of a sub-package are searched after the project's.

        Returns:
            The names of the project's files that it hides.

        Raises:
            ValueError: no such folder, or nothing in it that could be an entry.
        """
        path = Path(folder).expanduser().resolve()
        if not path.is_dir():
            raise ValueError(f"{folder}: no such folder of {self.kind}s")
        if str(path) in self.path:
            return []
        if not _defines_any(path):
            below = f"; {path / self.package} does" if _defines_any(path / self.package) else ""
            raise ValueError(f"{folder}: no file in this folder defines a {self.kind} (a class with a NAME){below}")
        own = {module.name: module.ispkg for module in pkgutil.iter_modules(self.own)}
        for paths in (self.path, importlib.import_module(self.package).__path__):
            paths.insert(len(paths) - len(self.own), str(path))
        hidden = [module.name for module in pkgutil.iter_modules([str(path)]) if not module.ispkg and module.name in own]
        for stem in hidden:
            self._forget(f"{self.package}.{stem}")
        for stem in (name for name, is_package in own.items() if is_package and (path / name).is_dir()):
            importlib.import_module(f"{self.package}.{stem}").__path__.append(str(path / stem))
        importlib.invalidate_caches()
        self._scanned = False
        return hidden

    def _forget(self, module: str) -> None:
        """Drop a module that was imported already, and the classes that it gave."""
        sys.modules.pop(module, None)
        self._entries = {name: entry for name, entry in self._entries.items() if getattr(entry, "__module__", "") != module}

    def folder(self, cls: type) -> Path | None:
        """Return the folder added by the user that a class comes from; None for the project's own and registered ones."""
        file = Path(getattr(sys.modules.get(cls.__module__), "__file__", None) or "/")
        added = [Path(path) for path in self.path if path not in self.own]
        return file.parent if file.parent in added else None

    def entries(self) -> dict[str, type[T] | Exception]:
        """Return every entry by name, sorted; a file that failed to load stands under its own name with its exception."""
        if not self._scanned:
            self._scanned = True
            for module in pkgutil.iter_modules(self.path):
                if not module.ispkg:
                    self._load(module.name)
        return dict(sorted(self._entries.items()))

    def _load(self, stem: str) -> None:
        try:
            module = importlib.import_module(f"{self.package}.{stem}")
            for cls in vars(module).values():
                if inspect.isclass(cls) and issubclass(cls, self.base) and cls.__module__ == module.__name__:
                    name = getattr(cls, "NAME", None)
                    if name:
                        self.register(name)(cls)
        except Exception as error:  # noqa: BLE001 - whatever somebody's file raises, the other files must load
            self._entries.setdefault(canonical(stem), error)

    def get(self, name: str) -> type[T]:
        """Return the class of that name.

        Raises:
            ValueError: unknown (names the nearest), or its file does not load (gives the reason).
        """
        key = canonical(name)
        stem = key.replace("-", "_")
        added = [path for path in self.path if path not in self.own]
        first = pkgutil.iter_modules(added or self.path)  # a name given in the user's files wins over the project's
        if key not in self._entries and any(module.name == stem for module in first):
            self._load(stem)
        entry = self._entries.get(key) or self.entries().get(key)
        if entry is None:
            raise ValueError(f"unknown {self.kind} {name!r}; {nearest(key, self.entries())}")
        if isinstance(entry, Exception):
            raise ValueError(f"{self.kind} {name!r} does not load: {type(entry).__name__}: {entry}") from entry
        return entry
