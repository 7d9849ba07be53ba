"""Stands in for the supervisor: a process whose node lends the right to command, as the lines on its input say.

lender = Lender()                     # or Lender(name="stranger")
lender.lend("controller"); lender.withdraw("why"); lender.pause(); lender.resume(); lender.stop()
"""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

#: [s] of a lease: long enough for a machine that runs the lender late
DURATION = 1.5


class Lender:
    """Args: name: of its node."""

    def __init__(self, name="supervisor"):
        root = Path(__file__).resolve().parents[3]
        self._process = subprocess.Popen(
            [sys.executable, __file__, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=root,
            env={**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
        )
        assert self._process.stdout.readline() == "ready\n"

    def _say(self, *words):
        self._process.stdin.write("\t".join(words) + "\n")
        self._process.stdin.flush()

    def lend(self, commander):
        """To a node, again and again."""
        self._say("lend", commander)

    def withdraw(self, why):
        """Say again and again that nobody may command."""
        self._say("withdraw", why)

    def pause(self):
        """It hangs."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self):
        self._process.send_signal(signal.SIGCONT)

    def stop(self):
        """It ends, if it has not."""
        if self._process.poll() is None:
            self.resume()
            self._process.stdin.close()
            self._process.wait(60)
        self._process.stdout.close()


def main(name):
    """The process."""
    import rclpy
    from refit_interfaces.msg import CommandLease

    from nodes.framework.qos import COMMAND

    rclpy.init()
    node = rclpy.create_node(name)
    publisher = node.create_publisher(CommandLease, "supervisor/lease", COMMAND)
    said = CommandLease(message="not armed yet", duration=DURATION)
    ended = threading.Event()

    def listen():
        nonlocal said
        for line in sys.stdin:
            what, text = line.rstrip("\n").split("\t")
            said = CommandLease(duration=DURATION, **{"lend": {"commander": text}, "withdraw": {"message": text}}[what])
            publisher.publish(said)
        ended.set()

    threading.Thread(target=listen, daemon=True).start()
    print("ready", flush=True)
    while not ended.wait(0.1):
        publisher.publish(said)
    node.destroy_node()
    rclpy.shutdown()


if __name__ == "__main__":
    main(sys.argv[1])
