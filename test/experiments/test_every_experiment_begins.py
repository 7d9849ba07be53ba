"""Every experiment comes to its first stage: what it needs before that, files that were moved and data that were renamed, is there."""

import inspect

import pytest

from cli import catalog
from reporting import SilentProgress

pytestmark = pytest.mark.pure

#: starts the devices before it begins; ./refit test runs the whole of it
STARTS_DEVICES = {"device_faults"}
#: rivals of the tier `bench`, which the tests do not install: without them these say so and end
RIVALS = {"ids_against_rl": "stable_baselines3"}


class Begun(Exception):
    """The first stage has been announced."""


class First(SilentProgress):
    """Ends a run where it would show its first bar."""

    def stage(self, text, total=None):
        raise Begun(text)

    def track(self, items, text, total=None):
        raise Begun(text)


@pytest.mark.parametrize("name", sorted(catalog.entries("experiments").keys() - STARTS_DEVICES))
def test_an_experiment_comes_to_its_first_stage(name, tmp_path, monkeypatch):
    if name in RIVALS:
        pytest.importorskip(RIVALS[name])
    monkeypatch.setenv("REFIT_RUNS", str(tmp_path))
    run = catalog.load("experiments", name).run
    own = {"run_directory": tmp_path} if "run_directory" in inspect.signature(run).parameters else {}
    with pytest.raises(Begun):
        run(size="quick", seed=0, progress=First(), **own)
