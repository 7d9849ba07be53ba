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


def lost(ros, bag, name, stream, topics, moment):
    """How old the oldest number is that the bag of a killed recorder lacks [s], less what the machine withheld from it.

    It is killed at a moment [s] after it has written of every topic.
    """
    recorder = ros.start("recorder", "-r", f"__node:={name}", bag=str(bag), profile="identify", extra_topics=topics)
    diagnostics = ros.diagnostics(name)
    ros.up(name)

    def all_heard():
        silent = diagnostics()[2].get("topics_silent", "")
        return silent and not {f"/{topic}" for topic in topics} & set(silent.split(", "))

    ros.until(all_heard, what="every topic in the bag")
    heard = len(stream.said)
    time.sleep(moment)
    waited = withheld(recorder.pid)
    time.sleep(1.5 * LIMIT)  # whatever the machine withheld earlier is no excuse
    waited, said, killed = withheld(recorder.pid) - waited, list(stream.said), time.monotonic()
    ros.finish(recorder, signal.SIGKILL)

    read = BagReader(bag)
    assert "cut off" in read.truncated
    numbers = {int(message.data) for topic in topics for _, message in read.messages(topic)}
    newest = max(numbers)
    assert numbers >= set(range(heard, newest + 1))  # nothing is missing but the end
    return killed - said[newest + 1] - waited if newest + 1 < len(said) else 0.0


@pytest.mark.parametrize(
    ("topics", "period", "kills"),
    [pytest.param(20, 0.005, 10, id="many topics"), pytest.param(1, 0.3, 3, id="a slow one")],
)
def test_at_most_a_second_is_lost(ros, tmp_path, topics, period, kills):
    rng = random.Random(5)
    names = [f"numbers{k}" for k in range(topics)]
    with Stream([ros.node.create_publisher(String, name, STATE) for name in names], period) as stream:
        ages = [
            # Discovery takes a killed process for alive a while longer, so each has its own name.
            lost(ros, tmp_path / f"bag{k}", f"recorder{k}", stream, names, rng.uniform(0.0, LIMIT))
            for k in range(kills)
        ]
    print([round(age, 2) for age in ages])
    assert max(ages) <= LIMIT, ages
