"""The pytest plugin, by running pytest on small test files."""

import re
import signal
import subprocess
import sys
import textwrap
import time

import pytest

HEAD = '''
import asyncio, sys, threading
import launch, launch_pytest, pytest
from launch.actions import ExecuteProcess, OpaqueFunction, Shutdown, TimerAction
from launch_pytest.actions import ReadyToTest
from launch_pytest.tools import process as process_tools

log = []

def talker():
    return ExecuteProcess(
        cmd=[sys.executable, "-S", "-E", "-u", "-c",
             "import sys, time; print('hello'); time.sleep(0.2); print('again');"
             "print('bad', file=sys.stderr); time.sleep(60)"], cached_output=True, output='screen')

def sleeper():
    """Ends by SIGINT at any moment, which Python does not while it starts."""
    return ExecuteProcess(cmd=['sleep', '60'])

@launch_pytest.fixture
def sleeping():
    process = sleeper()
    return launch.LaunchDescription([process]), process
'''


@pytest.fixture
def run_pytest(tmp_path):
    """Return a function that runs tests and returns ({test: outcome}, exit code, output)."""

    def run(source, *options):
        (tmp_path / "test_it.py").write_text(HEAD + textwrap.dedent(source))
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-v",
                "-rs",
                "-p",
                "launch_pytest.plugin",
                "-p",
                "no:cacheprovider",
                "--rootdir",
                str(tmp_path),
                *options,
                "test_it.py",
            ],
            cwd=tmp_path,
            text=True,
            capture_output=True,
            timeout=600,
        )
        outcomes = re.findall(r"^test_it.py::(\S+) (\w+)", done.stdout, re.MULTILINE)
        return dict(outcomes), done.returncode, done.stdout + done.stderr

    return run


FUNCTION_SCOPE = """
@launch_pytest.fixture
def started():
    process = talker()
    return launch.LaunchDescription([process, ReadyToTest()]), process

@pytest.mark.launch(fixture=started)
def test_plain(started, launch_context):
    assert threading.current_thread() is not threading.main_thread()
    def check(text):
        assert text.splitlines() == ['hello', 'again']
    process_tools.assert_output_sync(launch_context, started[1], check, timeout=60)
    assert process_tools.wait_for_stderr_sync(
        launch_context, started[1], lambda text: 'bad' in text, timeout=60)

@pytest.mark.launch(fixture=started)
async def test_coroutine(started, launch_context):
    assert await process_tools.wait_for_output(
        launch_context, started[1], lambda text: 'again' in text, timeout=60)
    assert not await process_tools.wait_for_output(
        launch_context, started[1], lambda text: 'never' in text, timeout=0.1)
    assert not await process_tools.wait_for_exit(launch_context, started[1], timeout=0.1)

@pytest.mark.launch(fixture=sleeping)
def test_generator(sleeping, launch_service):
    assert sleeping[1].return_code is None
    yield
    assert sleeping[1].return_code == -2 and launch_service.event_loop is None

@pytest.mark.launch(fixture=sleeping)
async def test_async_generator(sleeping):
    await asyncio.sleep(0.01)
    assert sleeping[1].return_code is None
    yield
    assert sleeping[1].return_code == -2

@pytest.mark.launch(fixture=sleeping, shutdown=True)
def test_after_shutdown(sleeping):
    assert sleeping[1].return_code == -2

@pytest.mark.launch(fixture=started)
async def test_assertion_shows(started, launch_context):
    def check(text):
        assert text == 'something else'
    await process_tools.assert_output(launch_context, started[1], check, timeout=0.1)

@pytest.mark.launch(fixture=sleeping)
def test_second_part_fails(sleeping):
    yield
    assert sleeping[1].return_code == 17

@pytest.mark.launch(fixture=sleeping)
def test_two_yields(sleeping):
    yield
    yield

@pytest.mark.launch
def test_without_fixture():
    pass

def test_ordinary():
    pass
"""


def test_all_kinds_of_tests(run_pytest):
    outcomes, _, output = run_pytest(FUNCTION_SCOPE)
    assert outcomes == {
        "test_plain": "PASSED",
        "test_coroutine": "PASSED",
        "test_generator": "PASSED",
        "test_async_generator": "PASSED",
        "test_after_shutdown": "PASSED",
        "test_assertion_shows": "FAILED",
        "test_second_part_fails": "FAILED",
        "test_two_yields": "FAILED",
        "test_without_fixture": "SKIPPED",
        "test_ordinary": "PASSED",
    }, output
    assert "assert text == 'something else'" in output
    assert "must stop iteration after yielding once" in output
    assert '"fixture" keyword argument is required' in output


MODULE_SCOPE = """
@launch_pytest.fixture(scope='module', params=['a', 'b'])
def started(request):
    log.append(request.param)
    process = sleeper()
    return launch.LaunchDescription([process]), process

@pytest.mark.launch(fixture=started, shutdown=True)
def test_exit(started):
    log.append('exit')
    assert started[1].return_code == -2

@pytest.mark.launch(fixture=started)
def test_generator(started):
    log.append('before')
    assert started[1].return_code is None
    yield
    log.append('after')
    assert started[1].return_code == -2

@pytest.mark.launch(fixture=started)
async def test_last(started):
    log.append('last')
    assert started[1].return_code is None

def test_order():
    assert log == ['a', 'before', 'last', 'exit', 'after', 'b', 'before', 'last', 'exit', 'after']
"""


def test_shared_launch_and_order(run_pytest):
    outcomes, code, output = run_pytest(MODULE_SCOPE)
    assert code == 0, output
    assert set(outcomes) == {
        f"{name}[{parameter}]{suffix}"
        for parameter in "ab"
        for name, suffix in [
            ("test_exit", ""),
            ("test_generator", ""),
            ("test_generator", "[shutdown_test]"),
            ("test_last", ""),
        ]
    } | {"test_order"}


def test_shutdown_part_is_skipped_after_a_failure(run_pytest):
    outcomes, _, _ = run_pytest("""
        @launch_pytest.fixture(scope='module')
        def started():
            return launch.LaunchDescription([talker()])

        @pytest.mark.launch(fixture=started)
        def test_fails():
            assert False
            yield
        """)
    assert outcomes == {"test_fails": "FAILED", "test_fails[shutdown_test]": "SKIPPED"}


def test_marks_of_modules_and_classes(run_pytest):
    outcomes, code, output = run_pytest("""
        @launch_pytest.fixture
        def started():
            return launch.LaunchDescription([talker()])

        @pytest.mark.launch(fixture=started)
        class TestIt:
            async def test_coroutine(self, launch_service):
                assert launch_service.event_loop is asyncio.get_running_loop()

            @pytest.mark.parametrize('n', [1, 2])
            def test_method(self, n):
                assert n
        """)
    assert code == 0, output
    assert len(outcomes) == 3


def test_ready_to_test_and_self_termination(run_pytest):
    outcomes, code, output = run_pytest("""
        ready = ReadyToTest()

        @launch_pytest.fixture(auto_shutdown=False)
        def started():
            return launch.LaunchDescription([
                TimerAction(period=0.1, actions=[OpaqueFunction(
                    function=lambda context: log.append('visited')), ready]),
                TimerAction(period=0.3, actions=[Shutdown()], cancel_on_shutdown=False)])

        @pytest.mark.launch(fixture=started)
        def test_ready(launch_service):
            assert log == ['visited']
            yield
            assert launch_service.event_loop is None
        """)
    assert code == 0, output


def test_launch_that_fails_before_it_is_ready(run_pytest):
    outcomes, _, output = run_pytest("""
        @launch_pytest.fixture
        def started():
            return launch.LaunchDescription([ExecuteProcess(cmd=['true'], output='sreen')])

        @launch_pytest.fixture
        def wrong():
            return 5

        @pytest.mark.launch(fixture=started)
        def test_fails():
            pass

        @pytest.mark.launch(fixture=wrong)
        def test_wrong():
            pass
        """)
    assert outcomes == {"test_fails": "ERROR", "test_wrong": "ERROR"}
    assert "the launch ended, with return code 1, before the tests could start" in output
    assert "return value must be either a launch description or a sequence" in output


def test_ctrl_c_ends_the_session(tmp_path):
    (tmp_path / "test_it.py").write_text(
        HEAD
        + textwrap.dedent("""
        @launch_pytest.fixture
        def started():
            return launch.LaunchDescription([talker()])

        @pytest.mark.launch(fixture=started)
        async def test_long(launch_context):
            print('now', flush=True)
            while not launch_context.is_shutdown:
                await asyncio.sleep(0.01)

        def test_next():
            pass
        """)
    )
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "pytest",
            "-s",
            "-v",
            "-p",
            "launch_pytest.plugin",
            "-p",
            "no:cacheprovider",
            "test_it.py",
        ],
        cwd=tmp_path,
        text=True,
        stdout=subprocess.PIPE,
    )
    for line in process.stdout:
        if "now" in line:
            break
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 2 and "test_next" not in output  # 2: interrupted
