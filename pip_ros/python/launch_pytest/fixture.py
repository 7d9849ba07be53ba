"""Fixtures that run a launch description."""

import asyncio
import sys

import launch
import pytest
from _pytest.scope import Scope


def finalize_launch_service(launch_service, eprefix="", auto_shutdown=True):
    """End the launch if it still runs, and check that it ended well.

    Raises:
        AssertionError: the launch itself failed.
        KeyboardInterrupt: a Ctrl-C arrived during the launch; pytest has to see it.
    """
    if auto_shutdown:
        launch_service.shutdown(force_sync=True)
    loop = launch_service.event_loop
    if loop is not None and not loop.is_closed():
        return_code = loop.run_until_complete(launch_service.task)
        assert return_code == 0, f"{eprefix} launch service failed when finishing, return code '{return_code}'"
    if launch_service.interrupted:
        launch_service.interrupted = False
        raise KeyboardInterrupt


def _make_event_loop_fixture(scope):
    @pytest.fixture(scope=scope)
    def event_loop():
        """The asyncio loop in which the launch and async tests run."""
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        yield loop
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
        asyncio.set_event_loop(None)

    return event_loop


def _make_launch_service_fixture(scope):
    @pytest.fixture(scope=scope)
    def launch_service(event_loop):
        """The LaunchService that runs the launch description."""
        service = launch.LaunchService()
        yield service
        finalize_launch_service(service, "When tearing down launch_service fixture")

    return launch_service


def _make_launch_context_fixture(scope):
    @pytest.fixture(scope=scope)
    def launch_context(launch_service):
        """The context of the launch."""
        return launch_service.context

    return launch_context


FIXTURE_MAKERS = {
    "event_loop": _make_event_loop_fixture,
    "launch_service": _make_launch_service_fixture,
    "launch_context": _make_launch_context_fixture,
}


def make_fixture(name, scope):
    """Return the fixture of this name, marked so that a wider one may replace it."""
    made = FIXTURE_MAKERS[name](scope)
    made._launch_pytest_scope = scope
    return made


def fixture(decorated=None, *args, shutdown_when_idle=True, auto_shutdown=True, **kwargs):
    """Turn a function that returns a launch description into a fixture that runs it.

    The function may also return a sequence whose first item is the launch
    description; that is what tests get.

    Args:
        shutdown_when_idle: end the launch when nothing is left to do.
        auto_shutdown: end it when its tests have run; otherwise it has to end by itself.
        args, kwargs: for pytest.fixture, such as scope and params.
    """
    scope = kwargs.get("scope", "function")
    if scope != "function":
        _widen_fixtures(sys._getframe(1).f_globals, scope)

    def decorate(function):
        options = {
            "shutdown_when_idle": shutdown_when_idle,
            "auto_shutdown": auto_shutdown,
            "scope": scope,
            "name": kwargs.get("name") or function.__name__,
        }
        function._launch_pytest_options = options
        made = pytest.fixture(function, *args, **kwargs)
        made._launch_pytest_options = options
        return made

    return decorate if decorated is None else decorate(decorated)


def _widen_fixtures(module_globals, scope):
    """Give the module event_loop, launch_service and launch_context of at least this scope."""
    for name in FIXTURE_MAKERS:
        present = module_globals.get(name)
        present_scope = getattr(present, "_launch_pytest_scope", None)
        if present is None or (present_scope and Scope(scope) > Scope(present_scope)):
            module_globals[name] = make_fixture(name, scope)
