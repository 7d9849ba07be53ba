"""What a SIGKILL costs a bag: at most the last second, at whatever moment it comes, of many topics and of slow ones."""

import random
import signal
import threading
import time

import pytest

pytest.importorskip("rclpy")

from std_msgs.msg import String

from hardware.emulation.machine_time import withheld
from nodes.framework.qos import STATE
from recording import BagReader

LIMIT = 1.0  # what may be lost [s]
TOGETHER = 5  # recorders side by side: most of their time is waiting


class Stream(threading.Thread):
    """Numbers, one topic after the other.

    Attributes:
        said: when each number was said [s, monotonic].
    """

    def __init__(self, publishers, period):
        super().__init__(daemon=True)
        self.said, self._publishers, self._period = [], publishers, period
        self._end = threading.Event()

    def run(self):
        while not self._end.wait(self._period):
            number, now = len(self.said), time.monotonic()
            self._publishers[number % len(self._publishers)].publish(String(data=str(number)))
            self.said.append(now)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        self.join()


class Killed:
    """A recorder that is to be killed.

    Args:
        number: of the recorder. Discovery takes a killed process for alive a while longer, so each has its own name.
        moment: of the kill, beyond the second before which it is judged [s].
    """

    def __init__(self, ros, folder, number, topics, moment):
        self.name, self.bag, self.moment, self._topics = f"recorder{number}", folder / f"bag{number}", moment, topics
        given = dict(bag=str(self.bag), profile="identify", extra_topics=topics)
        self._ros, self._process = ros, ros.start("recorder", "-r", f"__node:={self.name}", **given)
        self._diagnostics = ros.diagnostics(self.name)

    def writes_all(self):
        """Whether every topic is in its bag."""
        silent = self._diagnostics()[2].get("topics_silent", "")
        return silent and not {f"/{topic}" for topic in self._topics} & set(silent.split(", "))

    def watch(self):
        """From now on what the machine withholds counts; whatever it withheld earlier is no excuse."""
        self._withheld = withheld(self._process.pid)

    def kill(self, said):
        """SIGKILL; `said` so far."""
        self._withheld = withheld(self._process.pid) - self._withheld
        self._said, self._killed = list(said), time.monotonic()
        self._ros.finish(self._process, signal.SIGKILL)

    def lost(self, heard):
        """How old the oldest number is that its bag lacks [s], less what the machine withheld from it; number `heard` it had."""
        read = BagReader(self.bag)
        assert "cut off" in read.truncated
        numbers = {int(message.data) for topic in self._topics for _, message in read.messages(topic)}
        newest = max(numbers)
        assert numbers >= set(range(heard, newest + 1))  # nothing is missing but the end
        said = self._said
        return self._killed - said[newest + 1] - self._withheld if newest + 1 < len(said) else 0.0


def lost(ros, folder, numbers, stream, topics, moments):
    """What `Killed.lost` says of recorders side by side, each of which is killed at its moment [s] after all have every topic."""
    recorders = [Killed(ros, folder, number, topics, moment) for number, moment in zip(numbers, moments)]
    for recorder in recorders:
        ros.up(recorder.name)
    ros.until(lambda: all(recorder.writes_all() for recorder in recorders), what="every topic in every bag")
    heard, begin = len(stream.said), time.monotonic()
    deeds = [(recorder.moment, recorder.watch) for recorder in recorders]
    deeds += [(recorder.moment + 1.5 * LIMIT, lambda r=recorder: r.kill(stream.said)) for recorder in recorders]
    for due, deed in sorted(deeds, key=lambda pair: pair[0]):
        time.sleep(max(0.0, begin + due - time.monotonic()))
        deed()
    return [recorder.lost(heard) for recorder in recorders]


@pytest.mark.parametrize(
    ("topics", "period", "kills"),
    [pytest.param(20, 0.005, 10, id="many topics"), pytest.param(1, 0.3, 3, id="a slow one")],
)
def test_at_most_a_second_is_lost(ros, tmp_path, topics, period, kills):
    rng = random.Random(5)
    names = [f"numbers{k}" for k in range(topics)]
    moments = [rng.uniform(0.0, LIMIT) for _ in range(kills)]
    with Stream([ros.node.create_publisher(String, name, STATE) for name in names], period) as stream:
        ages = [
            age
            for k in range(0, kills, TOGETHER)
            for age in lost(ros, tmp_path, range(k, kills), stream, names, moments[k : k + TOGETHER])
        ]
    print([round(age, 2) for age in ages])
    assert len(ages) == kills and max(ages) <= LIMIT, ages
