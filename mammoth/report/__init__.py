"""From rows (one a run) to tables and figures."""
