"""Ends the launched processes if the launch itself is killed.

SIGKILL leaves no time to clean up, and nodes that go on driving a robot after
their launch is gone are dangerous. So a small shell process reads from a pipe
which process groups exist. When the pipe breaks, the launch is gone: the guard
sends SIGINT to the groups that are left and SIGKILL three seconds later.
"""

import atexit
import os
import subprocess
import threading

_SCRIPT = """
trap "" INT TERM HUP QUIT
groups=" "
while read -r verb group; do
    case $verb in
        add) groups="$groups$group " ;;
        remove) groups="${groups%% $group *} ${groups#* $group }" ;;
    esac
done
[ "$groups" = " " ] && exit 0
for group in $groups; do kill -s INT -- "-$group" 2>/dev/null; done
sleep 3
for group in $groups; do kill -s KILL -- "-$group" 2>/dev/null; done
"""


class ProcessGuard:
    """Tells the guard process, started with the first group, which groups exist."""

    def __init__(self):
        self._lock = threading.Lock()
        self._groups = set()
        self._process = None
        self._owner = None

    def add(self, group):
        with self._lock:
            self._groups.add(group)
            if self._owner != os.getpid():  # first use, or in a fork of the first user
                self._process = subprocess.Popen(
                    ["/bin/sh", "-c", _SCRIPT],
                    stdin=subprocess.PIPE,
                    bufsize=0,
                    cwd="/",
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
                self._owner = os.getpid()
            self._tell("add", group)

    def remove(self, group):
        with self._lock:
            if group in self._groups:
                self._groups.remove(group)
                self._tell("remove", group)

    def close(self):
        """End the guard process if it has nothing left to guard."""
        with self._lock:
            if self._owner == os.getpid() and not self._groups:
                self._process.stdin.close()
                self._process.wait()
                self._owner = None

    def _tell(self, verb, group):
        try:
            self._process.stdin.write(f"{verb} {group}\n".encode())
        except BrokenPipeError:  # somebody killed the guard; the launch goes on without
            pass


guard = ProcessGuard()
atexit.register(guard.close)
