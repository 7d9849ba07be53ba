"""The pages of controller, refit worker and supervisor name every parameter, topic and service."""

import pytest

pytest.importorskip("rclpy")

from nodes.control.adaptive_mpc_config import AdaptiveMpcConfig
from nodes.control.refit_worker_config import RefitWorkerConfig
from nodes.supervision.supervisor import SupervisorConfig


@pytest.mark.parametrize(
    "room, node, config",
    [
        ("control", "adaptive_mpc", AdaptiveMpcConfig),
        ("control", "refit_worker", RefitWorkerConfig),
        ("supervision", "supervisor", SupervisorConfig),
    ],
)
def test_the_page_names_everything(documentation, room, node, config):
    assert documentation.missing(f"{node}.md", config, f"nodes/{room}/{node}.py") == []
