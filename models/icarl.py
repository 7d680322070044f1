"""iCaRL: nearest class mean over a memory, with distillation (Rebuffi et al. 2017, arXiv 1611.07725), in two variants.

Online (Caccia et al. 2022, their code): reservoir memory; the stream is learnt, the memory only distilled.
Offline (Buzzega et al. 2020, their code): several passes over the task merged with the exemplars, which herding chooses when a
task ends. Sections and algorithms are those of Rebuffi et al.
"""

import copy
from argparse import ArgumentParser
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from datasets.utils.continual_dataset import ContinualDataset
from datasets.utils.image_set import ImageSet
from models.utils.replay_model import ReplayModel
from utils.args import number, one_of

CHUNK = 256  # images in a forward pass that trains nothing
NEVER = -1e9  # score of a class without images


def binary_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Online: binary cross-entropy summed over the outputs, a mean over the batch. Both (batch, classes)."""
    return F.binary_cross_entropy_with_logits(logits, targets, reduction="sum") / len(logits)


def incremental_targets(labels: Tensor, old_logits: Tensor, n_past: int, n_seen: int) -> Tensor:
    """Section 2.3, Algorithm 3: sigmoid(old net) for the past outputs, one-hot for the task's own, (batch, n_seen)."""
    targets = F.one_hot(labels, old_logits.shape[1]).to(old_logits.dtype)
    return torch.cat([old_logits[:, :n_past].sigmoid(), targets[:, n_past:n_seen]], 1)


def class_means(features: Tensor, labels: Tensor, n_classes: int) -> tuple[Tensor, Tensor]:
    """Section 2.2: mean feature of each class, (classes, features), and which classes there are, (classes,) bool."""
    sums = features.new_zeros(n_classes, features.shape[1]).index_add_(0, labels, features)
    counts = features.new_zeros(n_classes).index_add_(0, labels, features.new_ones(len(labels)))
    return sums / counts.clamp(min=1)[:, None], counts > 0


def nearest_mean_scores(features: Tensor, means: Tensor, present: Tensor) -> Tensor:
    """Section 2.2, eq. 2: minus the Euclidean distance to each class mean, (batch, classes); absent classes never win."""
    distances = torch.cdist(features, means, compute_mode="donot_use_mm_for_euclid_dist")
    return torch.where(present, -distances, NEVER)


def herding(features: Tensor, count: int) -> Tensor:
    """Section 2.4, Algorithm 4: pick, one by one, the image that brings the mean of those picked closest to the class mean mu.

    p_k = argmin_x || mu - (phi(x) + sum_{j<k} phi(p_j)) / k ||, each image at most once. features: (images, features).

    Returns:
        (min(count, images),) indices in the order of choice: any prefix is the best shorter set.
    """
    mean, total = features.mean(0), torch.zeros_like(features[0])
    taken = torch.zeros(len(features), dtype=torch.bool, device=features.device)
    chosen = []
    for k in range(1, min(count, len(features)) + 1):
        gaps = (mean - (features + total) / k).square().sum(1)
        best = int(gaps.masked_fill(taken, torch.inf).argmin())
        chosen.append(best)
        taken[best] = True
        total = total + features[best]
    return torch.tensor(chosen, dtype=torch.int64, device=features.device)


def split_evenly(size: int, n_classes: int) -> list[int]:
    """Return each class's share of a memory: size // n_classes, and one more for as many of the first as the rest allows."""
    share, rest = divmod(size, n_classes)
    return [share + (label < rest) for label in range(n_classes)]


class FrozenCopy(nn.Module):
    """A network as it is now, in eval mode whatever mode its owner is in.

    Its parameters are buffers: `state_dict` carries them, `parameters()` does not list them, and no gradient reaches them.
    """

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = copy.deepcopy(net)
        for module in self.net.modules():
            for name, parameter in list(module.named_parameters(recurse=False)):
                delattr(module, name)
                module.register_buffer(name, parameter.detach())
        self.train(False)

    def train(self, mode: bool = True) -> "FrozenCopy":
        return super().train(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


class Icarl(ReplayModel):
    """iCaRL: prediction by the nearest class mean of a memory, and distillation from the network before the task."""

    NAME = "icarl"
    COMPATIBILITY = ["class-il", "task-il"]

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser:
        ReplayModel.get_parser(parser)
        flag = parser.add_argument
        modes = one_of("online", "offline")
        flag("--icarl_mode", type=modes, default="online", metavar="NAME", help="online: reservoir; offline: herded exemplars")
        flag("--wd_reg", type=number(float, 0), default=0.0, metavar="X", help="adds X times the sum of squared parameters")
        return parser

    def __init__(self, *parts: Any, **options: Any) -> None:
        super().__init__(*parts, **options)
        self.offline = self.args.icarl_mode == "offline"
        self.old_net = FrozenCopy(self.net)
        self.means: tuple[Tensor, Tensor] | None = None  # made when first asked for after a change
        self.register_load_state_dict_post_hook(_forget_means)

    def begin_task(self, dataset: ContinualDataset) -> None:
        """Keep the network as it is; offline, put the exemplars among the task's images."""
        super().begin_task(dataset)
        self.old_net = FrozenCopy(self.net)
        if self.offline and not self.buffer.is_empty():
            images = _images_of(dataset)
            exemplars, labels = self.buffer.get_all_data(device=images.device)[:2]
            images.append(exemplars, labels)

    def observe(self, inputs: Tensor, labels: Tensor, not_aug_inputs: Tensor, epoch: int | None = None) -> dict[str, Tensor]:
        """One step; the class means are out of date after it."""
        self.means = None
        return super().observe(inputs, labels, not_aug_inputs, epoch)

    def losses(self, inputs: Tensor, labels: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        logits, losses = self.offline_losses(inputs, labels) if self.offline else super().losses(inputs, labels)
        if self.args.wd_reg:
            losses["decay"] = self.args.wd_reg * self.net.get_params().square().sum()
        return logits, losses

    def stream_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Online: each output against the one-hot label."""
        return binary_loss(logits, F.one_hot(labels, logits.shape[1]).to(logits.dtype))

    def replay_losses(self) -> dict[str, Tensor]:
        """Online: each output against that of the network before the task; the label plays no part."""
        images = self.draw()[0]
        return {"distillation": binary_loss(self.net(images), self.old_net(images).sigmoid())}

    def offline_losses(self, inputs: Tensor, labels: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Offline: binary cross-entropy, a mean over batch and seen outputs, on the task's images and exemplars alike."""
        logits = self.net(inputs)
        targets = incremental_targets(labels, self.old_net(inputs), self.n_past_classes, self.n_seen_classes)
        loss = F.binary_cross_entropy_with_logits(logits[:, : self.n_seen_classes], targets)
        return logits, {"stream": loss}

    def remember(self, images: Tensor, labels: Tensor, logits: Tensor) -> None:
        if not self.offline:
            super().remember(images, labels, logits)

    def end_task(self, dataset: ContinualDataset) -> None:
        """Offline: share the memory out over all classes seen, and fill it."""
        if self.offline:
            self.keep_exemplars(_images_of(dataset))

    def keep_exemplars(self, images: ImageSet) -> None:
        """Algorithms 4 and 5: cut each old class down to its first exemplars, herd those of the task's own classes."""
        kept = []
        for label, share in enumerate(split_evenly(self.buffer.buffer_size, self.n_seen_classes)):
            if label < self.n_past_classes:
                if self.buffer.is_empty():
                    continue
                slots = (self.buffer.labels[: len(self.buffer)] == label).nonzero()[:share, 0]
                kept.append((label, self.buffer.get_data_by_index(slots)[0]))
                continue
            indexes = (images.targets == label).nonzero()[:, 0]
            if share and len(indexes):
                features = self.features(images.images(some) for some in indexes.split(CHUNK))
                kept.append((label, images.images(indexes[herding(features, share).to(indexes.device)]).to(self.device)))
        if not kept:  # no image so far has a label
            return
        labels = torch.cat([torch.full((len(rows),), label, device=self.device) for label, rows in kept])
        self.buffer.empty()
        self.buffer.add_data(examples=torch.cat([rows for _, rows in kept]), labels=labels)
        self.means = None

    @torch.no_grad()
    def features(self, batches: Iterable[Tensor]) -> Tensor:
        """Return the penultimate features in eval mode, not normalised, of images in [0, 1]."""
        normalise = getattr(self, "normalization_transform", None) or nn.Identity()
        training = self.net.training
        self.net.eval()
        features = torch.cat([self.net(normalise(batch.to(self.device)), returnt="features") for batch in batches])
        self.net.train(training)
        return features

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        """Return minus the distance to each class mean, (batch, classes); the network's logits while the memory is empty."""
        if self.buffer.is_empty():
            return self.net(x)
        if self.means is None:
            chunks = torch.arange(len(self.buffer)).split(CHUNK)
            features = self.features(self.buffer.get_data_by_index(some)[0] for some in chunks)
            labels = self.buffer.labels[: len(self.buffer)].to(features.device)
            self.means = class_means(features, labels, self.net.classifier.out_features)
        return nearest_mean_scores(self.net(x, returnt="features"), *self.means)


def _forget_means(model: Any, keys: Any) -> None:
    model.means = None


def _images_of(dataset: ContinualDataset) -> ImageSet:
    """Return the images that this task's loader goes through; changes to them take effect."""
    assert dataset.train_loader is not None
    return dataset.train_loader.dataset
