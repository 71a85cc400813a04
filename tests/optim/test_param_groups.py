"""The numbers of parameters in ``state_dict``."""

import pytest
import torch as reference

import ftorch


@pytest.mark.parametrize("again", ["groups * 2", "[groups[0], {**groups[0], 'params': groups[0]['params'][::-1]}]",
                                   "[{**groups[0], 'params': groups[0]['params'] * 2}]"])
def test_parameters_in_several_places_have_one_number(again):
    def told(t):
        weights = [t.nn.Parameter(t.ones(1)), t.nn.Parameter(t.ones(2))]
        optimizer = t.optim.SGD(weights, lr=.1, momentum=.9)
        sum(w.sum() for w in weights).backward()
        optimizer.step()
        optimizer.param_groups = eval(again, {"groups": optimizer.param_groups})
        found = optimizer.state_dict()
        return [group["params"] for group in found["param_groups"]], sorted(found["state"])

    assert told(ftorch) == told(reference)
