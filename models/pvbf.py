"""PVBF: Parameter Variation Balancing Framework (Tao et al. 2025, arXiv 2502.17794).

Experience replay with three parts: an asymmetric cross-entropy (ACE); Encourage and Consolidate (E&C), which divides each gradient
by the parameter's correlation with past tasks; and Dual-layer Copy Weights with Re-init (D-CWR), a slow copy of the classifier.
Section and equation numbers are the paper's. Where its text leaves a choice, `docs/pvbf.md` says which was taken and why.
The file uses nothing but Mammoth's interface, so it runs unchanged in upstream Mammoth.
"""

from argparse import ArgumentParser, Namespace
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.utils.continual_model import ContinualModel
from utils.args import add_rehearsal_args
from utils.buffer import Buffer


def parameter_variation(before: Tensor, after: Tensor) -> Tensor:
    """Section 3.1, eq. 1: delta_{m,k} = |theta_{m,k} - theta_{m,k-1}|."""
    return (after - before).abs()


def relative_ratio(delta: Tensor) -> Tensor:
    """Eq. 3 (RR): delta_m / mean(delta)."""
    return _over(delta, delta.mean())


def z_score(delta: Tensor) -> Tensor:
    """Eq. 4 (ZS): (delta_m - mean(delta)) / sigma, with the population's sigma."""
    return _over(delta - delta.mean(), delta.std(correction=0))


def robust_scale(delta: Tensor) -> Tensor:
    """Eq. 5 (RS): (delta_m - median(delta)) / IQR(delta), quartiles by linear interpolation."""
    low, median, high = torch.from_numpy(np.quantile(delta.cpu().numpy(), [0.25, 0.5, 0.75])).to(delta)
    return _over(delta - median, high - low)


def _over(numerator: Tensor, scale: Tensor) -> Tensor:
    """Divide; a scale of zero (all changes equal) leaves the numerator as it is."""
    return numerator / torch.where(scale > 0, scale, torch.ones_like(scale))


STANDARDIZATIONS = {"rr": relative_ratio, "zs": z_score, "rs": robust_scale}
DIAGNOSTICS = ("mean_C", "mean_1/C", "share_below_mean", "largest_relative_change")


def parameter_correlation(relative: Tensor, alpha: float, beta: float) -> Tensor:
    """Section 3.3, eq. 7: C_m = (delta'_m - min delta') / (max delta' - min delta') (beta - alpha) + alpha."""
    low, high = relative.min(), relative.max()
    return _over(relative - low, high - low) * (beta - alpha) + alpha


def trainable(net: nn.Module) -> list[nn.Parameter]:
    """Return the parameters that take part: all that are trained. Running statistics are no parameters."""
    return [parameter for parameter in net.parameters() if parameter.requires_grad]


def flat_parameters(net: nn.Module) -> Tensor:
    """Return theta, all trainable parameters as one vector."""
    return torch.cat([parameter.detach().reshape(-1) for parameter in trainable(net)])


def _module_sizes(net: nn.Module) -> list[int]:
    """Return the number of trainable parameters that each module owns, in theta's order."""
    owned = [(name.rpartition(".")[0], p.numel()) for name, p in net.named_parameters() if p.requires_grad]
    return [sum(size for _, size in group) for _, group in groupby(owned, key=lambda pair: pair[0])]


class ParameterCorrelation(nn.Module):
    """ParamCC and E&C (Algorithm 1, sections 3.3 and 3.4): C of each parameter with the tasks so far, and gradients divided by it.

    For any module: `begin_task(net)` before a task's first step, `scale_gradients_(net)` between `backward` and the optimiser's
    step, `end_task(net)` after its last step. `net` itself is not kept.

    Args: alpha, beta, the range of C (0 < alpha <= beta, else ValueError); scaling: `rr`, `zs` or `rs`, over all parameters or
    `by_module`; uniform: the control, gradients are divided by the harmonic mean of all C, so that they all grow alike.
    """

    previous: Tensor
    correlation: Tensor

    def __init__(
        self,
        net: nn.Module,
        alpha: float = 0.5,
        beta: float = 2.0,
        scaling: str = "rr",
        by_module: bool = False,
        uniform: bool = False,
    ) -> None:
        super().__init__()
        if not 0 < alpha <= beta < torch.inf:
            raise ValueError(f"PVBF needs 0 < alpha <= beta (gradients are divided by C), not alpha={alpha}, beta={beta}")
        self.alpha, self.beta, self.uniform = alpha, beta, uniform
        self.standardize = STANDARDIZATIONS[scaling]
        self.layers = _module_sizes(net) if by_module else None
        self.register_buffer("previous", torch.zeros_like(flat_parameters(net)))  # theta_{k-1}
        self.register_buffer("correlation", torch.zeros_like(self.previous))  # C; zeros until a task has ended
        self._divisors: list[Tensor] = []
        self._made_of: tuple[Tensor | None, int] = (None, 0)  # the tensor and version that the divisors were made of
        self.diagnostics: dict[str, float] = {}

    def begin_task(self, net: nn.Module) -> None:
        """Keep theta_{k-1}."""
        self.previous.copy_(flat_parameters(net))

    def end_task(self, net: nn.Module) -> None:
        """Eqs. 1-8: measure this task's variation, and keep C_m = max over the tasks so far."""
        delta = parameter_variation(self.previous, flat_parameters(net)).cpu().double()
        relative = torch.cat([self.standardize(piece) for piece in delta.split(self.layers or len(delta))])
        correlation = parameter_correlation(relative, self.alpha, self.beta).maximum(self.correlation.cpu().double())
        self.correlation.copy_(correlation)
        ratio = relative_ratio(delta)
        measures = correlation.mean(), (1 / correlation).mean(), (ratio < 1).double().mean(), ratio.max()
        self.diagnostics = {name: float(value) for name, value in zip(DIAGNOSTICS, measures, strict=True)}

    @torch.no_grad()
    def scale_gradients_(self, net: nn.Module) -> None:
        """Eq. 9: g'_m = g_m / C_m, in place; nothing in the first task, when there is no C yet."""
        divisors = self._by_parameter(net)
        pairs = [(p.grad, c) for p, c in zip(trainable(net), divisors, strict=bool(divisors)) if p.grad is not None]
        if pairs:
            torch._foreach_div_([grad for grad, _ in pairs], [divisor for _, divisor in pairs])

    def _by_parameter(self, net: nn.Module) -> list[Tensor]:
        """Return C cut into the parameters' shapes and memory layouts, made anew only when C has changed."""
        if self._made_of[0] is not self.correlation or self._made_of[1] != self.correlation._version:
            known = bool(self.correlation.any())
            value = (1 / (1 / self.correlation).mean()).expand_as(self.correlation) if self.uniform else self.correlation
            pieces = zip(trainable(net), value.split([p.numel() for p in trainable(net)]), strict=True)
            self._divisors = [torch.empty_like(p).copy_(c.view(p.shape)) for p, c in pieces] if known else []
            self._made_of = (self.correlation, self.correlation._version)
        return self._divisors


def asymmetric_cross_entropy(logits: Tensor, labels: Tensor, n_seen: int | None = None) -> Tensor:
    """Section 3.2, eq. 6, term by term: L^re, cross-entropy over the `n_seen` classes met so far; else L^in, the batch's own."""
    if n_seen is not None:
        return F.cross_entropy(logits[:, :n_seen], labels)
    present = torch.zeros(logits.shape[1], dtype=torch.bool, device=logits.device).index_fill_(0, labels, True)
    return F.cross_entropy(logits.masked_fill(~present, -torch.inf), labels)


def sensory_memory(rows: Tensor, members: Tensor) -> Tensor:
    """Section 3.5, eq. 10: M^s_j = w_j - sum_{k in S} w_k / |S|; rows (classes, features), members: times each class is in S."""
    members = members.to(rows.dtype)
    return rows - (members @ rows) / members.sum()


def retention_coefficients(past: Tensor, occurrences: Tensor) -> tuple[Tensor, Tensor]:
    """Eq. 13: eta^c_j = P_j / U_j, eta^l_j = sqrt(P_j / U_j); infinite (keep all) for a class that is not in the step."""
    ratio = torch.where(occurrences > 0, past / occurrences.clamp(min=1), torch.inf)
    return ratio, ratio.sqrt()


def consolidate(memory: Tensor, new: Tensor, eta: Tensor) -> Tensor:
    """Eqs. 11 and 12: (M_j eta_j + new_j) / (eta_j + 1), written as M_j + (new_j - M_j) / (eta_j + 1)."""
    return memory + (new - memory) / (eta + 1)[:, None]


class DualLayerCWR(nn.Module):
    """D-CWR (Algorithm 2): sensory, short-term and long-term memory of each row of a linear classifier `head`, which is not kept.

    Args: p, probability that a class's sensory memory enters its short-term memory in a step (outside [0, 1]: ValueError);
    bias: keep the bias as one more column of the rows; seed: of the draws of epsilon; by_image: S in eq. 10 has a class as often
    as the step has images of it, not once.
    """

    sensory: Tensor
    short_term: Tensor
    long_term: Tensor
    occurrences: Tensor

    def __init__(self, head: nn.Linear, p: float = 0.9, bias: bool = True, seed: int = 0, by_image: bool = True) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"D-CWR's p is a probability, from 0 to 1, not {p}")
        self.p, self.bias, self.by_image = p, bias and head.bias is not None, by_image
        rows = self._rows(head)
        for name in ("sensory", "short_term", "long_term"):  # M^s, M^c, M^l
            self.register_buffer(name, torch.zeros_like(rows))
        self.register_buffer("occurrences", rows.new_zeros(len(rows)))  # P
        self.generator = torch.Generator().manual_seed(seed)

    def _rows(self, head: nn.Linear) -> Tensor:
        """Return (classes, features [+ 1]): the weights, and the bias as last column where it takes part."""
        weight = head.weight.detach()
        return torch.cat([weight, head.bias.detach()[:, None]], 1) if self.bias else weight

    @torch.no_grad()
    def update(self, head: nn.Linear, labels: Tensor) -> None:
        """One step of Algorithm 2 for the classes in `labels` (stream and replay together), eqs. 10-13."""
        ones = torch.ones_like(labels, dtype=self.occurrences.dtype)
        in_step = torch.zeros_like(self.occurrences).index_add_(0, labels, ones)  # U
        eta_short, eta_long = retention_coefficients(self.occurrences, in_step)
        epsilon = torch.rand(len(in_step), generator=self.generator).to(labels.device, non_blocking=True)
        eta_short = torch.where(epsilon < self.p, eta_short, torch.inf)  # an infinite eta retains M^c (eq. 11)
        members = in_step if self.by_image else in_step > 0
        self.sensory.copy_(torch.where(in_step[:, None] > 0, sensory_memory(self._rows(head), members), self.sensory))
        self.short_term.copy_(consolidate(self.short_term, self.sensory, eta_short))
        self.long_term.copy_(consolidate(self.long_term, self.short_term, eta_long))
        self.occurrences += in_step

    @torch.no_grad()
    def write_back(self, head: nn.Linear) -> None:
        """Algorithm 2, last line: w <- M^l, all rows; those of classes never met become zero."""
        width = head.weight.shape[1]
        head.weight.copy_(self.long_term[:, :width])
        if self.bias:
            head.bias.copy_(self.long_term[:, width])

    def predict(self, head: nn.Linear, features: Tensor) -> Tensor:
        """Return the logits (batch, classes) that M^l gives; the head's own before the first update."""
        width, started = head.weight.shape[1], self.occurrences.sum() > 0
        weight = torch.where(started, self.long_term[:, :width], head.weight)
        bias = torch.where(started, self.long_term[:, width], head.bias) if self.bias else head.bias
        return F.linear(features, weight, bias)

    def get_extra_state(self) -> Tensor:  # epsilon's generator goes into `state_dict` with the memories
        return self.generator.get_state()

    def set_extra_state(self, state: Tensor) -> None:
        self.generator.set_state(state.cpu())


class Pvbf(ContinualModel):
    """Parameter Variation Balancing Framework: replay with ACE, E&C and D-CWR."""

    NAME = "pvbf"
    COMPATIBILITY = ["class-il", "domain-il", "task-il"]

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser:
        add_rehearsal_args(parser)
        flag = parser.add_argument
        flag("--pvbf_alpha", type=float, default=0.5, help="least correlation C (eq. 7)")
        flag("--pvbf_beta", type=float, default=2.0, help="largest correlation C (eq. 7)")
        flag("--pvbf_p", type=float, default=0.9, help="D-CWR: chance that sensory enters short-term memory (eq. 11)")
        flag("--standardization", choices=["rr", "zs", "rs"], default="rr", help="of the variation (eqs. 3-5)")
        flag("--standardization_scope", choices=["global", "layer"], default="global", help="over all, or module by module")
        flag("--ec", choices=["0", "1", "mean"], default="1", help="E&C; mean: the control, every C their harmonic mean")
        flag("--ace", type=int, choices=[0, 1], default=1, help="ACE; 0: plain cross-entropy on stream and replay")
        flag("--dcwr", type=int, choices=[0, 1], default=1, help="D-CWR")
        flag("--dcwr_apply", choices=["predict", "task", "step"], default="predict", help="where M^l is used (docs/pvbf.md)")
        flag("--dcwr_bias", type=int, choices=[0, 1], default=1, help="D-CWR covers the bias too")
        flag("--dcwr_mean", choices=["images", "classes"], default="images", help="of eq. 10, over the step's images or classes")
        return parser

    def __init__(self, backbone: Any, loss: Any, args: Namespace, transform: Any, dataset: Any = None) -> None:
        super().__init__(backbone, loss, args, transform, dataset=dataset)
        self.buffer = Buffer(args.buffer_size, device=self.device)
        switches = (args.standardization, args.standardization_scope == "layer", args.ec == "mean")
        self.correlation = ParameterCorrelation(self.net, args.pvbf_alpha, args.pvbf_beta, *switches)
        seed = args.seed if args.seed is not None else torch.initial_seed() % 2**63
        by_image = args.dcwr_mean == "images"
        self.dcwr = DualLayerCWR(self.net.classifier, args.pvbf_p, bool(args.dcwr_bias), seed, by_image)
        self.to(self.device)

    def begin_task(self, dataset: Any) -> None:
        self.correlation.begin_task(self.net)

    def observe(self, inputs: Tensor, labels: Tensor, not_aug_inputs: Tensor, epoch: int | None = None) -> dict[str, Tensor]:
        """One step: stream and replay forward apart, gradients divided by C, SGD, D-CWR, then the reservoir."""
        self.opt.zero_grad()
        trained, losses = labels, {"stream": self.term(self.net(inputs), labels)}
        if self.current_task > 0 and not self.buffer.is_empty():
            images, past_labels = self.buffer.get_data(self.args.minibatch_size, transform=self.transform, device=self.device)
            losses["replay"] = self.term(self.net(images), past_labels, self.n_seen_classes)
            trained = torch.cat([labels, past_labels])
        loss = sum(losses.values(), torch.zeros(()))
        loss.backward()
        if self.args.ec != "0":
            self.correlation.scale_gradients_(self.net)
        self.opt.step()
        if self.args.dcwr:
            self.dcwr.update(self.net.classifier, trained)
        if self.args.dcwr and self.args.dcwr_apply == "step":
            self.dcwr.write_back(self.net.classifier)
        self.buffer.add_data(examples=not_aug_inputs, labels=labels)
        return {"loss": loss.detach(), **{name: part.detach() for name, part in losses.items()}}

    def term(self, logits: Tensor, labels: Tensor, n_seen: int | None = None) -> Tensor:
        """Return a term of eq. 6, or plain cross-entropy without ACE."""
        return asymmetric_cross_entropy(logits, labels, n_seen) if self.args.ace else F.cross_entropy(logits, labels)

    def end_task(self, dataset: Any) -> None:
        self.correlation.end_task(self.net)
        self.diagnostics = self.correlation.diagnostics
        if self.args.dcwr and self.args.dcwr_apply == "task":  # after C, as Algorithm 1 has it
            self.dcwr.write_back(self.net.classifier)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (batch, classes); in evaluation with `--dcwr_apply predict`, those that M^l gives."""
        if self.net.training or not self.args.dcwr or self.args.dcwr_apply != "predict":
            return self.net(x)
        return self.dcwr.predict(self.net.classifier, self.net(x, returnt="features"))
