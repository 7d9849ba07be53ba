"""The package's face: every name leads somewhere, and to import it costs nothing."""

import subprocess
import sys

import pytest

import identification
from identification import UnusableInput
from identification.errors import unusable_input


@pytest.mark.parametrize("name", identification.__all__)
def test_names_lead_to_what_they_say(name):
    assert getattr(identification, name).__name__ == name


def test_another_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'calibrate_everything'"):
        identification.calibrate_everything


@pytest.mark.process
def test_the_import_alone_loads_nothing_heavy():
    program = "import identification, sys; print(sorted({'numpy', 'casadi', 'matplotlib', 'yaml'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_errors_of_the_layers_below_keep_their_sentence():
    for error in (ValueError("no such joint"), KeyError("no such joint")):
        with pytest.raises(UnusableInput, match="^no such joint$") as raised, unusable_input(ValueError, KeyError):
            raise error
        assert raised.value.__cause__ is error
    with pytest.raises(OSError), unusable_input(ValueError):
        raise OSError("not listed")
