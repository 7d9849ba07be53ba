"""The pytest plugin: runs launch fixtures, and tests beside and after them.

A test marked `@pytest.mark.launch(fixture=f)` runs while f's launch does, with
`shutdown=True` after it has ended. Generators, plain or async, are split at
their only yield: before it the launch runs, after it it has ended. Plain
functions run in a thread while the asyncio loop goes on, coroutines in the loop.
"""

import asyncio
import functools
import inspect
from collections.abc import Sequence

import launch
import pytest
from _pytest.mark.structures import get_unpacked_marks

from .actions import ReadyToTest
from .fixture import finalize_launch_service, make_fixture

event_loop = make_fixture("event_loop", "function")
launch_service = make_fixture("launch_service", "function")
launch_context = make_fixture("launch_context", "function")


class LaunchTestWarning(pytest.PytestWarning):
    """A launch test that cannot run."""


def pytest_configure(config):
    config.addinivalue_line(
        "markers",
        "launch(fixture, shutdown=False): run the test with the launch description "
        "of a launch_pytest.fixture, or after that launch has ended.",
    )


# -- fixtures ----------------------------------------------------------------


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(fixturedef, request):
    """Start the launch that a launch fixture describes; wait until tests may start."""
    options = getattr(fixturedef.func, "_launch_pytest_options", None)
    if options is None:
        return (yield)
    where = f"When running launch_pytest fixture '{options['name']}':"
    service = request.getfixturevalue("launch_service")
    loop = request.getfixturevalue("event_loop")
    result = yield
    description = result[0] if isinstance(result, Sequence) and result else result
    if not isinstance(description, launch.LaunchDescription):
        raise TypeError(
            f"{where} return value must be either a launch description or a "
            f"sequence which first item is a launch description, found {result!r}"
        )
    ready = asyncio.Event()
    _ready_to_test_action(description)._add_callback(ready.set)
    service.include_launch_description(description)
    fixturedef.addfinalizer(
        functools.partial(finalize_launch_service, service, eprefix=where, auto_shutdown=options["auto_shutdown"])
    )
    asyncio.set_event_loop(loop)
    run = loop.create_task(service.run_async(shutdown_when_idle=options["shutdown_when_idle"]))
    is_ready = loop.create_task(ready.wait())
    loop.run_until_complete(asyncio.wait([run, is_ready], return_when=asyncio.FIRST_COMPLETED))
    if not is_ready.done():
        is_ready.cancel()
        raise RuntimeError(
            f"{where} the launch ended, with return code {run.result()}, "
            "before the tests could start; see its log above"
        )
    return result


def _ready_to_test_action(description):
    """Return the description's ReadyToTest action, appended if there is none."""
    found = list(_ready_to_test_actions(description.entities))
    if len(found) > 1:
        raise RuntimeError(
            "launch_pytest fixtures must return a LaunchDescription containing only one ReadyToTest action"
        )
    if not found:
        found = [ReadyToTest()]
        description.add_action(found[0])
    return found[0]


def _ready_to_test_actions(entities):
    for entity in entities:
        if isinstance(entity, ReadyToTest):
            yield entity
        yield from _ready_to_test_actions(entity.describe_sub_entities())
        for _, sub_entities in entity.describe_conditional_sub_entities():
            yield from _ready_to_test_actions(sub_entities)


# -- collection --------------------------------------------------------------


def _options_of(item):
    """Return the options of the launch fixture that a test uses, None for other tests."""
    mark = item.get_closest_marker("launch")
    fixture = mark.kwargs.get("fixture") if mark else None
    return getattr(fixture, "_launch_pytest_options", None)


def _launch_mark(collector, obj):
    """Return the innermost launch mark of a test that is about to be collected."""
    own = [mark for mark in get_unpacked_marks(obj) if mark.name == "launch"]
    return own[-1] if own else collector.get_closest_marker("launch")


def _is_split(function):
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector, name, obj):
    """Make the items of launch tests, which pytest alone would refuse or skip."""
    if not (collector.funcnamefilter(name) and inspect.isroutine(obj)):
        return None
    mark = _launch_mark(collector, obj)
    if mark is None:
        return None
    options = getattr(mark.kwargs.get("fixture"), "_launch_pytest_options", None)
    if options is None:
        item = pytest.Function.from_parent(collector, name=name)
        message = (
            '"fixture" keyword argument is required in a pytest.mark.launch() decorator, '
            "and must be a launch_pytest.fixture"
        )
        item.warn(LaunchTestWarning(message))
        item.add_marker(pytest.mark.skip(message))
        return [item]
    # By mark and not by argument, so that parametrised launch fixtures multiply the tests.
    pytest.mark.usefixtures(options["name"], "launch_service", "event_loop")(obj)
    items = _make_items(collector, name, obj, bool(mark.kwargs.get("shutdown", False)))
    if _is_split(obj) and options["scope"] != "function":
        # The other tests of the launch run between the two parts.
        parts_after = _make_items(collector, name, obj, True)
        for item, part_after in zip(items, parts_after):
            part_after.name += "[shutdown_test]"
            part_after._nodeid += "[shutdown_test]"
            part_after._launch_pytest_first_part = item
        items += parts_after
    return items


def _make_items(collector, name, obj, is_shutdown_test):
    items = list(collector._genfunctions(name, obj))
    for item in items:
        item._launch_pytest_is_shutdown = is_shutdown_test
        item._launch_pytest_first_part = None
    return items


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Move shutdown tests behind the last other test of the same launch."""
    last_other, shutdown_tests = {}, {}
    for item in items:
        launch_key = _launch_key(item)
        if launch_key is None:
            continue
        if item._launch_pytest_is_shutdown:
            shutdown_tests.setdefault(launch_key, []).append(item)
        else:
            last_other[launch_key] = item
    moved = {id(test) for key, tests in shutdown_tests.items() if key in last_other for test in tests}
    after = {id(last_other[key]): tests for key, tests in shutdown_tests.items() if key in last_other}
    items[:] = [test for item in items if id(item) not in moved for test in (item, *after.get(id(item), ()))]


def _launch_key(item):
    """Return what tests of one and the same launch have in common; None if there is no other."""
    options = _options_of(item)
    if options is None or options["scope"] == "function" or not hasattr(item, "_launch_pytest_is_shutdown"):
        return None
    parent = item.getparent({"module": pytest.Module, "class": pytest.Class}.get(options["scope"], pytest.Session))
    callspec = getattr(item, "callspec", None)
    parameter = callspec.indices.get(options["name"]) if callspec else None
    return options["name"], id(parent), parameter


# -- tests -------------------------------------------------------------------


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run a launch test in the loop of its launch."""
    options = _options_of(pyfuncitem)
    if options is None:
        return (yield)
    # The original is kept: plugins that repeat tests call this again for the same item.
    function = getattr(pyfuncitem, "_launch_pytest_function", pyfuncitem.obj)
    pyfuncitem._launch_pytest_function = function
    mark = pyfuncitem.get_closest_marker("launch")
    if _is_split(function) and mark.kwargs.get("shutdown", False):
        pytest.fail(
            "generator or async generator based launch test items cannot be marked with shutdown=True", pytrace=False
        )
    loop = pyfuncitem.funcargs["event_loop"]
    service = pyfuncitem.funcargs["launch_service"]
    end_launch = functools.partial(
        finalize_launch_service,
        service,
        eprefix=f"When running test {function.__name__}",
        auto_shutdown=options["auto_shutdown"],
    )
    test = _Test(function, loop)
    if pyfuncitem._launch_pytest_first_part is not None:
        first_part = getattr(pyfuncitem._launch_pytest_first_part, "_launch_pytest_test", None)
        if first_part is None or not first_part.is_suspended:
            pytest.skip("shutdown test skipped because the test failed before")

        def run(**kwargs):
            end_launch()
            first_part.finish()
    elif pyfuncitem._launch_pytest_is_shutdown:

        def run(**kwargs):
            end_launch()
            test.start(kwargs)
    elif _is_split(function) and options["scope"] == "function":

        def run(**kwargs):
            test.start(kwargs)
            end_launch()
            test.finish()
    else:

        def run(**kwargs):
            test.start(kwargs)

    pyfuncitem._launch_pytest_test = test
    pyfuncitem.obj = run
    try:
        result = yield
    finally:
        pyfuncitem.obj = function
    if service.interrupted:
        end_launch()
    return result


class _Test:
    """A test function of any kind, run to its end or to its yield."""

    def __init__(self, function, loop):
        self._function = function
        self._loop = loop
        self._generator = None

    @property
    def is_suspended(self):
        return self._generator is not None

    def start(self, kwargs):
        function = self._function
        if inspect.iscoroutinefunction(function):
            self._loop.run_until_complete(function(**kwargs))
        elif inspect.isgeneratorfunction(function):
            generator = function(**kwargs)
            # The default: StopIteration cannot pass through a future.
            self._run_in_thread(functools.partial(next, generator, None))
            self._generator = generator
        elif inspect.isasyncgenfunction(function):
            generator = function(**kwargs)
            self._loop.run_until_complete(generator.__anext__())
            self._generator = generator
        else:
            self._run_in_thread(functools.partial(function, **kwargs))

    def _run_in_thread(self, function):
        self._loop.run_until_complete(self._loop.run_in_executor(None, function))

    def finish(self):
        """Run what follows the yield; the launch has ended, so nothing else has to go on."""
        generator, self._generator = self._generator, None
        try:
            if inspect.isasyncgen(generator):
                self._loop.run_until_complete(generator.__anext__())
            else:
                next(generator)
        except (StopIteration, StopAsyncIteration):
            return
        pytest.fail("launch tests using a generator function must stop iteration after yielding once", pytrace=False)
