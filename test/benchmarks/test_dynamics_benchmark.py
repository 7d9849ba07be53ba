"""The dynamics benchmark in a size that proves its mechanics: same numbers from every engine, missing rivals, report."""

import numpy as np
import pytest

from benchmarks import dynamics
from benchmarks.rivals import engines, tree
from sim_core.multibody import load_model


@pytest.fixture
def tiny(monkeypatch):
    """A run of a second or two; JAX, whose compilation takes a minute, is as if not installed."""

    def missing(*_, **__):
        raise ImportError("No module named 'jax'")

    monkeypatch.setattr(dynamics, "STEPS", 3)
    monkeypatch.setattr(dynamics, "SIZES", {"quick": (1, 2)})
    monkeypatch.setattr(dynamics, "_shortest", lambda call: call() is None or 1e-3)
    monkeypatch.setattr(dynamics._Bench, "cold_compilation", lambda self: self.compilation.update({"nothing": 0.0}))
    monkeypatch.setattr(engines, "Jax", missing)
    return dynamics.run(size="quick", seed=1)


def test_engines_agree_and_a_missing_rival_fails_its_target_alone(tiny):
    agreement = [c for c in tiny.checks if c.name.startswith("agreement")]
    assert {"agreement with torch eager", "agreement with MuJoCo rollout, 1 thread"} <= {c.name for c in agreement}
    assert all(c.passed for c in agreement)
    against_jax = [c for c in tiny.checks if "JAX" in c.name]
    assert len(against_jax) == 2 and all(c.value is None and not c.passed for c in against_jax)
    assert tiny.exit_code == 1


def test_the_report_shows_table_and_targets(tiny):
    page = dynamics.report(tiny).html()
    for text in ("MuJoCo rollout, 1 thread", "torch eager", "Jacobian pairs", "A, 1 robot"):
        assert text in page


def test_the_rivals_program_follows_ours_for_any_parameters():
    pytest.importorskip("torch")
    model = load_model("panda")
    rng = np.random.default_rng(2)
    x0, U = rng.normal(size=(4, 14)), rng.normal(size=(4, 6, 7))
    P = model.parameters.nominal * (1 + 0.1 * rng.uniform(-1, 1, (4, model.np_)))
    found = []
    for engine in (engines.Ours(model), engines.Torch(model)):
        arguments = engine.arguments(x0, U, P)
        found.append(
            (engine.numpy_forward(engine.forward(arguments)), *engine.numpy_gradient(engine.gradient(arguments)))
        )
    for ours, theirs in zip(*found):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9 * np.abs(theirs).max())


def test_a_model_the_rivals_do_not_know_is_refused():
    with pytest.raises(ValueError, match="expected revolute joints"):
        tree.tree(load_model("cartpole"))
