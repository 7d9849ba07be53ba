"""`ros2 service`: the services of the graph."""

import time

from . import kinds, text, values
from .command import positive
from .errors import EXIT_FAILED, FrontError
from .graph import complain, joined


def add_verbs(group):
    """Add the verbs of this group."""
    verb = group.verb("list", list_services, "list the services there are", "ros2 service list -t")
    verb.add_argument("-t", "--show-types", action="store_true", help="show each service's type as well")
    verb.add_argument("-c", "--count-services", action="store_true", help="show how many there are, no names")
    verb.add_argument("-a", "--include-hidden-services", action="store_true", help="also hidden ones")

    verb = group.verb("type", show_type, "show a service's type", "ros2 service type /stop")
    verb.add_argument("service", help="its name, as /stop")

    verb = group.verb("info", info, "tell how many offer and use a service", "ros2 service info /stop")
    verb.add_argument("service", help="its name, as /stop")

    verb = group.verb("find", find, "list the services of a type", "ros2 service find std_srvs/srv/Trigger")
    verb.add_argument("type", help="as std_srvs/srv/Trigger")
    verb.add_argument("-c", "--count-services", action="store_true", help="show how many there are, no names")
    verb.add_argument("-a", "--include-hidden-services", action="store_true", help="also hidden ones")

    verb = group.verb(
        "call",
        call,
        "call a service and print its response",
        "ros2 service call /stop std_srvs/srv/Trigger\n"
        "  ros2 service call /set_simulation_state simulation_interfaces/srv/SetSimulationState "
        "'{state: {state: 2}}'",
    )
    verb.add_argument("service", help="its name, as /stop")
    verb.add_argument("type", help="as std_srvs/srv/Trigger")
    verb.add_argument("values", nargs="?", default="{}", help="fields of the request as YAML")
    verb.add_argument("-r", "--rate", type=positive, metavar="HZ", help="call again and again, so many times a second")
    verb.add_argument("--timeout", type=positive, metavar="SECONDS", help="for the service and its answer (no limit)")
    verb.add_argument("--yaml", action="store_true", help="print the response as YAML")


def list_services(options):
    """`ros2 service list`."""
    with joined(options) as graph:
        graph.settle()
        services = graph.services(hidden=options.include_hidden_services)
    if options.count_services:
        print(len(services))
        return
    for name, types in services.items():
        print(f"{name} [{', '.join(types)}]" if options.show_types else name)


def show_type(options):
    """`ros2 service type`."""
    with joined(options) as graph:
        print(*_present(graph, options.service)[1], sep="\n")


def info(options):
    """`ros2 service info`."""
    with joined(options) as graph:
        name, types = _present(graph, options.service)
        print(f"Type: {types[0] if len(types) == 1 else types}")
        print(f"Clients count: {graph.node.count_clients(name)}")
        print(f"Services count: {graph.node.count_services(name)}")


def find(options):
    """`ros2 service find`."""
    with joined(options) as graph:
        graph.settle()
        services = graph.services(hidden=options.include_hidden_services)
    found = [name for name, types in services.items() if options.type in types]
    print(len(found)) if options.count_services else print(*found, sep="\n", end="\n" if found else "")


def call(options):
    """`ros2 service call`."""
    kind = kinds.load(options.type, "srv")
    request = kind.Request()
    stamps = values.fill(request, values.parse(options.values))
    with joined(options) as graph:
        name = graph.resolve(options.service, service=True)
        _expect(graph, name, options.type)
        client = graph.node.create_client(kind, name)
        if not graph.until(client.service_is_ready, options.timeout):
            complain(f"service {name} did not come within {options.timeout:g} s")
            return EXIT_FAILED
        while True:
            due = time.monotonic() + (1.0 / options.rate if options.rate else 0.0)
            for stamp in stamps:
                stamp.sec, stamp.nanosec = graph.node.get_clock().now().seconds_nanoseconds()
            print(f"requester: making request: {request!r}\n", flush=True)
            future = client.call_async(request)
            if not graph.until(future.done, options.timeout):
                complain(f"{name} did not answer within {options.timeout:g} s")
                return EXIT_FAILED
            response = future.result()
            shown = text.to_yaml(response) if options.yaml else f"{response!r}\n"
            print(f"response:\n{shown}", flush=True)
            if options.rate is None:
                return 0
            graph.spin(due - time.monotonic())


def _expect(graph, name, kind):
    """Refuse another type than a service has, as its answer would never come; a sentence if the service is not there."""
    graph.settle(lambda: name in graph.services())
    known = graph.services()
    if name not in known:
        complain(f"service {name} is not there yet; waiting for it (Ctrl-C ends it); {graph.remedy(name, known)}")
    elif "/srv/".join(kinds.split(kind, "srv")[::2]) not in known[name]:
        raise FrontError(f"service '{name}' is a {' and '.join(known[name])}, not a {kind}")


def _present(graph, service):
    """(full name, [type]) of a service that is there."""
    name = graph.resolve(service, service=True)
    graph.settle()
    services = graph.services()
    if name not in services:
        raise FrontError(f"service '{name}' is not there; {graph.remedy(name, services)}")
    return name, services[name]
