"""The base of every benchmark, and how images become batches."""
