"""What is missing without a tier is said in one sentence that names the remedy, whoever asks."""

import sys

import pytest

from cli import catalog
from cli.main import main
from config.tiers import TIERS, MissingTierError, require
from identification.infer_settings import InferConfig
from sim_core.inference.samplers import METHODS, sample


@pytest.fixture
def absent(monkeypatch):
    """Makes the packages of tiers unimportable: None in sys.modules is how Python itself says that there is none."""

    def leave_out(*tiers: str) -> None:
        for tier in tiers:
            for name in TIERS[tier]:
                monkeypatch.setitem(sys.modules, name, None)

    return leave_out


@pytest.mark.parametrize("tier", TIERS)
def test_what_is_there_is_not_refused(tier):
    require(tier, "this test")


def test_the_sentence_names_what_is_missing_and_the_remedy(absent):
    absent("learning")
    with pytest.raises(
        MissingTierError,
        match=r"^the method 'x' needs the packages of the tier 'learning', of which torch, sklearn are not "
        r"installed; run ./refit setup learning$",
    ):
        require("learning", "the method 'x'")
    absent("inference")
    with pytest.raises(MissingTierError, match="numpyro, jax, .* are not installed; run ./refit setup inference$"):
        require("inference", "this")


@pytest.mark.parametrize("method", [name for name, entry in METHODS.items() if entry.tier])
def test_methods_refuse_before_they_begin(absent, method):
    absent(METHODS[method].tier)
    with pytest.raises(MissingTierError, match=f"'{method}' needs .* run ./refit setup {METHODS[method].tier}"):
        sample(method, density=None)


def test_settings_of_an_inference_refuse_before_anything_is_read(absent):
    absent("inference")
    with pytest.raises(MissingTierError, match="the method 'cma-es' needs"):
        InferConfig(method="cma")
    assert InferConfig(method="csvgd").method == "csvgd"


def test_the_own_methods_need_nothing(absent):
    """CSVGD runs on a robot that has the base alone."""
    assert {name for name, entry in METHODS.items() if not entry.tier} == {"svgd", "csvgd", "cem", "sgld", "emcee"}


@pytest.mark.parametrize("name", [name for name, entry in catalog.entries("experiments").items() if entry.tiers])
def test_an_experiment_without_its_tier_is_refused_in_one_line(absent, capsys, name):
    absent(*catalog.entries("experiments")[name].tiers)
    assert main(["experiment", name, "--quick"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    assert err.startswith(f"refit experiment: {name} needs") and "run ./refit setup" in err
