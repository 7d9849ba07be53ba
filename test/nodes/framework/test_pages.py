"""The pages of controller, refit worker and supervisor name every parameter, topic and service."""

import pytest

pytest.importorskip("rclpy")

from nodes.control.adaptive_mpc_config import AdaptiveMpcConfig
from nodes.control.refit_session import RefitWorkerConfig
from nodes.supervision.supervisor import SupervisorConfig


@pytest.mark.parametrize(
    "node, config",
    [("adaptive_mpc", AdaptiveMpcConfig), ("refit_worker", RefitWorkerConfig), ("supervisor", SupervisorConfig)],
)
def test_the_page_names_everything(documentation, node, config):
    assert documentation.missing(f"{node}.md", config, f"nodes/{node}.py") == []
