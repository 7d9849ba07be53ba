"""A node of the command's own that looks at the graph and waits for what it is told to."""

import contextlib
import os
import signal
import sys
import time
from collections import Counter

from . import participants
from .errors import FrontError, UsageError, choices

#: [s] for which a graph is still before it counts as seen: with all participants found, and if it cannot be told how many
#: there are; and for how long it is looked at at most
STILL, STILL_UNCOUNTED, LONGEST = 0.3, 1.2, 4.0
#: [s] in which a node that is there answers
PATIENCE = 10.0
#: [s] between looks; a Ctrl-C waits no longer than this
TICK = 0.05
NAME = "_ros2cli_"


class Graph:
    """See the module's docstring; `joined` makes one.

    Attributes:
        node: an rclpy node without services, whose name is hidden.
    """

    def __init__(self, node, executor, spin_time=None):
        self.node = node
        self._executor = executor
        self._spin_time = spin_time
        self._told_to_end = False

    def end(self, *_):
        """Ctrl-C and SIGTERM: it ends where nothing is half done; at once the second time."""
        if self._told_to_end:
            raise KeyboardInterrupt
        self._told_to_end = True

    # -- time --------------------------------------------------------------------------------------

    def spin(self, seconds=TICK):
        """Handle what comes for so long."""
        end = time.monotonic() + seconds
        self._end_if_told()
        while (left := end - time.monotonic()) > 0:
            self.spin_once(left)

    def spin_once(self, seconds=TICK):
        """Handle what comes next, waiting at most so long."""
        self._executor.spin_once(timeout_sec=min(seconds, TICK))
        self._end_if_told()

    def _end_if_told(self):
        if self._told_to_end:
            self._told_to_end = False
            raise KeyboardInterrupt

    def until(self, condition, seconds=None):
        """Handle what comes until `condition()` is true; returns whether it came to that within so many seconds."""
        end = None if seconds is None else time.monotonic() + seconds
        while not condition():
            if end is not None and time.monotonic() > end:
                return False
            self.spin_once()
        return True

    # -- what there is -----------------------------------------------------------------------------

    def settle(self, found=None):
        """Look at the graph until every program of this machine is found and nothing new appears, or for --spin-time.

        Args:
            found: a condition that ends the search early.
        """
        begin = last = time.monotonic()
        seen = None
        while not (found is not None and found()):
            now = time.monotonic()
            if self._spin_time is not None:
                if now - begin >= self._spin_time:
                    return
            else:
                if (there := self._there()) != seen:
                    seen, last = there, now
                if now - last >= self._still_for() or now - begin >= LONGEST:
                    return
            self.spin_once()

    def _still_for(self):
        """[s] without news after which there is none to come."""
        expected = participants.on_this_machine()
        if participants.discovered(self.node) < expected:
            return LONGEST
        return STILL_UNCOUNTED if expected == 0 or participants.may_be_elsewhere() else STILL

    def _there(self):
        return (
            sorted(self.node.get_node_names_and_namespaces()),
            self.node.get_topic_names_and_types(),
            self.node.get_service_names_and_types(),
        )

    def topics(self, hidden=True):
        """{name: [type]} of all topics, or of those that are not hidden."""
        return _shown(self.node.get_topic_names_and_types(), hidden)

    def services(self, hidden=True):
        """{name: [type]} of all services."""
        return _shown(self.node.get_service_names_and_types(), hidden)

    def actions(self):
        """{name: [type]} of all actions."""
        from rclpy.action import get_action_names_and_types

        return dict(sorted(get_action_names_and_types(self.node)))

    def nodes(self, hidden=False):
        """Full names of all nodes but this one, sorted; a name is there as often as nodes have it."""
        names = [
            f"{space.rstrip('/')}/{name}"
            for name, space in self.node.get_node_names_and_namespaces()
            if name != participants.NAMELESS and (hidden or not name.startswith("_"))
        ]
        with contextlib.suppress(ValueError):
            names.remove(self.node.get_fully_qualified_name())
        return sorted(names)

    def find_node(self, name):
        """The full name of a node that is there.

        Raises:
            FrontError: it is not.
        """
        full = name if name.startswith("/") else f"/{name}"
        self.settle(lambda: full in self.nodes(hidden=True))
        names = self.nodes(hidden=True)
        if full not in names:
            raise FrontError(f"node '{full}' is not in the graph; {self.remedy(full, names)}")
        if (number := Counter(names)[full]) > 1:
            complain(f"{number} nodes have the name {full}; which of them answers is not certain")
        return full

    def resolve(self, name, service=False):
        """The full name of a topic (or service), which is given in full or relative to '/'.

        Raises:
            UsageError: that cannot be one's name.
        """
        from rclpy.exceptions import InvalidServiceNameException, InvalidTopicNameException

        resolved = self.node.resolve_service_name if service else self.node.resolve_topic_name
        try:
            return resolved(name)
        except (InvalidServiceNameException, InvalidTopicNameException, ValueError) as error:
            said = str(error).splitlines()[0].rstrip(":")
            raise UsageError(f"'{name}' cannot be the name of a {'service' if service else 'topic'}: {said}") from None

    def remedy(self, name, known):
        """What to do about a name that is not in the graph."""
        domain = os.environ.get("ROS_DOMAIN_ID", "0")
        nothing = f"there are none in domain {domain}: is the graph running, and has it the same ROS_DOMAIN_ID?"
        return choices(name, known, nothing)

    # -- services ----------------------------------------------------------------------------------

    def call(self, kind, name, request, seconds=PATIENCE):
        """The response of a service of a node that is there.

        Args:
            seconds: in which it answers; None: for ever.

        Raises:
            FrontError: it is not there, or does not answer.
        """
        client = self.node.create_client(kind, name)
        try:
            if not self.until(client.service_is_ready, seconds):
                raise FrontError(f"there is no service '{name}'; the node may still be starting, or offers none")
            future = client.call_async(request)
            if not self.until(future.done, seconds):
                raise FrontError(f"'{name}' did not answer within {seconds:g} s; is its node busy or stopped?")
            return future.result()
        finally:
            self.node.destroy_client(client)


def _shown(names_and_types, hidden):
    from rclpy.topic_or_service_is_hidden import topic_or_service_is_hidden

    return {name: types for name, types in sorted(names_and_types) if hidden or not topic_or_service_is_hidden(name)}


@contextlib.contextmanager
def joined(options, name=""):
    """A `Graph` in the domain of the environment, with the keys it names.

    Args:
        options: of a verb that joins the graph. name: of the node; by default one that is hidden.

    Raises:
        FrontError: the middleware refuses, in its own words.
    """
    import rclpy
    from rclpy.executors import SingleThreadedExecutor
    from rclpy.node import Node
    from rclpy.parameter import Parameter
    from rclpy.signals import SignalHandlerOptions

    context = rclpy.Context()
    overrides = [Parameter("use_sim_time", value=True)] if getattr(options, "use_sim_time", False) else []
    try:
        rclpy.init(args=[], context=context, signal_handler_options=SignalHandlerOptions.NO)
        node = Node(
            name or f"{NAME}{os.getpid()}",
            context=context,
            use_global_arguments=False,
            enable_rosout=False,
            start_parameter_services=False,
            parameter_overrides=overrides,
        )
    except Exception as error:
        context.try_shutdown()
        raise FrontError(f"the graph cannot be joined: {_quoted(error)}{_about_keys()}") from error
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    graph = Graph(node, executor, getattr(options, "spin_time", None))
    before = {number: signal.signal(number, graph.end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield graph
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        executor.shutdown(timeout_sec=0)
        node.destroy_node()
        context.try_shutdown()


def _quoted(error):
    text = " ".join(str(error).split())
    return text if len(text) < 300 else f"{text[:300]}..."


def _about_keys():
    if os.environ.get("ROS_SECURITY_ENABLE", "").lower() != "true":
        return ""
    store = os.environ.get("ROS_SECURITY_KEYSTORE", "")
    return f" (ROS_SECURITY_ENABLE is true, with the keys in '{store}': docs/security.md)"


def complain(text):
    """Say something beside the output."""
    print(text, file=sys.stderr, flush=True)
