"""What both tests of a graph that scoops wait for before they ask it for something."""

from launched import until
from refit_interfaces.srv import PredictScoops

__all__ = ["wait_until_it_sees"]

#: a scoop that there is room for
ONE = [0.55, 0.0, 0.0, 0.02, 1.0]


def wait_until_it_sees(probe):
    """All nodes are active, the arm has said that it is at home, and the camera's frame is known: a scoop can be foretold."""
    probe.wait_active("sim_plant", "scoop_arm", "supervisor", "sim_camera", "scooping")
    told = lambda: probe.call(PredictScoops, "scoop/predict", PredictScoops.Request(actions=ONE)).success
    until(told, "a scoop is foretold")
