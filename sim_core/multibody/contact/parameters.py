"""Parameters of the contact models: names in the physical vector, units, defaults."""

from __future__ import annotations

from typing import Literal

__all__ = ["FIELDS", "ContactLaw", "Fields"]

#: How contacts act in the equations: not at all, by springs and dampers, or by impulses.
ContactLaw = Literal["none", "force", "impulse"]

#: Field of a contact law -> (unit, value).
Fields = dict[str, tuple[str, float]]

#: contact model -> {field: (unit, default)}; None stands for the sliding friction of the model file. The entry in the
#: physical vector is "<group>.<field>".
FIELDS: dict[ContactLaw, dict[str, tuple[str, float | None]]] = {
    "none": {},
    "force": {
        "stiffness": ("N/m^1.5", 5e4),
        "dissipation": ("N s/m^2.5", 5e4),
        "mu_s": ("-", None),
        "mu_d": ("-", None),
        "v_t": ("m/s", 0.01),
    },
    "impulse": {
        "mu": ("-", None),
        "restitution": ("-", 0.0),
        "baumgarte": ("-", 0.2),
        "cfm": ("1/kg", 1e-5),
    },
}
