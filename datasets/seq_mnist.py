"""Split MNIST: handwritten digits (LeCun et al. 1998), 28x28 grey, 5 tasks of 2 classes."""

from datasets.utils.mnist import IdxImages, Source

MNIST = Source("MNIST", ("MNIST/raw", "MNIST/MNIST/raw", "MNIST/MyMNIST/raw"))


class SequentialMNIST(IdxImages):
    """MNIST in 5 tasks of 2 digits, 28x28 grey."""

    NAME = "seq-mnist"
    SETTING = "class-il"
    N_CLASSES_PER_TASK = 2
    N_TASKS = 5
    CLASS_NAMES = [str(digit) for digit in range(10)]
    SOURCE = MNIST
