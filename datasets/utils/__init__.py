"""The base of every benchmark, and how images become batches."""

from datasets.utils.items import set_default_from_args

__all__ = ["set_default_from_args"]
