"""GEM: gradient episodic memory (Lopez-Paz and Ranzato 2017, arXiv 1706.08840). Written from the paper.

At each step g is the gradient on the stream batch and g_k the gradient on all remembered images of past task k. The step follows
the z nearest to g along which, to first order, no past task's loss rises:

    min_z 1/2 |z - g|^2   subject to   <z, g_k> >= 0 for each k.
"""

from argparse import ArgumentParser
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from scipy.linalg import solve_triangular
from scipy.optimize import nnls
from torch import Tensor, nn

from datasets.utils.continual_dataset import ContinualDataset
from models.memories.task_memory import images_per_task, random_images
from models.utils.continual_model import ContinualModel
from utils.args import number, whole
from utils.buffer import Buffer

Parameters = Callable[[], Iterable[nn.Parameter]]
EPSILON = 1e-3


def solve_dual(gram: np.ndarray, dots: np.ndarray, gamma: float, epsilon: float = EPSILON) -> np.ndarray:
    """Return v, which minimises 1/2 v'Pv + q'v subject to v >= gamma, with P = GG' + epsilon I and q = Gg.

    The dual of the projection, with the paper's memory strength gamma as lower bound. It is a non-negative least squares: put
    v = u + gamma 1, and the objective is 1/2 u'Pu + p'u + const with p = q + gamma P1 and u >= 0. With Cholesky's P = LL'
    (epsilon makes P positive definite) and b = -L^-1 p,

        1/2 |L'u - b|^2 = 1/2 u'LL'u - (Lb)'u + const = 1/2 u'Pu + p'u + const.

    Args:
        gram: GG', (tasks, tasks); row k of G is g_k.
        dots: Gg, (tasks,).
    """
    matrix = gram + epsilon * np.eye(len(gram))
    lower = np.linalg.cholesky(matrix)
    target = -solve_triangular(lower, dots + gamma * matrix.sum(1), lower=True)
    return nnls(lower.T, target)[0] + gamma


def project(gradient: Tensor, past: Tensor, gamma: float) -> Tensor:
    """Return z = g + G'v. `gradient`: g, (parameters,); `past`: G, (tasks, parameters). The dual is solved on the host.

    Where a gradient is not finite there is no such z: all NaN, so that the next loss shows that training has diverged.
    """
    rows = past.double()
    gram, dots = (rows @ rows.T).cpu().numpy(), (rows @ gradient.double()).cpu().numpy()
    if not (np.isfinite(gram).all() and np.isfinite(dots).all()):
        return torch.full_like(gradient, torch.nan)
    return gradient + torch.from_numpy(solve_dual(gram, dots, gamma)).to(past) @ past


def store_grad(params: Parameters, grads: Tensor, grad_dims: list[int]) -> None:
    """Write the gradients of `params()` into the flat vector `grads`; zero where there is none. `grad_dims`: their sizes."""
    for parameter, piece in zip(params(), grads.split(grad_dims), strict=True):
        if parameter.grad is None:
            piece.zero_()
        else:
            piece.copy_(parameter.grad.reshape(-1))


def overwrite_grad(params: Parameters, newgrad: Tensor, grad_dims: list[int]) -> None:
    """Write the flat vector `newgrad` over the gradients of `params()`; a parameter without one gets none."""
    for parameter, piece in zip(params(), newgrad.split(grad_dims), strict=True):
        if parameter.grad is not None:
            parameter.grad.copy_(piece.view(parameter.shape))


def flat_gradient(params: Parameters, grad_dims: list[int]) -> Tensor:
    """Return the gradients of `params()` as one new vector."""
    flat = torch.empty(sum(grad_dims), device=next(iter(params())).device)
    store_grad(params, flat, grad_dims)
    return flat


class Gem(ContinualModel):
    """Gradient episodic memory: the gradient is projected so that no past task's loss rises."""

    NAME = "gem"
    COMPATIBILITY = ["class-il", "domain-il", "task-il"]

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser:
        flag = parser.add_argument
        flag("--buffer_size", type=whole(), metavar="N", help="memory: images in total, shared equally by all tasks")
        flag("--buffer_per_class", type=whole(), metavar="N", help="memory: images per class")
        flag("--gamma", type=number(float, 0), default=0.5, metavar="X", help="memory strength: the dual's lower bound")
        parser.set_defaults(minibatch_size=None)  # no such flag: each step uses the whole memory
        return parser

    def __init__(self, backbone: Any, loss: Any, args: Any, transform: Any, dataset: Any = None) -> None:
        super().__init__(backbone, loss, args, transform, dataset=dataset)
        self.per_task = images_per_task(args.buffer_size, self.n_tasks)
        self.buffer = Buffer(args.buffer_size, device=self.device)
        self.grad_dims = [parameter.numel() for parameter in self.parameters()]
        self.rows_of_past: list[Tensor] = []

    def begin_task(self, dataset: ContinualDataset) -> None:
        """List the memory's rows by task."""
        if not self.buffer.is_empty():
            tasks = self.buffer.task_labels[: len(self.buffer)].cpu()
            self.rows_of_past = [(tasks == task).nonzero()[:, 0] for task in tasks.unique()]

    def observe(self, inputs: Tensor, labels: Tensor, not_aug_inputs: Tensor, epoch: int | None = None) -> dict[str, Tensor]:
        """One backward for each past task and one for the stream; project where a past task's loss would rise; step."""
        memories = [self.buffer.get_data_by_index(rows, self.transform)[:2] for rows in self.rows_of_past]
        past = [self.gradient(*memory)[1] for memory in memories]
        loss, gradient = self.gradient(inputs, labels)
        if past and ((rows := torch.stack(past)) @ gradient < 0).any():
            overwrite_grad(self.parameters, project(gradient, rows, self.args.gamma), self.grad_dims)
        self.opt.step()
        return {"loss": loss}

    def gradient(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss and its flat gradient, which also stands in the parameters."""
        self.opt.zero_grad()
        loss = self.loss(self.net(images), labels)
        loss.backward()
        return loss.detach(), flat_gradient(self.parameters, self.grad_dims)

    def end_task(self, dataset: ContinualDataset) -> None:
        """Remember random images of the task; no row is ever replaced."""
        images, labels = random_images(dataset, self.per_task)
        self.buffer.add_data(examples=images, labels=labels, task_labels=torch.full_like(labels, self.current_task))
