"""PVBF: Parameter Variation Balancing Framework (Tao et al. 2025, arXiv 2502.17794).

Experience replay with three parts: an asymmetric cross-entropy (ACE); Encourage and Consolidate (E&C), which divides each gradient by
the parameter's correlation with past tasks; and Dual-layer Copy Weights with Re-init (D-CWR), a slow copy of the classifier.
Section and equation numbers are the paper's. Where its text leaves a choice, `docs/pvbf.md` says which was taken and why.

The file uses nothing but Mammoth's interface, so it runs unchanged in upstream Mammoth.
"""

from argparse import ArgumentParser

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.utils.continual_model import ContinualModel
from utils.args import add_rehearsal_args
from utils.buffer import Buffer

# -- section 3.1: how much each parameter varied ---------------------------------------------------------------------------


def parameter_variation(before: Tensor, after: Tensor) -> Tensor:
    """Eq. 1: delta_{m,k} = |theta_{m,k} - theta_{m,k-1}|. All flat, (parameters,)."""
    return (after - before).abs()


def relative_ratio(delta: Tensor) -> Tensor:
    """Eq. 3 (RR): delta_m / mean(delta)."""
    return _over(delta, delta.mean())


def z_score(delta: Tensor) -> Tensor:
    """Eq. 4 (ZS): (delta_m - mean(delta)) / sigma, with the population's sigma."""
    return _over(delta - delta.mean(), delta.std(correction=0))


def robust_scale(delta: Tensor) -> Tensor:
    """Eq. 5 (RS): (delta_m - median(delta)) / IQR(delta), quartiles by linear interpolation."""
    ordered = delta.sort().values
    low, median, high = (_quantile(ordered, share) for share in (0.25, 0.5, 0.75))
    return _over(delta - median, high - low)


def _over(numerator: Tensor, scale: Tensor) -> Tensor:
    """Divide, unless the scale is zero (all changes equal): then leave the numerator as it is."""
    return numerator / torch.where(scale > 0, scale, torch.ones_like(scale))


def _quantile(ordered: Tensor, share: float) -> Tensor:
    """Interpolated quantile of a sorted vector; `torch.quantile` stops at 16 million values, and networks do not."""
    place = share * (len(ordered) - 1)
    below, above = ordered[int(place)], ordered[min(int(place) + 1, len(ordered) - 1)]
    return torch.lerp(below, above, place - int(place))


STANDARDIZATIONS = {"rr": relative_ratio, "zs": z_score, "rs": robust_scale}

# -- section 3.3: correlation with past tasks; section 3.4: E&C ------------------------------------------------------------


def parameter_correlation(relative: Tensor, alpha: float, beta: float) -> Tensor:
    """Eq. 7: C_{m,k} = (delta'_m - min V) / (max V - min V) (beta - alpha) + alpha, V all relative changes.

    Where all changes are equal, nothing stands out: C = alpha.
    """
    low, high = relative.min(), relative.max()
    return _over(relative - low, high - low) * (beta - alpha) + alpha


class ParameterCorrelation(nn.Module):
    """ParamCC and E&C (Algorithm 1): C of each parameter with the tasks so far, and gradients divided by it.

    Use with any module: `begin_task(net)` before a task's first step, `scale_gradients_(net)` between `backward` and the
    optimiser's step, `end_task(net)` after the task's last step.

    Args:
        net: the network, for its trainable parameters' shapes; it is not kept.
        alpha, beta: range of C, 0 < alpha <= beta.
        standardization: `rr`, `zs` or `rs`; scope: over all parameters (`global`) or module by module (`layer`).
        uniform: the control: after each task every C becomes the harmonic mean, so that all gradients grow alike.

    Raises:
        ValueError: a value out of range.
    """

    previous: Tensor
    correlation: Tensor

    def __init__(
        self,
        net: nn.Module,
        alpha: float = 0.5,
        beta: float = 2.0,
        standardization: str = "rr",
        scope: str = "global",
        uniform: bool = False,
    ) -> None:
        super().__init__()
        if not 0 < alpha <= beta:
            raise ValueError(f"PVBF needs 0 < alpha <= beta (gradients are divided by C), not alpha={alpha}, beta={beta}")
        self.alpha, self.beta, self.uniform = alpha, beta, uniform
        self.standardize = STANDARDIZATIONS[standardization]
        self.layers = _module_sizes(net) if scope == "layer" else None
        self.register_buffer("previous", torch.zeros_like(flat_parameters(net)))  # theta_{k-1}
        self.register_buffer("correlation", torch.zeros_like(self.previous))  # C; zeros until a task has ended
        self._divisors: list[Tensor] = []
        self._divisors_of: tuple[int, int] | None = None
        self.diagnostics: dict[str, float] = {}

    def begin_task(self, net: nn.Module) -> None:
        """Keep theta_{k-1}."""
        self.previous.copy_(flat_parameters(net))

    def end_task(self, net: nn.Module) -> None:
        """Eqs. 1-8: measure this task's variation, and keep C_m = max over the tasks so far."""
        delta = parameter_variation(self.previous, flat_parameters(net)).cpu().double()
        pieces = delta.split(self.layers) if self.layers else [delta]
        relative = torch.cat([self.standardize(piece) for piece in pieces])
        past = self.correlation.cpu().double()
        correlation = torch.maximum(past, parameter_correlation(relative, self.alpha, self.beta))
        if self.uniform:
            correlation = torch.full_like(correlation, float(1 / (1 / correlation).mean()))
        self.correlation.copy_(correlation)
        ratio = relative_ratio(delta)
        self.diagnostics = {
            "mean_C": float(correlation.mean()),
            "mean_1/C": float((1 / correlation).mean()),
            "share_below_mean": float((ratio < 1).double().mean()),
            "largest_relative_change": float(ratio.max()),
        }

    @torch.no_grad()
    def scale_gradients_(self, net: nn.Module) -> None:
        """Eq. 9: g'_m = g_m / C_m, in place; nothing in the first task, when there is no C yet."""
        divisors = self._by_parameter(net)
        if divisors:
            pairs = [(p.grad, c) for p, c in zip(_trainable(net), divisors, strict=True) if p.grad is not None]
            torch._foreach_div_([grad for grad, _ in pairs], [divisor for _, divisor in pairs])

    def _by_parameter(self, net: nn.Module) -> list[Tensor]:
        """Return C cut into the parameters' shapes and memory layouts; made anew only when C has changed."""
        state = (self.correlation.data_ptr(), self.correlation._version)
        if state != self._divisors_of:
            pieces = self.correlation.split([p.numel() for p in _trainable(net)])
            known = bool(self.correlation.any())
            shaped = zip(_trainable(net), pieces, strict=True)
            self._divisors = [torch.empty_like(p).copy_(c.view(p.shape)) for p, c in shaped] if known else []
            self._divisors_of = state
        return self._divisors


def _trainable(net: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in net.parameters() if parameter.requires_grad]


def flat_parameters(net: nn.Module) -> Tensor:
    """Return all trainable parameters as one vector; running statistics are no parameters."""
    return torch.cat([parameter.detach().reshape(-1) for parameter in _trainable(net)])


def _module_sizes(net: nn.Module) -> list[int]:
    """Return the number of trainable parameters of each module that has any of its own, in `flat_parameters`' order."""
    sizes: dict[str, int] = {}
    for name, parameter in net.named_parameters():
        if parameter.requires_grad:
            owner = name.rpartition(".")[0]
            sizes[owner] = sizes.get(owner, 0) + parameter.numel()
    return list(sizes.values())


# -- eq. 6: the asymmetric loss --------------------------------------------------------------------------------------------


def stream_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """L^in of eq. 6: cross-entropy over the classes in the batch. logits: (batch, classes); labels: (batch,)."""
    present = torch.zeros(logits.shape[1], dtype=torch.bool, device=logits.device).index_fill_(0, labels, True)
    return F.cross_entropy(logits.masked_fill(~present, -torch.inf), labels)


def replay_cross_entropy(logits: Tensor, labels: Tensor, n_seen: int) -> Tensor:
    """L^re of eq. 6: cross-entropy over the `n_seen` classes met so far. logits: (batch, classes); labels: (batch,)."""
    return F.cross_entropy(logits[:, :n_seen], labels)


def asymmetric_cross_entropy(
    logits: Tensor, labels: Tensor, replay_logits: Tensor, replay_labels: Tensor, n_seen: int
) -> Tensor:
    """Eq. 6: L = L^re(X^bf, Y^old u Y^curr) + L^in(X^in, Y^curr)."""
    return stream_cross_entropy(logits, labels) + replay_cross_entropy(replay_logits, replay_labels, n_seen)


# -- section 3.5: D-CWR ----------------------------------------------------------------------------------------------------


def sensory_memory(rows: Tensor, occurrences: Tensor) -> Tensor:
    """Eq. 10: M^s_j = w_j - sum_{k in S} w_k / |S|, S the distinct classes in the step.

    Args:
        rows: (classes, features), the classifier's row for each class.
        occurrences: (classes,), U_j; class j is in S if U_j > 0.
    """
    present = (occurrences > 0).to(rows.dtype)
    return rows - (present @ rows) / present.sum()


def retention_coefficients(past: Tensor, occurrences: Tensor) -> tuple[Tensor, Tensor]:
    """Eq. 13: eta^c_j = P_j / U_j, eta^l_j = sqrt(P_j / U_j); infinite (keep all) for a class that is not in the step."""
    ratio = torch.where(occurrences > 0, past / occurrences.clamp(min=1), torch.inf)
    return ratio, ratio.sqrt()


def consolidate(memory: Tensor, new: Tensor, eta: Tensor) -> Tensor:
    """Eqs. 11 and 12: (M_j eta_j + new_j) / (eta_j + 1), written as M_j + (new_j - M_j) / (eta_j + 1).

    Args:
        memory, new: (classes, features); eta: (classes,).
    """
    return memory + (new - memory) / (eta + 1)[:, None]


class DualLayerCWR(nn.Module):
    """D-CWR (Algorithm 2): sensory, short-term and long-term memories of a linear classifier's rows.

    Args:
        head: the classifier; it is not kept.
        p: probability in [0, 1] that a class's sensory memory enters its short-term memory in a step.
        bias: keep the bias as one more column of the rows.
        seed: of the draws of epsilon.

    Raises:
        ValueError: p out of range.
    """

    short_term: Tensor
    long_term: Tensor
    occurrences: Tensor

    def __init__(self, head: nn.Linear, p: float = 0.9, bias: bool = True, seed: int = 0) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"D-CWR's p is a probability, from 0 to 1, not {p}")
        self.p = p
        self.bias = bias and head.bias is not None
        rows = torch.zeros_like(self._rows(head))
        self.register_buffer("sensory", rows.clone())  # M^s
        self.register_buffer("short_term", rows.clone())  # M^c
        self.register_buffer("long_term", rows.clone())  # M^l
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
        self.sensory.copy_(sensory_memory(self._rows(head), in_step))
        integrated = torch.where(epsilon < self.p, eta_short, torch.inf)  # an infinite eta retains M^c (eq. 11)
        self.short_term.copy_(consolidate(self.short_term, self.sensory, integrated))
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
        width = head.weight.shape[1]
        started = self.occurrences.sum() > 0
        weight = torch.where(started, self.long_term[:, :width], head.weight)
        bias = torch.where(started, self.long_term[:, width], head.bias) if self.bias else head.bias
        return F.linear(features, weight, bias)

    def get_extra_state(self) -> Tensor:
        """Return the state of the generator of epsilon, so that a checkpoint carries it."""
        return self.generator.get_state()

    def set_extra_state(self, state: Tensor) -> None:
        """Put the generator back where it was."""
        self.generator.set_state(state.cpu())


# -- the method ------------------------------------------------------------------------------------------------------------


class Pvbf(ContinualModel):
    """Parameter Variation Balancing Framework: replay with ACE, E&C and D-CWR."""

    NAME = "pvbf"
    COMPATIBILITY = ["class-il", "domain-il", "task-il", "general-continual"]

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser:
        add_rehearsal_args(parser)
        flag = parser.add_argument
        flag("--pvbf_alpha", type=float, default=0.5, help="least correlation C (eq. 7)")
        flag("--pvbf_beta", type=float, default=2.0, help="largest correlation C (eq. 7)")
        flag("--pvbf_p", type=float, default=0.9, help="D-CWR: chance that sensory enters short-term memory (eq. 11)")
        flag("--standardization", choices=["rr", "zs", "rs"], default="rr", help="of the variation (eqs. 3-5)")
        flag("--standardization_scope", choices=["global", "layer"], default="global", help="over all parameters, or by module")
        flag("--ec", choices=["0", "1", "mean"], default="1", help="E&C; mean: the control, every C its harmonic mean")
        flag("--dcwr", type=int, choices=[0, 1], default=1, help="D-CWR")
        flag("--ace", type=int, choices=[0, 1], default=1, help="ACE; 0: plain cross-entropy on stream and replay")
        flag("--dcwr_apply", choices=["predict", "task", "step"], default="predict", help="where M^l is used (docs/pvbf.md)")
        flag("--dcwr_bias", type=int, choices=[0, 1], default=1, help="D-CWR covers the bias too")
        return parser

    def __init__(self, backbone, loss, args, transform, dataset=None):  # type: ignore[no-untyped-def]
        super().__init__(backbone, loss, args, transform, dataset=dataset)
        self.buffer = Buffer(args.buffer_size, device=self.device)
        self.correlation = ParameterCorrelation(
            self.net, args.pvbf_alpha, args.pvbf_beta, args.standardization, args.standardization_scope, args.ec == "mean"
        ).to(self.device)
        seed = args.seed if args.seed is not None else torch.initial_seed() % 2**63
        self.dcwr = DualLayerCWR(self.net.classifier, args.pvbf_p, bool(args.dcwr_bias), seed).to(self.device)
        self.diagnostics: dict[str, float] = {}

    def begin_task(self, dataset) -> None:  # type: ignore[no-untyped-def]
        self.correlation.begin_task(self.net)

    def observe(self, inputs: Tensor, labels: Tensor, not_aug_inputs: Tensor, epoch: int | None = None) -> dict[str, Tensor]:
        """One step of Algorithm 1."""
        self.opt.zero_grad()
        losses = {"stream": self.stream_loss(self.net(inputs), labels)}
        trained = labels
        if self.current_task > 0 and not self.buffer.is_empty():
            replayed, replayed_labels = self.buffer.get_data(
                self.args.minibatch_size, transform=self.transform, device=self.device
            )
            losses["replay"] = self.replay_loss(self.net(replayed), replayed_labels)
            trained = torch.cat([labels, replayed_labels])
        loss = sum(losses.values(), torch.zeros_like(losses["stream"]))
        loss.backward()
        if self.args.ec != "0":
            self.correlation.scale_gradients_(self.net)
        self.opt.step()
        if self.args.dcwr:
            self.dcwr.update(self.net.classifier, trained)
            if self.args.dcwr_apply == "step":
                self.dcwr.write_back(self.net.classifier)
        self.buffer.add_data(examples=not_aug_inputs, labels=labels)
        return {"loss": loss.detach(), **{name: part.detach() for name, part in losses.items()}}

    def stream_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """L^in, or plain cross-entropy without ACE."""
        return stream_cross_entropy(logits, labels) if self.args.ace else F.cross_entropy(logits, labels)

    def replay_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """L^re, or plain cross-entropy without ACE."""
        return replay_cross_entropy(logits, labels, self.n_seen_classes) if self.args.ace else F.cross_entropy(logits, labels)

    def end_task(self, dataset) -> None:  # type: ignore[no-untyped-def]
        if self.args.dcwr and self.args.dcwr_apply == "task":
            self.dcwr.write_back(self.net.classifier)
        self.correlation.end_task(self.net)
        self.diagnostics = self.correlation.diagnostics

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (batch, classes); in evaluation with `--dcwr_apply predict`, those that M^l gives."""
        if self.net.training or not self.args.dcwr or self.args.dcwr_apply != "predict":
            return self.net(x)
        return self.dcwr.predict(self.net.classifier, self.net(x, returnt="features"))
