"""Wait for what a process does.

Every function exists for async tests and, with the suffix _sync, for plain
ones. `timeout` is in seconds, None waits for ever. As in the real package,
wait_for_start and wait_for_exit wait for the event itself: they return False
if it happened before the call.
"""

import asyncio
import contextlib
import threading
import time

from launch.event_handlers import OnProcessExit, OnProcessIO, OnProcessStart


def _on_stdout(action, notify):
    return OnProcessIO(target_action=action, on_stdout=lambda event: notify())


def _on_stderr(action, notify):
    return OnProcessIO(target_action=action, on_stderr=lambda event: notify())


def _on_start(action, notify):
    return OnProcessStart(target_action=action, on_start=lambda event, context: notify())


def _on_exit(action, notify):
    return OnProcessExit(target_action=action, on_exit=lambda event, context: notify())


@contextlib.contextmanager
def _registered(context, handler):
    # Appended: the output is complete when the handlers of the process itself were first.
    context.register_event_handler(handler, append=True)
    try:
        yield
    finally:
        context.unregister_event_handler(handler)


def _remaining(deadline):
    return None if deadline is None else max(0.0, deadline - time.monotonic())


async def _wait(context, action, make_handler, timeout, condition=None):
    """Return True once notified with the condition true, False after the timeout."""
    notified = asyncio.Event()
    deadline = None if timeout is None else time.monotonic() + timeout
    with _registered(context, make_handler(action, notified.set)):
        while condition is None or not condition():
            try:
                await asyncio.wait_for(notified.wait(), _remaining(deadline))
            except TimeoutError:
                return condition() if condition is not None else False
            if condition is None:
                return True
            notified.clear()
        return True


def _wait_sync(context, action, make_handler, timeout, condition=None):
    notified = threading.Event()
    deadline = None if timeout is None else time.monotonic() + timeout
    with _registered(context, make_handler(action, notified.set)):
        while condition is None or not condition():
            if not notified.wait(_remaining(deadline)):
                return condition() if condition is not None else False
            if condition is None:
                return True
            notified.clear()
        return True


def _holds(validate, get_text):
    """Return a condition: the validation passes without AssertionError."""

    def condition():
        try:
            validate(get_text())
        except AssertionError:
            return False
        return True

    return condition


async def wait_for_output(launch_context, execute_process_action, validate_output, timeout=None):
    """Return whether validate_output(stdout) returned True in time; needs cached_output=True."""
    return await _wait(
        launch_context,
        execute_process_action,
        _on_stdout,
        timeout,
        lambda: validate_output(execute_process_action.get_stdout()),
    )


def wait_for_output_sync(launch_context, execute_process_action, validate_output, timeout=None):
    return _wait_sync(
        launch_context,
        execute_process_action,
        _on_stdout,
        timeout,
        lambda: validate_output(execute_process_action.get_stdout()),
    )


async def assert_output(launch_context, execute_process_action, validate_output, timeout=None):
    """Wait until validate_output(stdout) raises no AssertionError; raise it after the timeout."""
    get_text = execute_process_action.get_stdout
    if not await _wait(launch_context, execute_process_action, _on_stdout, timeout, _holds(validate_output, get_text)):
        validate_output(get_text())


def assert_output_sync(launch_context, execute_process_action, validate_output, timeout=None):
    get_text = execute_process_action.get_stdout
    if not _wait_sync(launch_context, execute_process_action, _on_stdout, timeout, _holds(validate_output, get_text)):
        validate_output(get_text())


async def wait_for_stderr(launch_context, execute_process_action, validate_output, timeout=None):
    """Like wait_for_output, for error output."""
    return await _wait(
        launch_context,
        execute_process_action,
        _on_stderr,
        timeout,
        lambda: validate_output(execute_process_action.get_stderr()),
    )


def wait_for_stderr_sync(launch_context, execute_process_action, validate_output, timeout=None):
    return _wait_sync(
        launch_context,
        execute_process_action,
        _on_stderr,
        timeout,
        lambda: validate_output(execute_process_action.get_stderr()),
    )


async def assert_stderr(launch_context, execute_process_action, validate_output, timeout=None):
    """Like assert_output, for error output."""
    get_text = execute_process_action.get_stderr
    if not await _wait(launch_context, execute_process_action, _on_stderr, timeout, _holds(validate_output, get_text)):
        validate_output(get_text())


def assert_stderr_sync(launch_context, execute_process_action, validate_output, timeout=None):
    get_text = execute_process_action.get_stderr
    if not _wait_sync(launch_context, execute_process_action, _on_stderr, timeout, _holds(validate_output, get_text)):
        validate_output(get_text())


async def wait_for_start(launch_context, execute_process_action, timeout=None):
    """Return whether the process was started in time."""
    return await _wait(launch_context, execute_process_action, _on_start, timeout)


def wait_for_start_sync(launch_context, execute_process_action, timeout=None):
    return _wait_sync(launch_context, execute_process_action, _on_start, timeout)


async def wait_for_exit(launch_context, execute_process_action, timeout=None):
    """Return whether the process ended in time."""
    return await _wait(launch_context, execute_process_action, _on_exit, timeout)


def wait_for_exit_sync(launch_context, execute_process_action, timeout=None):
    return _wait_sync(launch_context, execute_process_action, _on_exit, timeout)
