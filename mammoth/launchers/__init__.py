"""Where the runs of a sweep execute."""
