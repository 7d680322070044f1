"""The networks: their sizes, what they return, their parameters and gradients as vectors."""

from argparse import Namespace

import pytest
import torch
from torch import nn

import backbone
from backbone import (
    REGISTERED_BACKBONES,
    MammothBackbone,
    backbone_flags,
    get_backbone,
    get_backbone_class,
    get_backbone_names,
    num_flat_features,
    register_backbone,
    xavier,
)
from backbone.MNISTMLP import BaseMNISTMLP
from backbone.ResNetBlock import BasicBlock, ResNet, conv3x3, resnet18

SIZES = {"mnistmlp": (1, 28, 28), "reduced-resnet18": (3, 32, 32), "resnet18": (3, 16, 16), "resnet34": (3, 8, 8)}


def build(name, num_classes=10, **arguments):
    """Return a network by name."""
    return get_backbone(Namespace(backbone=name, num_classes=num_classes, **arguments))


def small(name):
    """Return a network on small images and a batch for it."""
    channels, height, width = SIZES[name]
    return build(name, input_height=height, input_channels=channels), torch.rand(4, channels, height, width)


@pytest.fixture
def net():
    """Return a small network with batch norm, a loss taken."""
    made = ResNet((1, 1, 1, 1), 3, num_filters=4, input_height=8)
    made(torch.rand(4, 3, 8, 8)).square().sum().backward()
    return made


# -- sizes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "height", "channels", "classes", "parameters"),
    [
        ("reduced-resnet18", 32, 3, 10, 1_094_750),
        ("reduced-resnet18", 32, 3, 100, 1_109_240),
        ("reduced-resnet18", 84, 3, 100, 1_157_240),
        ("resnet18", 32, 3, 10, 11_173_962),
        ("mnistmlp", 28, 1, 10, 89_610),
    ],
)
def test_parameters_are_as_many_as_published(name, height, channels, classes, parameters):
    """The paper's and Mammoth's networks, exactly."""
    net = build(name, classes, input_height=height, input_channels=channels)
    assert sum(parameter.numel() for parameter in net.parameters()) == parameters


@pytest.mark.parametrize(("height", "features"), [(32, 160), (84, 640), (64, 640), (25, 160), (96, 1440)])
def test_reduced_resnets_features_grow_with_the_image(height, features):
    """A pooling window of 4 x 4 on a map of ceil(height / 8): the classifier's width is what comes out."""
    net = build("reduced-resnet18", input_height=height).eval()
    assert net.classifier.in_features == features
    assert net.features(torch.rand(1, 3, height, height)).shape == (1, features)


@pytest.mark.parametrize("height", [8, 20, 32, 33, 64])
def test_resnet18_pools_the_whole_map(height):
    """Eight times the filters, whatever the image's size; the same as a mean over the map."""
    net = resnet18(10, num_filters=4, input_height=height).eval()
    images = torch.rand(2, 3, height, height)
    assert net.classifier.in_features == 32
    torch.testing.assert_close(net.features(images), net.maps(images)[-1].mean((2, 3)))


def test_the_classifiers_weights_follow_the_number_of_classes():
    """Ten outputs more, 161 parameters each."""
    ten, twenty = (sum(p.numel() for p in build("reduced-resnet18", classes).parameters()) for classes in (10, 20))
    assert twenty - ten == 10 * 161


@pytest.mark.parametrize("height", [1, 8, 24])
def test_too_small_images_are_refused(height):
    """The message names the size and a way out."""
    with pytest.raises(ValueError, match=f"images of {height} x {height} are too small.*mnistmlp"):
        build("reduced-resnet18", input_height=height)


def test_the_smallest_image_works():
    """25 pixels give a last map of 4 x 4."""
    assert build("reduced-resnet18", input_height=25)(torch.rand(2, 3, 25, 25)).shape == (2, 10)


# -- what is returned --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SIZES)
def test_every_variant_of_the_result(name):
    """`out`, `features`, `both` and `full` agree with each other."""
    net, images = small(name)
    net.eval()
    out, features = net(images), net(images, returnt="features")
    assert out.shape == (4, 10)
    assert features.shape == (4, net.classifier.in_features)
    assert torch.equal(net(images, "out"), out)
    assert torch.equal(net.features(images), features)
    assert torch.equal(net.classifier(features), out)
    both = net(images, returnt="both")
    assert torch.equal(both[0], out)
    assert torch.equal(both[1], features)
    assert torch.equal(net(images, returnt="full")[0], out)


def test_full_of_a_resnet_is_its_maps():
    """The stem's output and the four stages', the last being what is pooled."""
    net, images = small("resnet18")
    maps = net.eval()(images, returnt="full")[1]
    assert [tuple(one.shape[1:]) for one in maps] == [(64, 16, 16), (64, 16, 16), (128, 8, 8), (256, 4, 4), (512, 2, 2)]
    torch.testing.assert_close(maps[-1].mean((2, 3)), net.features(images))


def test_full_of_the_perceptron_is_its_features():
    """As upstream."""
    net, images = small("mnistmlp")
    assert torch.equal(net(images, returnt="full")[1], net.features(images))


@pytest.mark.parametrize("name", ["mnistmlp", "reduced-resnet18"])
def test_an_unknown_variant_is_refused(name):
    """The message lists those allowed."""
    net, images = small(name)
    with pytest.raises(ValueError, match="'logits'; allowed: out, features, both, full"):
        net(images, returnt="logits")


def test_a_backbone_without_features_says_so():
    """The subclass's name is in the message."""

    class Unfinished(MammothBackbone):
        pass

    with pytest.raises(NotImplementedError, match="Unfinished defines no features"):
        Unfinished()(torch.rand(1, 2))


def test_the_classifier_can_be_replaced(net):
    """By any module."""
    net.classifier = nn.Linear(net.classifier.in_features, 7, bias=False)
    assert net(torch.rand(2, 3, 8, 8)).shape == (2, 7)


def test_the_perceptron_flattens_its_input():
    """Images or vectors; sizes as attributes."""
    net = BaseMNISTMLP(12, 5, hidden_size=6)
    images = torch.rand(3, 3, 2, 2)
    assert torch.equal(net(images), net(images.flatten(1)))
    assert (net.input_size, net.output_size) == (12, 5)


# -- vectors -----------------------------------------------------------------------------------------------------------


def test_parameters_round_trip(net):
    """What was set is what is got, in the order of `parameters()`; and the network computes with it."""
    vector = torch.randn_like(net.get_params())
    net.set_params(vector)
    assert torch.equal(net.get_params(), vector)
    assert torch.equal(next(net.parameters()).flatten(), vector[: next(net.parameters()).numel()])
    other = ResNet((1, 1, 1, 1), 3, num_filters=4, input_height=8)
    other.set_params(vector)
    images = torch.rand(2, 3, 8, 8)
    assert torch.equal(net.train()(images), other.train()(images))


def test_parameters_are_differentiable(net):
    """EWC's penalty is a function of this vector."""
    net.zero_grad()
    (net.get_params().square().sum() / 2).backward()
    assert torch.equal(net.get_grads(), net.get_params())


def test_setting_parameters_copies_and_keeps_the_modules(net):
    """The optimiser's references stay valid; the vector may be changed afterwards."""
    before = list(net.parameters())
    vector = torch.zeros_like(net.get_params()).detach()
    net.set_params(vector)
    vector.fill_(5.0)
    assert all(one is other for one, other in zip(before, net.parameters(), strict=True))
    assert not net.get_params().any()
    assert all(parameter.requires_grad for parameter in net.parameters())


def test_gradients_round_trip(net):
    """What was set is what is got."""
    vector = torch.randn_like(net.get_grads())
    net.set_grads(vector)
    assert torch.equal(net.get_grads(), vector)


def test_gradients_are_those_of_the_parameters(net):
    """In the same order as the parameters' vector."""
    assert torch.equal(net.get_grads(), torch.cat([parameter.grad.flatten() for parameter in net.parameters()]))
    assert net.get_grads().any()


def test_missing_gradients_are_zeros(net):
    """A head that took no part has none."""
    net.classifier.bias.grad = None
    grads = net.get_grads()
    assert grads.shape == net.get_params().shape
    assert not grads[-3:].any()


def test_gradients_can_be_set_where_there_were_none():
    """Before any backward pass."""
    net = BaseMNISTMLP(4, 2, hidden_size=3)
    assert not net.get_grads().any()
    vector = torch.arange(float(len(net.get_params())))
    net.set_grads(vector)
    assert torch.equal(net.get_grads(), vector)


@pytest.mark.parametrize("surplus", [-1, 1])
@pytest.mark.parametrize("what", ["set_params", "set_grads"])
def test_a_vector_of_another_length_is_refused(net, what, surplus):
    """Too short or too long; nothing is cut off in silence."""
    before = net.get_params().detach().clone()
    with pytest.raises(RuntimeError):
        getattr(net, what)(torch.zeros(len(before) + surplus))
    assert torch.equal(net.get_params(), before)


# -- names -------------------------------------------------------------------------------------------------------------


def test_the_names_that_configs_use_are_there():
    """Those of Mammoth that the benchmarks name."""
    assert {"mnistmlp", "reduced-resnet18", "resnet18", "resnet34"} <= set(get_backbone_names())


def test_an_unknown_name_is_refused():
    """The message lists those there are."""
    with pytest.raises(ValueError, match=r"unknown backbone 'resnet19'; there are: .*resnet18"):
        get_backbone_class("resnet19")


def test_names_are_found_in_any_spelling():
    """Underscores and case do not matter."""
    assert get_backbone_class("Reduced_ResNet18") is get_backbone_class("reduced-resnet18")


def test_a_taken_name_is_refused(monkeypatch):
    """Whatever its spelling."""
    monkeypatch.setattr(backbone, "REGISTERED_BACKBONES", dict(REGISTERED_BACKBONES))
    register_backbone("my-net")(BaseMNISTMLP)
    assert get_backbone_class("My_Net") is BaseMNISTMLP
    with pytest.raises(ValueError, match="two backbones are named 'my-net'"):
        register_backbone("my_net")(ResNet)


def test_each_call_gives_fresh_weights():
    """Methods ask for a second, untrained network."""
    assert not torch.equal(build("mnistmlp", input_height=8).get_params(), build("mnistmlp", input_height=8).get_params())


def test_flags_are_what_the_data_set_does_not_settle():
    """`num_filters` is a flag, the number of classes is not."""
    assert list(backbone_flags("resnet18")) == ["num_filters"]
    assert list(backbone_flags("mnistmlp")) == ["mlp_hidden_size"]
    assert list(backbone_flags("reduced-resnet18")) == []


def test_a_flag_reaches_the_network():
    """And an absent one keeps its default."""
    assert build("mnistmlp", input_height=8, mlp_hidden_size=7).classifier.in_features == 7
    assert build("mnistmlp", input_height=8, mlp_hidden_size=None).classifier.in_features == 100


# -- building blocks ---------------------------------------------------------------------------------------------------


def test_xavier_initialises_linear_layers_only():
    """Weights within the bound of Glorot and Bengio, bias zero; a convolution is left alone."""
    layer, convolution = nn.Linear(40, 20), nn.Conv2d(3, 4, 3)
    before = convolution.weight.clone()
    nn.Sequential(layer, convolution).apply(xavier)
    bound = (6 / 60) ** 0.5
    assert 0.9 * bound < layer.weight.abs().max() <= bound
    assert not layer.bias.any()
    assert torch.equal(convolution.weight, before)


def test_the_perceptron_is_initialised_so():
    """All its layers."""
    biases = [layer.bias for layer in build("mnistmlp").modules() if isinstance(layer, nn.Linear)]
    assert len(biases) == 3
    assert not any(bias.any() for bias in biases)


def test_a_block_with_one_width_and_stride_passes_its_input_on():
    """With its convolutions at zero a basic block is the ReLU of its input."""
    block = BasicBlock(4, 4).eval()
    nn.init.zeros_(block.conv2.weight)
    images = torch.randn(2, 4, 6, 6)
    assert torch.equal(block(images), images.relu())


def test_a_block_with_a_stride_has_a_shortcut_of_its_own():
    """Half the size, another width."""
    block = BasicBlock(4, 8, stride=2)
    assert block(torch.rand(2, 4, 6, 6)).shape == (2, 8, 3, 3)
    assert len(block.shortcut) == 2
    assert conv3x3(4, 8).bias is None


def test_flat_features_are_counted_per_image():
    """Channels times height times width."""
    assert num_flat_features(torch.zeros(5, 3, 4, 2)) == 24


def test_device_follows_the_parameters():
    """`.to()` returns the network itself; `meta` stands in for a GPU."""
    net = BaseMNISTMLP(4, 2)
    assert net.device == torch.device("cpu")
    assert net.to("meta") is net
    assert net.device == torch.device("meta")
