"""Where the runs of a sweep execute: worker processes on this machine (`local`), or SLURM (`slurm`).

A launcher takes jobs (`jobs.Job`) and gives outcomes (`jobs.Outcome`) as they come; `jobs.Launcher` is what a sweep needs of it.
"""
