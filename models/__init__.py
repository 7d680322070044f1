"""Methods by name: every file here that defines a `ContinualModel` is one."""

from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

from backbone import MammothBackbone
from models.utils.continual_model import ContinualModel
from utils.registry import Registry

_registry: Registry[ContinualModel] = Registry("method", __name__, __path__, ContinualModel)


def get_model_names() -> dict[str, type[ContinualModel] | Exception]:
    """Return each method's class, or the exception that kept its file from loading, by name."""
    return _registry.entries()


def get_model_class(name: str | Namespace) -> type[ContinualModel]:
    """Return the class of a method.

    Raises:
        ValueError: no such method, or its file does not load; says which there are, or why.
    """
    return _registry.get(name.model if isinstance(name, Namespace) else name)


def add_models_path(folder: str) -> list[str]:
    """Look for methods in a folder too, before this one; returns the names of files here that it hides.

    Raises:
        ValueError: no such folder, or no method in it.
    """
    return _registry.add_folder(folder)


def added_folder(cls: type[ContinualModel]) -> Path | None:
    """Return the folder, of those added, that a method comes from; None for the methods here."""
    return _registry.folder(cls)


def register_model(name: str) -> Callable[[type[ContinualModel]], type[ContinualModel]]:
    """Decorate a class to make it a method without a file in `models/`."""
    return _registry.register(name)


def get_model(args: Namespace, backbone: MammothBackbone, loss: Callable[..., Any], transform: Any, dataset: Any) -> ContinualModel:
    """Build the method that `args.model` names.

    Raises:
        ValueError: a method of the user's folders cannot be built, for whatever reason; gives it.
    """
    cls = get_model_class(args)
    if added_folder(cls) is None:
        return cls(backbone, loss, args, transform, dataset)
    try:
        return cls(backbone, loss, args, transform, dataset)
    except ValueError:
        raise
    except Exception as error:  # whatever somebody's file raises, such as the lack of a package
        said = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        raise ValueError(f"the method {args.model} cannot be built: {said}\nLOG_LEVEL=DEBUG shows where.") from error


__all__ = [
    "ContinualModel", "add_models_path", "added_folder", "get_model", "get_model_class", "get_model_names", "register_model",
]  # fmt: skip
