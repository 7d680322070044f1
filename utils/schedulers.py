"""Learning-rate schedules by flag; by default the rate is constant."""

from argparse import Namespace
from typing import Any

import torch

SCHEDULERS = ("none", "multisteplr", "cosine")


def get_scheduler(
    model: Any, args: Namespace, reload_optim: bool = True, span: int | None = None
) -> torch.optim.lr_scheduler.LRScheduler | None:
    """Return the scheduler that `args.lr_scheduler` names for one task, or None.

    Args:
        model: its `opt` is scheduled.
        reload_optim: rebuild the optimiser first, so that each task starts at the full rate.
        span: how often the schedule will be stepped in the task (default: once an epoch); the cosine ends there.
    """
    name = getattr(args, "lr_scheduler", None)
    if not name or name == "none":
        return None
    if reload_optim:
        model.opt = model.get_optimizer()
    if name == "multisteplr":
        milestones = [int(word) for word in args.lr_milestones.split(",") if word]
        return torch.optim.lr_scheduler.MultiStepLR(model.opt, milestones, gamma=args.sched_multistep_lr_gamma)
    return torch.optim.lr_scheduler.CosineAnnealingLR(model.opt, T_max=span or args.n_epochs)
