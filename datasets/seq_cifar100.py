"""Split CIFAR-100: 50,000 + 10,000 colour images of 32 x 32 (Krizhevsky 2009), 10 tasks of 10 classes."""

from datasets.utils.cifar import Archive, SplitCifar

SUPERCLASSES = tuple(
    tuple(sorted(line.split()))
    for line in """
beaver dolphin otter seal whale
aquarium_fish flatfish ray shark trout
orchid poppy rose sunflower tulip
bottle bowl can cup plate
apple mushroom orange pear sweet_pepper
clock keyboard lamp telephone television
bed chair couch table wardrobe
bee beetle butterfly caterpillar cockroach
bear leopard lion tiger wolf
bridge castle house road skyscraper
cloud forest mountain plain sea
camel cattle chimpanzee elephant kangaroo
fox porcupine possum raccoon skunk
crab lobster snail spider worm
baby boy girl man woman
crocodile dinosaur lizard snake turtle
hamster mouse rabbit shrew squirrel
maple_tree oak_tree palm_tree pine_tree willow_tree
bicycle bus motorcycle pickup_truck train
lawn_mower rocket streetcar tank tractor
""".split("\n")[1:-1]
)
NAMES = sorted(name for group in SUPERCLASSES for name in group)  # label i is the i-th name of the alphabet


def next_in_superclass() -> dict[int, int]:
    """Return the label that follows each within its superclass, the first after the last (Patrini et al. 2017)."""
    return {
        NAMES.index(name): NAMES.index(follower)
        for group in SUPERCLASSES
        for name, follower in zip(group, (*group[1:], group[0]), strict=True)
    }


class SequentialCIFAR100(SplitCifar):
    """CIFAR-100, fine labels, 32 x 32 colour, 10 tasks of 10 classes (online: 20 of 5)."""

    NAME = "seq-cifar100"
    N_CLASSES_PER_TASK = 10
    N_TASKS = 10
    N_CLASSES = 100
    CLASS_NAMES = NAMES
    CONFUSED_WITH = next_in_superclass()
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
