"""Split Fashion-MNIST (Xiao et al. 2017): pieces of clothing, 28x28 grey, 5 tasks of 2 classes."""

from datasets.utils.mnist import IdxImages, Source


class SequentialFashionMNIST(IdxImages):
    """Fashion-MNIST in 5 tasks of 2 pieces of clothing, 28x28 grey."""

    NAME = "seq-fmnist"
    SETTING = "class-il"
    N_CLASSES_PER_TASK = 2
    N_TASKS = 5
    CLASS_NAMES = ["T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"]
    SOURCE = Source("FashionMNIST", ("FashionMNIST/raw", "/usr/share/datasets/fashion-mnist"))
