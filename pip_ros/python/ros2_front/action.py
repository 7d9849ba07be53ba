"""`ros2 action`: the actions of the graph."""

import sys

from . import kinds, text, values
from .command import positive
from .errors import EXIT_FAILED, FrontError
from .graph import complain, joined

#: [s] in which a cancelled goal has to say so
CANCELLED = 10.0
#: how a goal ends, as action_msgs/msg/GoalStatus names it
ENDINGS = ("SUCCEEDED", "CANCELED", "ABORTED")


def add_verbs(group):
    """Add the verbs of this group."""
    verb = group.verb("list", list_actions, "list the actions there are", "ros2 action list -t")
    verb.add_argument("-t", "--show-types", action="store_true", help="show each action's type as well")
    verb.add_argument("-c", "--count-actions", action="store_true", help="show how many there are, no names")

    verb = group.verb("info", info, "name the nodes that offer and use an action", "ros2 action info /refit")
    verb.add_argument("action", help="its name, as /refit")
    verb.add_argument("-t", "--show-types", action="store_true", help="show the types as well")
    verb.add_argument("-c", "--count", action="store_true", help="show how many there are, no names")

    verb = group.verb("type", show_type, "show an action's type", "ros2 action type /refit")
    verb.add_argument("action", help="its name, as /refit")

    verb = group.verb("find", find, "list the actions of a type", "ros2 action find refit_interfaces/action/Refit")
    verb.add_argument("type", help="as refit_interfaces/action/Refit")
    verb.add_argument("-c", "--count-actions", action="store_true", help="show how many there are, no names")

    verb = group.verb(
        "send_goal",
        send_goal,
        "send a goal and wait for its result; Ctrl-C cancels it",
        "ros2 action send_goal --feedback /refit refit_interfaces/action/Refit '{}'",
    )
    verb.add_argument("action", help="its name, as /refit")
    verb.add_argument("type", help="as refit_interfaces/action/Refit")
    verb.add_argument("goal", nargs="?", default="{}", help="fields of the goal as YAML")
    verb.add_argument("-f", "--feedback", action="store_true", help="print the feedback")
    verb.add_argument("-t", "--timeout", type=positive, metavar="SECONDS", help="cancel the goal after so long")


def list_actions(options):
    """`ros2 action list`."""
    with joined(options) as graph:
        graph.settle()
        actions = graph.actions()
    if options.count_actions:
        print(len(actions))
        return
    for name, types in actions.items():
        print(f"{name} [{', '.join(types)}]" if options.show_types else name)


def info(options):
    """`ros2 action info`."""
    from rclpy.action.graph import get_action_client_names_and_types_by_node, get_action_server_names_and_types_by_node

    with joined(options) as graph:
        name, _ = _present(graph, options.action)
        print(f"Action: {name}")
        for title, of_node in (
            ("Action clients", get_action_client_names_and_types_by_node),
            ("Action servers", get_action_server_names_and_types_by_node),
        ):
            users = _users(graph, name, of_node)
            print(f"{title}: {len(users)}")
            for node, types in users if not options.count else ():
                print(f"    {node}" + (f" [{', '.join(types)}]" if options.show_types else ""))


def _users(graph, action, of_node):
    """[(node, [type])] of the nodes that have an action by one of rclpy's questions."""
    from rclpy.node import NodeNameNonExistentError

    found = []
    for full in dict.fromkeys(graph.nodes(hidden=True)):
        space, _, name = full.rpartition("/")
        try:
            found += [(full, types) for other, types in of_node(graph.node, name, space or "/") if other == action]
        except NodeNameNonExistentError:  # it has just ended
            continue
    return found


def show_type(options):
    """`ros2 action type`."""
    with joined(options) as graph:
        print(*_present(graph, options.action)[1], sep="\n")


def find(options):
    """`ros2 action find`."""
    with joined(options) as graph:
        graph.settle()
        found = [name for name, types in graph.actions().items() if options.type in types]
    print(len(found)) if options.count_actions else print(*found, sep="\n", end="\n" if found else "")


def send_goal(options):
    """`ros2 action send_goal`."""
    from rclpy.action import ActionClient

    kind = kinds.load(options.type, "action")
    goal = kind.Goal()
    stamps = values.fill(goal, values.parse(options.goal))
    with joined(options) as graph:
        name = graph.resolve(options.action)
        print("Waiting for an action server to become available...", flush=True)
        _check_type(graph, name, options.type)
        client = ActionClient(graph.node, kind, name)
        graph.until(client.server_is_ready)
        for stamp in stamps:
            stamp.sec, stamp.nanosec = graph.node.get_clock().now().seconds_nanoseconds()
        print(f"Sending goal:\n{_indented(goal)}", flush=True)
        future = client.send_goal_async(goal, feedback_callback=_show_feedback if options.feedback else None)
        try:
            return _finish(graph, future, options.timeout)
        except KeyboardInterrupt:
            _cancel(graph, future)
            raise


def _finish(graph, future, seconds):
    """Wait until a goal is accepted and ends; how it ended as an exit code."""
    from action_msgs.msg import GoalStatus

    names = {getattr(GoalStatus, f"STATUS_{name}"): name for name in ENDINGS}
    graph.until(future.done)
    handle = future.result()
    if not handle.accepted:
        print("Goal was rejected.", file=sys.stderr)
        return EXIT_FAILED
    print(f"Goal accepted with ID: {bytes(handle.goal_id.uuid).hex()}\n", flush=True)
    result = handle.get_result_async()
    if not graph.until(result.done, seconds):
        complain(f"no result within {seconds:g} s")
        _cancel(graph, future)
        return EXIT_FAILED
    response = result.result()
    print(f"Result:\n{_indented(response.result)}")
    print(f"Goal finished with status: {names.get(response.status, 'UNKNOWN')}", flush=True)
    return 0 if response.status == GoalStatus.STATUS_SUCCEEDED else EXIT_FAILED


def _cancel(graph, future):
    """Cancel the goal that has been sent, also where its node has not yet said that it accepts it."""
    if not graph.until(future.done, CANCELLED) or not future.result().accepted:
        return
    print("Canceling goal...", flush=True)
    handle = future.result()
    answer = handle.cancel_goal_async()
    if graph.until(answer.done, CANCELLED) and answer.result().goals_canceling:
        graph.until(handle.get_result_async().done, CANCELLED)
        print("Goal canceled.", flush=True)
    else:
        complain("the goal was not cancelled: its node refused, or does not answer")


def _check_type(graph, name, kind):
    """Wait for an action, and refuse another type than it has: its answer would never come."""
    graph.settle(lambda: name in graph.actions())
    if name not in (known := graph.actions()):
        complain(f"action {name} is not there yet; waiting for it (Ctrl-C ends it); {graph.remedy(name, known)}")
        graph.until(lambda: name in graph.actions())
    types = graph.actions()[name]
    if "/action/".join(kinds.split(kind, "action")[::2]) not in types:
        raise FrontError(f"action '{name}' is a {' and '.join(types)}, not a {kind}")


def _show_feedback(feedback):
    print(f"Feedback:\n{_indented(feedback.feedback)}", flush=True)


def _indented(message):
    return "".join(f"    {line}\n" for line in text.to_yaml(message, text.LIMIT).splitlines())


def _present(graph, action):
    """(full name, [type]) of an action that is there."""
    name = graph.resolve(action)
    graph.settle()
    actions = graph.actions()
    if name not in actions:
        raise FrontError(f"action '{name}' is not there; {graph.remedy(name, actions)}")
    return name, actions[name]
