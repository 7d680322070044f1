"""Split CIFAR-100: 50,000 + 10,000 colour images of 32 x 32 (Krizhevsky 2009), 10 tasks of 10 classes."""

from datasets.utils.cifar import Archive, SplitCifar


class SequentialCIFAR100(SplitCifar):
    """CIFAR-100, fine labels, 32 x 32 colour, 10 tasks of 10 classes (online: 20 of 5)."""

    NAME = "seq-cifar100"
    N_CLASSES_PER_TASK = 10
    N_TASKS = 10
    N_CLASSES = 100
    FOLDER = "CIFAR100"
    LABELS = "fine_labels"
    ARCHIVE = Archive(
        url="https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
        md5="eb9058c3a382ffc7106e4002c42a8d85",
        folder="cifar-100-python",
        train={"train": "16019d7e3df5f24257cddd939b257f8d"},
        test={"test": "f0ef6b0ae62326f3e7ffdfab6717acfc"},
    )
    RECOMPRESSED = ("03309c7ac2ff9d91", "2e98f1c504686bf1")
