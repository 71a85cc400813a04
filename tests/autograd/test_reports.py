"""What a search for anomalies shows, and what deprecated arguments say."""

import contextlib
import io
import warnings

from tests.oracle import LIBRARIES


def test_anomalies_show_the_program_and_not_the_engine():
    def program(t):
        x = t.tensor([0.0], requires_grad=True)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            t.autograd.set_detect_anomaly(True)
            y = t.sqrt(x) * 0
            try:
                y.sum().backward()
            except RuntimeError as error:
                said = str(error)
            finally:
                t.autograd.set_detect_anomaly(False)
        text = next(str(w.message) for w in caught if "Traceback of forward call" in str(w.message))
        return said, text.partition("(Triggered")[0].strip().split("\n")[-1].strip()

    theirs, ours = (program(t) for t in LIBRARIES)
    assert ours == theirs
    assert ours[1] == "y = t.sqrt(x) * 0"


def test_only_inputs_is_deprecated():
    def program(t):
        x = t.ones(2, requires_grad=True)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            t.autograd.grad(x.sum(), x, only_inputs=False)
        return [(w.category, str(w.message), w.filename == __file__) for w in caught]

    theirs, ours = (program(t) for t in LIBRARIES)
    assert ours == theirs


def test_anomalies_are_printed_where_warnings_are_errors():
    """The error is the backward pass's own."""

    def program(t):
        said = io.StringIO()
        with warnings.catch_warnings(), contextlib.redirect_stderr(said):
            warnings.simplefilter("ignore")
            with t.autograd.detect_anomaly():
                warnings.simplefilter("error")
                x = t.ones(5, requires_grad=True) + 1
                y = x**2
                x += 1
                try:
                    y.sum().backward()
                except RuntimeError as error:
                    return str(error).partition(":")[0], said.getvalue().partition(".")[0]

    theirs, ours = (program(t) for t in LIBRARIES)
    assert ours == theirs
