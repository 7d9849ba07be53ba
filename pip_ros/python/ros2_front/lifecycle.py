"""`ros2 lifecycle`: nodes with states."""

import sys

from .errors import EXIT_FAILED, FrontError, UsageError, choices
from .graph import joined

#: the service by which such a node is known, and its type
_STATE, _TYPE = "get_state", "lifecycle_msgs/srv/GetState"
#: [s] in which a transition has to end: nodes compile kernels and wait for devices in it
TRANSITION = 120.0


def add_verbs(group):
    """Add the verbs of this group."""
    verb = group.verb("nodes", list_nodes, "list the nodes with states", "ros2 lifecycle nodes")
    verb.add_argument("-a", "--all", action="store_true", help="also those whose name begins with '_'")
    verb.add_argument("-c", "--count-nodes", action="store_true", help="show how many there are, no names")

    verb = group.verb("get", get, "show the state of a node, or of all", "ros2 lifecycle get /supervisor")
    verb.add_argument("node", nargs="?", help="its name, as /supervisor; by default all")

    verb = group.verb(
        "list", transitions, "list the transitions a node can make now", "ros2 lifecycle list /supervisor"
    )
    verb.add_argument("node", help="its name, as /supervisor")
    verb.add_argument("-a", "--all", action="store_true", help="all transitions there are")

    verb = group.verb("set", set_state, "let a node make a transition", "ros2 lifecycle set /supervisor deactivate")
    verb.add_argument("node", help="its name, as /supervisor")
    verb.add_argument("transition", help="its name or number, as configure, activate, deactivate, cleanup, shutdown")


def list_nodes(options):
    """`ros2 lifecycle nodes`."""
    with joined(options) as graph:
        graph.settle()
        names = _nodes(graph, options.all)
    print(len(names)) if options.count_nodes else print(*names, sep="\n", end="\n" if names else "")


def get(options):
    """`ros2 lifecycle get`."""
    with joined(options) as graph:
        if options.node:
            print(_told(_state(graph, _find(graph, options.node))))
            return
        graph.settle()
        for name in _nodes(graph, hidden=False):
            print(f"{name}: {_told(_state(graph, name))}", flush=True)


def transitions(options):
    """`ros2 lifecycle list`."""
    with joined(options) as graph:
        name = _find(graph, options.node)
        for found in _transitions(graph, name, "get_transition_graph" if options.all else "get_available_transitions"):
            print(f"- {_told(found.transition)}\n\tStart: {found.start_state.label}\n\tGoal: {found.goal_state.label}")


def set_state(options):
    """`ros2 lifecycle set`."""
    from lifecycle_msgs.msg import Transition
    from lifecycle_msgs.srv import ChangeState

    with joined(options) as graph:
        name = _find(graph, options.node)
        known = [found.transition for found in _transitions(graph, name, "get_available_transitions")]
        chosen = [item for item in known if options.transition in (item.label, str(item.id))]
        if not chosen:
            labels = [item.label for item in known]
            state = _state(graph, name).label
            raise UsageError(
                f"{name} is {state} and cannot '{options.transition}' now; {choices(options.transition, labels)}"
            )
        request = ChangeState.Request(transition=Transition(id=chosen[0].id, label=chosen[0].label))
        if graph.call(ChangeState, f"{name}/change_state", request, TRANSITION).success:
            print("Transitioning successful")
            return 0
        print(f"Transitioning failed; {name} is {_state(graph, name).label}", file=sys.stderr)
        return EXIT_FAILED


def _nodes(graph, hidden):
    services = graph.services()
    return [name for name in dict.fromkeys(graph.nodes(hidden)) if _TYPE in services.get(f"{name}/{_STATE}", ())]


def _find(graph, name):
    full = graph.find_node(name)
    if not graph.until(lambda: f"{full}/{_STATE}" in graph.services(), 3.0):
        raise FrontError(f"node '{full}' has no states; {graph.remedy(full, _nodes(graph, hidden=True))}")
    return full


def _state(graph, name):
    from lifecycle_msgs.srv import GetState

    return graph.call(GetState, f"{name}/{_STATE}", GetState.Request()).current_state


def _transitions(graph, name, service):
    from lifecycle_msgs.srv import GetAvailableTransitions

    request = GetAvailableTransitions.Request()
    return graph.call(GetAvailableTransitions, f"{name}/{service}", request).available_transitions


def _told(named):
    return f"{named.label} [{named.id}]"
