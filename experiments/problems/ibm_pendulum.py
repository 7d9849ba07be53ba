"""The filmed double pendulum: model, limits, which windows are used for what, and what a method scores."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from experiments.problems.double_pendulum_data import RecordingError, load_recordings, windows
from identification.errors import unusable_input
from sim_core.inference.data.trajectories import Trajectories
from sim_core.inference.posterior.predictive import Discrepancy, discrepancy, replicas, simulated
from sim_core.inference.shooting.likelihood import MultipleShooting, SingleShooting
from sim_core.inference.shooting.limited_parameters import LimitedParameters
from sim_core.multibody import Dynamics, load_model

STEPS = 400  # 1 s at 400 Hz
SIGMA_OBS, SIGMA_DEF, WINDOWS = 0.2, 0.1, 10  # standard deviations of the states; sigma_def^2 = 1e-2 as published

# The published limits. I_xx counts about the hinge: about the COM, 0.002 kg m^2 and 0.5 kg would hold any pendulum within
# them below 8.8 rad/s, and this one swings faster (`./refit experiment csvgd_ibm_pendulum` fits both, see its report).
LIMITS = {
    "link1.mass": (0.05, 0.5),
    "link1.I.xx": (0.002, 1.0),
    "link1.com.y": (-0.2, 0.2),
    "link1.com.z": (-0.2, 0.2),
    "joint1.damping": (0.0, 0.5),
    "link2.mass": (0.05, 0.5),
    "link2.I.xx": (0.002, 1.0),
    "link2.com.y": (-0.2, 0.2),
    "link2.com.z": (-0.2, 0.2),
    "joint2.damping": (0.0, 0.5),
    "link2.length": (0.08, 0.3),
}
TIES = {"link2.length": {"link2.pos.z": -1.0}}

# By rule: frames 16000 to 16400 of each film, the source's example (film 10) for training; the ten held-out windows are
# filled up with frames 15000 to 15400 of the first films. Settings of the baselines are chosen on the last films' ones.
TRAINING = [("10", 16000)]
HELD_OUT = [(name, 16000) for name in "012345"] + [(name, 15000) for name in "0123"]
VALIDATION = [(name, 15000) for name in ("4", "5", "10")]


def limited(model, about: str = "I") -> LimitedParameters:
    """The 11 quantities; `about` is "I" (hinge) or "I_com"."""
    return LimitedParameters(model, {name.replace(".I.", f".{about}."): limit for name, limit in LIMITS.items()}, TIES)


@dataclass
class Study:
    """Everything the methods share.

    Attributes:
        training: one window. held_out, validation: windows with their replicas.
    """

    dynamics: Dynamics
    parameters: LimitedParameters
    training: Trajectories
    held_out: Trajectories
    validation: Trajectories

    @classmethod
    def load(cls, about: str = "I") -> Study:
        """Raises UnusableInput where there are no recordings, or others than these; the text says what to do."""
        model = load_model("double_pendulum")
        with unusable_input(FileNotFoundError, RecordingError):
            recordings = load_recordings()
            cut = [windows(recordings, which, STEPS) for which in (TRAINING, replicas(HELD_OUT), replicas(VALIDATION))]
        return cls(Dynamics(model), limited(model, about), *cut)

    def single(self, sigma_obs: float = SIGMA_OBS) -> SingleShooting:
        return SingleShooting(self.dynamics, self.parameters, self.training, sigma_obs=sigma_obs)

    def multiple(self, sigma_obs: float = SIGMA_OBS, sigma_def: float = SIGMA_DEF) -> MultipleShooting:
        return MultipleShooting(self.dynamics, self.parameters, self.training, WINDOWS, sigma_obs, sigma_def)

    def simulated(self, z: np.ndarray, recorded: Trajectories) -> np.ndarray:
        """Roll-outs (N, R, T+1, nx) of z (N, >= 11); shooting states behind the parameters play no part."""
        return simulated(self.dynamics, self.parameters, self.parameters.theta(z[:, : self.parameters.n]), recorded)

    def score(self, z: np.ndarray, recorded: Trajectories) -> Discrepancy:
        """Against `held_out` or `validation`, in units of the training window's standard deviations."""
        return discrepancy(self.simulated(z, recorded), recorded, self.training.scale)


def row(found: Discrepancy) -> dict:
    return asdict(found)
