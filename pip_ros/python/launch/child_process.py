"""One child process in a process group and a session of its own, with its output streams.

The group makes sure that nothing is left behind: a terminal's Ctrl-C reaches
the launch alone, which passes it on in order; SIGKILL goes to the group; and
what a process leaves behind in its group when it ends is killed after a grace.
"""

import asyncio
import os
import signal
import subprocess
import termios
import threading

from .process_guard import guard

# Children of a process that has ended get this long to end too. Python's own
# resource tracker, which frees shared memory, needs some of it.
GRACE_FOR_LEFTOVERS = 1.0
# A process that left a child holding its output is not waited for longer.
GRACE_FOR_OUTPUT = 1.0
# With this variable at 1 processes stay in the launch's session: for many graphs side by side, of which none comes first.
SHARED_SESSION = "LAUNCH_SHARED_SESSION"


class ChildProcess:
    """A running process; must be created in a running asyncio loop.

    Args:
        cmd: list of words, or one text with shell=True.
        on_output: called as on_output(fd, data) with fd 1 or 2 and bytes.
        emulate_tty: connect the outputs to pseudo-terminals instead of pipes.

    Raises:
        OSError: the program or the directory does not exist or may not be used.
    """

    def __init__(self, cmd, *, cwd, env, shell, emulate_tty, on_output):
        self._loop = asyncio.get_running_loop()
        self._on_output = on_output
        self._open_fds = set()
        self._drained = asyncio.Event()
        self._exited = self._loop.create_future()
        shared = os.environ.get(SHARED_SESSION) == "1"
        ends = [_pty() if emulate_tty else os.pipe() for _ in range(2)]
        try:
            self._popen = subprocess.Popen(
                cmd,
                cwd=cwd,
                env=env,
                shell=shell,
                # A group of its own, which is what gets signals, and a session: where the kernel weighs sessions, one graph is not
                # worth as much as one loop in another terminal.
                process_group=0 if shared else None,
                start_new_session=not shared,
                stdin=subprocess.PIPE,
                stdout=ends[0][1],
                stderr=ends[1][1],
                bufsize=0,
            )
        except BaseException:
            for read_end, _ in ends:
                os.close(read_end)
            raise
        finally:
            for _, write_end in ends:
                os.close(write_end)
        self.pid = self._popen.pid
        guard.add(self.pid)
        for fd, (read_end, _) in enumerate(ends, start=1):
            os.set_blocking(read_end, False)
            self._open_fds.add(read_end)
            self._loop.add_reader(read_end, self._read, fd, read_end)
        threading.Thread(target=self._wait, name=f"wait-{self.pid}", daemon=True).start()

    @property
    def is_running(self):
        return not self._exited.done()

    @property
    def returncode(self):
        """Exit status, -N after signal N, None while running."""
        return self._exited.result() if self._exited.done() else None

    async def wait(self, timeout=None):
        """Return True once the process has ended, False after timeout seconds."""
        done, _ = await asyncio.wait([self._exited], timeout=timeout)
        return bool(done)

    def send_signal(self, signum, *, to_group=False):
        """Send a signal to the process, or to all of its group; nothing if it has ended."""
        if not self.is_running:
            return
        if to_group:
            _signal_group(self.pid, signum)
        else:
            self._popen.send_signal(signum)

    async def finish_output(self):
        """Wait until everything that the ended process wrote has been passed on."""
        try:
            await asyncio.wait_for(self._drained.wait(), GRACE_FOR_OUTPUT)
        except TimeoutError:
            pass

    async def finish_group(self):
        """End what the ended process left behind in its group."""
        deadline = self._loop.time() + GRACE_FOR_LEFTOVERS
        while _group_is_alive(self.pid):
            if self._loop.time() > deadline:
                _signal_group(self.pid, signal.SIGKILL)
            if self._loop.time() > deadline + GRACE_FOR_LEFTOVERS:
                break  # in an uninterruptible system call: nothing more can be done
            await asyncio.sleep(0.02)
        guard.remove(self.pid)
        for fd in tuple(self._open_fds):
            self._close(fd)

    def _wait(self):
        returncode = self._popen.wait()
        try:
            self._loop.call_soon_threadsafe(self._exited.set_result, returncode)
        except RuntimeError:  # the loop was closed: nobody waits any more
            guard.remove(self.pid)

    def _read(self, fd, read_end):
        try:
            data = os.read(read_end, 65536)
        except BlockingIOError:
            return
        except OSError:  # a pseudo-terminal reports its end as EIO
            data = b""
        if data:
            self._on_output(fd, data)
        else:
            self._close(read_end)

    def _close(self, read_end):
        self._loop.remove_reader(read_end)
        os.close(read_end)
        self._open_fds.remove(read_end)
        if not self._open_fds:
            self._popen.stdin.close()
            self._drained.set()


def _pty():
    """Return the two ends of a pseudo-terminal that leaves line ends alone."""
    read_end, write_end = os.openpty()
    attributes = termios.tcgetattr(write_end)
    attributes[1] &= ~termios.ONLCR
    termios.tcsetattr(write_end, termios.TCSANOW, attributes)
    return read_end, write_end


def _signal_group(group, signum):
    try:
        os.killpg(group, signum)
    except (ProcessLookupError, PermissionError):
        pass


def _group_is_alive(group):
    """Return whether the group has a member other than zombies.

    Zombies count for killpg, and where nobody reaps orphans (containers whose
    first process is not an init) they stay for ever.
    """
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    if not os.path.isdir("/proc/self"):
        return True
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            with open(f"/proc/{entry.name}/stat", "rb") as file:
                state, _, pgrp = file.read().rpartition(b")")[2].split()[:3]
        except OSError:
            continue
        if int(pgrp) == group and state not in (b"Z", b"X"):
            return True
    return False
