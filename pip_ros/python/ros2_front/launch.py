"""`ros2 launch`: what stands in for it beside this package."""

from .errors import FrontError


def main(words):
    """Run the launch file that the words name.

    Raises:
        FrontError: nothing here can.
    """
    try:
        import launch_front
    except ModuleNotFoundError as error:
        raise FrontError(f"launch files cannot be run here ({error}); use ./refit launch") from None
    return launch_front.main(list(words))
