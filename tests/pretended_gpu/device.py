"""A device that is made up: its tensors lie on the CPU and say that they do not, so that a machine without a GPU shows where code
mixes devices. Operations run on the CPU; one that a GPU would refuse raises as there. It cannot show a GPU's own numbers and speed.

Importing this makes the device known to torch, for the rest of the process.
"""

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

NAME = "pretended"
aten = torch.ops.aten
INDEXING = (aten.index.Tensor, aten.index_put.default, aten.index_put_.default, aten._index_put_impl_.default)
CPU = torch.device("cpu")
_Generator = torch.Generator


class _Backend:
    """What torch asks of a device's module; the global generator is the CPU's."""

    def is_available(self):
        return True

    is_initialized = is_available

    def _is_in_bad_fork(self):
        return False

    def device_count(self):
        return 1

    def current_device(self):
        return 0

    def manual_seed_all(self, seed):
        """The CPU's generator is seeded by `torch.manual_seed` itself."""

    def get_rng_state(self, device=0):
        return torch.get_rng_state()

    def set_rng_state(self, state, device=0):
        torch.set_rng_state(state)


backend_registration._setup_privateuseone_for_python_backend(NAME, backend_module=_Backend())
torch.inference_mode = torch.no_grad  # a wrapper made in inference mode has no version counter


class Pretended(Tensor):
    """A tensor on the made-up device; `raw` has the numbers."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, raw):
        place = {"strides": raw.stride(), "storage_offset": raw.storage_offset(), "dtype": raw.dtype}
        made = Tensor._make_wrapper_subclass(cls, raw.shape, device=torch.device(NAME, 0), **place)
        made.raw = raw
        return made

    @classmethod
    def __torch_dispatch__(cls, operation, types, args=(), kwargs=None):
        return _perform(operation, args, kwargs or {})

    def tolist(self):
        return self.raw.tolist()

    def __reduce_ex__(self, protocol):
        """In a file it is what `map_location="cpu"` would make of it."""
        return self.raw.__reduce_ex__(protocol)


def _is_away(device):
    return isinstance(device, torch.device) and device.type == NAME


def _perform(operation, args, kwargs):
    """Do an operation on the CPU; its result is on the device that it asks for, or on that of its tensors.

    Raises:
        RuntimeError: tensors of both devices, where CUDA takes them from one only.
    """
    leaves = tree_leaves((args, kwargs))
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    pretended = {id(tensor.raw): tensor for tensor in tensors if isinstance(tensor, Pretended)}
    strangers = [tensor for tensor in tensors if not isinstance(tensor, Pretended) and tensor.dim()]  # a number may be anywhere
    if pretended and strangers and operation is not aten.copy_.default and not _may_index(operation, args, strangers):
        where = ", ".join(f"{tuple(tensor.shape)} on {tensor.device}" for tensor in tensors)
        raise RuntimeError(f"{operation}: tensors on two devices: {where}")
    asked = next((leaf for leaf in leaves if isinstance(leaf, torch.device)), None)
    away = _is_away(asked) if asked is not None else bool(pretended)
    result = operation(*tree_map(_lowered, args), **tree_map(_lowered, kwargs))

    def lifted(leaf):
        if not isinstance(leaf, Tensor) or (asked is None and any(leaf is tensor for tensor in strangers)):
            return leaf
        return pretended[id(leaf)] if id(leaf) in pretended else Pretended(leaf)

    return tree_map(lifted, result) if away else result


def _may_index(operation, args, strangers):
    """Whether all tensors from the CPU are what one of the device is indexed with, as CUDA allows; not what is put there."""
    if operation not in INDEXING or not isinstance(args[0], Pretended):
        return False
    indexes = tree_leaves(args[1])
    return all(any(tensor is index for index in indexes) for tensor in strangers)


def _lowered(leaf):
    return leaf.raw if isinstance(leaf, Pretended) else CPU if _is_away(leaf) else leaf


class _Operations(TorchDispatchMode):
    """Every operation goes through `_perform`, those that make tensors too."""

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        return _perform(operation, args, kwargs or {})


class _Draws(TorchFunctionMode):
    """A generator has to be on the device of what it fills."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        generator = kwargs.get("generator")
        if generator is not None:
            of_tensor = next((leaf.device for leaf in args if isinstance(leaf, Tensor)), CPU)
            device = torch.device(kwargs.get("device") or of_tensor)
            if device.type != generator.device.type:
                raise RuntimeError(f"{function}: a generator on {generator.device} cannot fill a tensor on {device}")
        return function(*args, **kwargs)


class _AwayGenerator(_Generator):
    device = torch.device(NAME, 0)


class _Kind(type(_Generator)):
    def __call__(cls, device="cpu"):
        return _AwayGenerator() if _is_away(torch.device(device)) else _Generator()

    def __instancecheck__(cls, instance):
        return type.__instancecheck__(_Generator, instance)


class _Generators(_Generator, metaclass=_Kind):
    """What stands for `torch.Generator`: the real one cannot be made on a device without code in C++."""


class Machine:
    """A context in which the device is there."""

    def __enter__(self):
        self._modes = (_Operations(), _Draws())
        self._lifts = torch._C._only_lift_cpu_tensors()
        torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor(..., device=...) goes through the modes
        torch.Generator = _Generators
        for mode in self._modes:
            mode.__enter__()

    def __exit__(self, *error):
        for mode in reversed(self._modes):
            mode.__exit__(*error)
        torch.Generator = _Generator
        torch._C._set_only_lift_cpu_tensors(self._lifts)
