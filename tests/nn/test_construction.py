"""Every module class against PyTorch's: parameters, their initial values, and what `repr` shows."""

import inspect
import warnings

import numpy as np
import pytest
import torch as reference

import ftorch as torch

# Arguments to construct classes with; those that are not here take none.
ARGUMENTS = {
    "AdaptiveLogSoftmaxWithLoss": [(8, 20, [4, 10])],
    "AvgPool1d": [(2,)], "AvgPool2d": [(2,)], "AvgPool3d": [(2,)],
    "BatchNorm1d": [(4,), (4, 1e-3, None, False)], "BatchNorm2d": [(4,)], "BatchNorm3d": [(4,)],
    "Bilinear": [(2, 3, 4)],
    "ChannelShuffle": [(2,)],
    "Conv1d": [(4, 6, 3)],
    "Conv2d": [(4, 6, 3), (4, 8, (3, 5), 2, 1, 1, 2, False), (4, 4, 3, 1, "same")],
    "Conv3d": [(2, 2, 3)],
    "ConvTranspose1d": [(4, 6, 3, 2, 1, 1)], "ConvTranspose2d": [(4, 6, 3)],
    "ConvTranspose3d": [(4, 6, 3)],
    "CrossMapLRN2d": [(2,)],
    "Embedding": [(5, 3), (5, 3, -1, 2.0, 1.0, True, True)], "EmbeddingBag": [(5, 3)],
    "Fold": [(4, 2)],
    "FractionalMaxPool2d": [(2, 3)], "FractionalMaxPool3d": [(2, 3)],
    "GRU": [(3, 4, 2)], "GRUCell": [(3, 4)],
    "GroupNorm": [(2, 4)],
    "InstanceNorm1d": [(4,)], "InstanceNorm2d": [(4, 1e-5, 0.1, True, True)],
    "InstanceNorm3d": [(4,)],
    "LPPool1d": [(2, 3)], "LPPool2d": [(2, 3)], "LPPool3d": [(2, 3)],
    "LSTM": [(3, 4), (3, 4, 2, False, True, 0.5, True, 2)], "LSTMCell": [(3, 4)],
    "LayerNorm": [(4,), ((2, 3), 1e-3, False), (5, 1e-5, True, False)],
    "Linear": [(3, 5), (3, 5, False)],
    "LinearCrossEntropyLoss": [(4, 3)],
    "LocalResponseNorm": [(2,)],
    "MaxPool1d": [(2,)], "MaxPool2d": [(2,)], "MaxPool3d": [(2,)],
    "MaxUnpool1d": [(2,)], "MaxUnpool2d": [(2,)], "MaxUnpool3d": [(2,)],
    "MultiheadAttention": [(8, 2), (8, 2, 0.0, True, True, True, 4, 6)],
    "PReLU": [(), (3,)],
    "PixelShuffle": [(2,)], "PixelUnshuffle": [(2,)],
    "RMSNorm": [(4,)],
    "RNN": [(3, 4, 1, "relu")], "RNNCell": [(3, 4)],
    "SyncBatchNorm": [(3,)],
    "Threshold": [(1, 2), (1, 2, True)],
    "Transformer": [(8, 2, 1, 1, 16)],
    "TransformerDecoderLayer": [(8, 2, 16)], "TransformerEncoderLayer": [(8, 2, 16)],
    "Unflatten": [(1, (2, 2))], "Unfold": [(2,)],
    "Upsample": [(None, 2.0), (4,)], "UpsamplingBilinear2d": [(3,)], "UpsamplingNearest2d": [(3,)],
}
for _name in torch.nn.modules.__all__:
    if "Adaptive" in _name and "Pool" in _name:
        ARGUMENTS[_name] = [(2,)]
    elif "Pad" in _name:
        ARGUMENTS[_name] = [(1, 2.0) if "Constant" in _name else (1,)]
    elif _name.startswith("LazyConv"):
        ARGUMENTS[_name] = [(3, 2)]
ARGUMENTS["LazyLinear"] = [(3,)]

CONTAINERS = {
    "Container", "Module", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "RNNBase",
    "RNNCellBase", "Sequential", "TransformerDecoder", "TransformerEncoder",
    "LinearCrossEntropyOptions", "NLLLoss2d",
}
CASES = [
    (name, arguments)
    for name in sorted(set(torch.nn.modules.__all__) - CONTAINERS)
    for arguments in ARGUMENTS.get(name, [()])
]


def _made(package, name, arguments):
    package.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(package.nn, name)(*arguments)


@pytest.mark.parametrize(("name", "arguments"), CASES, ids=str)
def test_construction(name, arguments):
    expected, actual = (_made(package, name, arguments) for package in (reference, torch))
    assert repr(actual) == repr(expected)
    states = expected.state_dict(), actual.state_dict()
    assert list(states[1]) == list(states[0])
    assert states[1]._metadata == states[0]._metadata
    if not name.startswith("Lazy"):
        for key, value in states[0].items():
            np.testing.assert_array_equal(states[1][key].numpy(), value.numpy(), err_msg=key)


@pytest.mark.parametrize("name", sorted({name for name, _ in CASES}))
def test_signature(name):
    expected, actual = (
        inspect.signature(getattr(package.nn, name).__init__).parameters
        for package in (reference, torch)
    )
    if "args" not in expected:
        assert list(actual) == list(expected)
