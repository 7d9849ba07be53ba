"""The pages of controller, refit worker, supervisor and view name every parameter, topic and service."""

import pytest

pytest.importorskip("rclpy")

from nodes.control.adaptive_mpc_config import AdaptiveMpcConfig
from nodes.control.refit_worker_config import RefitWorkerConfig
from nodes.supervision.supervisor import SupervisorConfig
from nodes.view.view import ViewConfig


@pytest.mark.parametrize(
    "room, node, config",
    [
        ("control", "adaptive_mpc", AdaptiveMpcConfig),
        ("control", "refit_worker", RefitWorkerConfig),
        ("supervision", "supervisor", SupervisorConfig),
        ("view", "view", ViewConfig),
    ],
)
def test_the_page_names_everything(documentation, room, node, config):
    assert documentation.missing(f"{node}.md", config, f"nodes/{room}/{node}.py") == []
