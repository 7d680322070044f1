"""IID: one pass over all classes shuffled together; the reference of the online tables (Caccia et al. 2022).

With two batches a step (their `iid++`) it spends what a replay method spends: loss = CE(x, y) + CE(x2, y2), where (x2, y2) comes
from a second, independently shuffled pass over the same images.
"""

from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any

from torch import Tensor

from datasets.utils.continual_dataset import ContinualDataset
from datasets.utils.image_set import Batch, BatchLoader
from models.utils.continual_model import ContinualModel
from utils import randomness
from utils.args import number


class Iid(ContinualModel):
    """All classes shuffled together, one or two batches a step: the online reference."""

    NAME = "iid"
    COMPATIBILITY = ["class-il", "domain-il", "task-il"]

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser:
        parser.set_defaults(joint=1)
        parser.add_argument("--iid_batches", type=number(int, 1, 2), default=2, metavar="1|2", help="batches a step")
        return parser

    def begin_task(self, dataset: ContinualDataset) -> None:
        loader = dataset.train_loader
        assert loader is not None
        generator = randomness.generator("second_stream_order")
        self.second_loader = BatchLoader(loader.dataset, loader.batch_size, generator, loader.drop_last)
        self.second: Iterator[Batch] = iter(())

    def next_of_second(self) -> Batch:
        """Return the next batch of the second pass, which starts again when it ends."""
        batch = next(self.second, None)
        if batch is None:
            self.second = iter(self.second_loader)
            batch = next(self.second)
        return batch

    def get_extra_state(self) -> dict[str, Any]:
        """Return where the second pass stands; nothing before the first task."""
        return self.second_loader.state_dict() if hasattr(self, "second_loader") else {}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Go on with the second pass, once there is a task to go through."""
        if state and hasattr(self, "second_loader") and state["images"] == len(self.second_loader.dataset):
            self.second_loader.load_state_dict(state)
            self.second = iter(self.second_loader) if state["order"] is not None else iter(())

    def observe(self, inputs: Tensor, labels: Tensor, not_aug_inputs: Tensor, epoch: int | None = None) -> dict[str, Tensor]:
        """One step on one batch, or on the summed losses of two, each with its own forward pass."""
        self.opt.zero_grad()
        loss = first = self.loss(self.net(inputs), labels)
        if self.args.iid_batches == 2:
            more_inputs, more_labels = self.next_of_second()[:2]
            there = more_labels != -1
            if not there.all():  # images without a label are left out
                more_inputs, more_labels = more_inputs[there], more_labels[there]
            if len(more_labels):
                loss = first + self.loss(self.net(more_inputs), more_labels)
        loss.backward()
        self.opt.step()
        return {"loss": loss.detach(), "first": first.detach()}
