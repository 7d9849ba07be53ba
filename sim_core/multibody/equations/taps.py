"""Named quantities inside a step, where networks listen and speak.

Every evaluation of the joint forces makes one `Taps`. What the equations compute is handed through it under a name;
what comes back is the same value, corrected or replaced where a network of the model has that name as its output.

    taps.record("joint1.velocity", v[0])                       # may be an input of a network
    tau = taps("joint1.passive_torque", -damping * v[0])       # may be an input, and an output

Names are the model's own: "joint1.position", ".velocity", ".actuator_torque", ".passive_torque", "joint1.control" (the
actuator's name), "contact.box.floor.normal_force", "body.box.velocity.vx" and "body.box.wrench.fx" (body_taps.py). A
network's inputs must be recorded before its output.
"""

__all__ = ["Taps", "captured", "filled"]


class Taps:
    """One evaluation of the forces.

    Args:
        model: RobotModel; its `augmentation` holds the networks (sim_core.augmentation): each has `inputs`, `outputs`
            (names, with at most one "*"), `replaces` and `evaluate(values, p)`.
        p: physical vector (np_,), which contains their weights.
        silent: without the networks: residuals vanish, and what they replace is zero.
        everything: compute also what no network mentions, to know all names.

    Attributes:
        values: name -> scalar, in the order of the equations.   correctable: names that may be outputs.
    """

    def __init__(self, model, p, silent=False, everything=False):
        self.model, self.p, self.silent, self.everything = model, p, silent, everything
        self.values, self.correctable = {}, []
        self._spoken = {}

    def mentions(self, prefix):
        """Whether a network reads or corrects a quantity whose name begins so: others need not be computed for it."""
        patterns = [name for network in self.model.augmentation for name in (*network.inputs, *network.outputs)]
        return self.everything or any(pattern.startswith(prefix) for pattern in patterns)

    def record(self, name, value):
        """Make a scalar known under `name`, as an input."""
        self.values[name] = value

    def __call__(self, name, value):
        """The scalar `value` itself, corrected or replaced by the network whose output is `name`."""
        self.correctable.append(name)
        for network in self.model.augmentation:
            for k, output in enumerate(network.outputs):
                star = captured(output, name)
                if star is not None:
                    value = self._corrected(value, network, k, star)
        self.record(name, value)
        return value

    def _corrected(self, value, network, k, star):
        if self.silent:
            return value * 0 if network.replaces else value
        said = self._say(network, star)[k]
        return said if network.replaces else value + said

    def _say(self, network, star):
        """The network's outputs for one filling of its star, computed once."""
        if (network.name, star) not in self._spoken:
            values = []
            for pattern in network.inputs:
                name = filled(pattern, star)
                if name not in self.values:
                    raise KeyError(f"Network '{network.name}': its input '{name}' is not computed before its output.")
                values.append(self.values[name])
            self._spoken[network.name, star] = network.evaluate(values, self.p)
        return self._spoken[network.name, star]


def captured(pattern, name):
    """What "*" stands for where `name` is of the form `pattern`: "" without a star, None where it is not."""
    head, star, tail = pattern.partition("*")
    if not star:
        return "" if pattern == name else None
    fits = name.startswith(head) and name.endswith(tail) and len(name) >= len(head) + len(tail)
    return name[len(head) : len(name) - len(tail)] if fits else None


def filled(pattern, star):
    """`pattern` with its star filled in: one network for every contact listens at that contact."""
    return pattern.replace("*", star)
