"""ACC and FR of each method on the bundled digits, so that nothing changes what is learnt unnoticed.

Means over seeds 0, 1 and 2, measured once. A run is the same bit for bit on one machine; elsewhere sums are rounded otherwise, and
over 145 steps at learning rate 0.1 that ends as far off as another seed. So the tolerance is two standard errors of a mean of three,
2 s / sqrt(3), with s the standard deviation over seeds 0 to 4, and at least one point.
"""

import math

import pytest

from utils.metrics import average_accuracy, forgetting
