"""The pages of controller, refit worker and supervisor name every parameter, topic and service."""

import pytest

pytest.importorskip("rclpy")

from nodes.adaptive_mpc_config import AdaptiveMpcConfig  # noqa: E402
from nodes.refit_session import RefitWorkerConfig  # noqa: E402
from nodes.supervisor import SupervisorConfig  # noqa: E402


@pytest.mark.parametrize("node, config", [
    ("adaptive_mpc", AdaptiveMpcConfig), ("refit_worker", RefitWorkerConfig), ("supervisor", SupervisorConfig)])
def test_the_page_names_everything(documentation, node, config):
    assert documentation.missing(f"{node}.md", config, f"nodes/{node}.py") == []
