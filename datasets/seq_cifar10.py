"""Split CIFAR-10: 50,000 + 10,000 colour images of 32 x 32 (Krizhevsky 2009), 5 tasks of 2 classes."""

from argparse import SUPPRESS, ArgumentParser, Namespace

from datasets.utils.cifar import Archive, SplitCifar
from utils.args import one_of
from utils.augmentations import Spec
from utils.loggers import LOG

JITTER: Spec = {"ColorJitter": {"brightness": 0.2, "contrast": 0.2, "saturation": 0.2, "hue": 0.1}}


def strengthened(transform: list[Spec]) -> list[Spec]:
    """Return a transform with a change of colours before ToTensor, after crop and flip."""
    place = transform.index("ToTensor")
    return [*transform[:place], JITTER, *transform[place:]]


class SequentialCIFAR10(SplitCifar):
    """CIFAR-10, 32 x 32 colour, 5 tasks of 2 classes."""

    NAME = "seq-cifar10"
    N_CLASSES_PER_TASK = 2
    N_TASKS = 5
    N_CLASSES = 10
    CLASS_NAMES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
    CONFUSED_WITH = {9: 1, 2: 0, 4: 7, 3: 5, 5: 3}  # Patrini et al. 2017: truck, bird, deer; cat and dog
    FOLDER = "CIFAR10"
    LABELS = "labels"
    ARCHIVE = Archive(
        url="https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
        md5="c58f30108f718f92721af3b95e74349a",
        folder="cifar-10-batches-py",
        train={
            "data_batch_1": "c99cafc152244af753f735de768cd75f",
            "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
            "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
            "data_batch_4": "634d18415352ddfa80567beed471001a",
            "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
        },
        test={"test_batch": "40351d587109b95175f43aff81a1287e"},
    )
    RECOMPRESSED = (
        "f45f8c5849d6d523", "c6c009db592f67e5", "411b41103b25a492", "0e75e518940464ff", "a45c840e16b55147", "7581b618ce35cb59",
    )  # fmt: skip

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser:
        kinds = one_of("weak", "strong")  # absent where it is not given, so that runs keep their names
        parser.add_argument("--transform_type", type=kinds, default=SUPPRESS, metavar="NAME", help="strong: change colours too")
        return parser

    def __init__(self, args: Namespace) -> None:
        if getattr(args, "transform_type", "weak") == "strong":
            LOG.info("Using strong augmentation for CIFAR10")
            self.TRANSFORM = strengthened(self.TRANSFORM)
        super().__init__(args)
