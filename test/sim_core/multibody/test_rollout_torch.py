"""The torch operation: gradients by torch's own checker, batches, sharing, memory, errors."""

import numpy as np
import pytest

from sim_core.multibody import Dynamics

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def cartpole():
    from sim_core.multibody import load_model

    model = load_model("double_cartpole")
    return model, Dynamics(model)


def tensors(model, *lead, steps=4, p_lead=(), seed=0):
    rng = np.random.default_rng(seed)
    shapes = ((*lead, model.nx), (*lead, steps, model.nu), (*p_lead, model.np_))
    x0, U, p = (torch.tensor(rng.normal(size=s)) for s in shapes)
    p = torch.tensor(model.parameters.nominal) * (1 + 0.02 * p)
    return [t.requires_grad_() for t in (0.5 * x0, U, p)]


@pytest.mark.parametrize("lead, p_lead", [((), ()), ((3,), ()), ((5,), (5,)), ((2, 3), ())])
def test_gradcheck(cartpole, lead, p_lead):
    model, d = cartpole
    inputs = [t.detach().requires_grad_() for t in tensors(model, *lead, p_lead=p_lead)]
    assert torch.autograd.gradcheck(lambda *a: d.torch_rollout(*a), inputs, eps=1e-5, atol=1e-7, rtol=1e-5)


def test_a_shared_start_or_control_collects_all_gradients(cartpole):
    model, d = cartpole
    x0, U, _ = (t.detach() for t in tensors(model))
    P = torch.tensor(model.parameters.nominal) * torch.linspace(0.9, 1.1, 3, dtype=torch.float64)[:, None]
    inputs = [t.clone().requires_grad_() for t in (x0, U, P)]
    assert d.torch_rollout(*inputs).shape == (3, 5, model.nx)
    assert torch.autograd.gradcheck(lambda *a: d.torch_rollout(*a), inputs, eps=1e-5, atol=1e-7, rtol=1e-5)


def test_an_optimiser_finds_a_parameter_from_motion(cartpole):
    """Ordinary torch around the operation: recover gravity from one trajectory."""
    model, d = cartpole
    x0, U, _ = (t.detach() for t in tensors(model, 4, steps=30))
    p = torch.tensor(model.parameters.nominal)
    i = model.parameters.index("gravity.z")
    target = d.torch_rollout(x0, U, p)
    g = torch.tensor(-5.0, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([g], max_iter=30, line_search_fn="strong_wolfe", tolerance_change=1e-14)

    def loss():
        optimiser.zero_grad()
        value = (d.torch_rollout(x0, U, torch.cat([p[:i], g[None], p[i + 1 :]])) - target).square().mean()
        value.backward()
        return value

    optimiser.step(loss)
    assert abs(g.item() - p[i].item()) < 1e-5


def test_nothing_is_copied(cartpole):
    model, d = cartpole
    x0, U, p = (t.detach() for t in tensors(model, 3))
    seen = {}
    real = d.rollout
    d.rollout = lambda *a: seen.setdefault("X", real(*seen.setdefault("in", a)))
    try:
        X = d.torch_rollout(x0, U, p)
    finally:
        del d.rollout
    assert [a.ctypes.data for a in seen["in"]] == [t.data_ptr() for t in (x0, U, p)]
    assert seen["X"].ctypes.data == X.data_ptr()


def test_what_it_cannot_do_it_says(cartpole):
    model, d = cartpole
    x0, U, p = tensors(model, 2)
    with pytest.raises(TypeError, match="argument U: expected a torch.float64 tensor on the CPU, found torch.float32"):
        d.torch_rollout(x0, U.float(), p)
    with pytest.raises(TypeError, match="argument p: .* found ndarray"):
        d.torch_rollout(x0, U, p.detach().numpy())
    with pytest.raises(ValueError, match="argument x0: expected shape"):
        d.torch_rollout(x0[:, 1:], U, p)
    (gradient,) = torch.autograd.grad(d.torch_rollout(x0, U, p).sum(), x0, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable|does not require grad"):
        gradient.sum().backward()
