"""Words on the command line: what is there, what is told of what is not; no graph is joined."""

import re
import shlex
import socket
import sys

import pages
import pytest
from ros2_front import command, interface, kinds, main, participants, pkg, values
from ros2_front.errors import UsageError

VERBS = {
    "action": {"list", "info", "type", "find", "send_goal"},
    "bag": {"info", "play", "record"},
    "interface": {"list", "packages", "package", "show", "proto"},
    "lifecycle": {"nodes", "get", "list", "set"},
    "node": {"list", "info"},
    "param": {"list", "get", "set", "describe", "dump", "load", "delete"},
    "pkg": {"list", "prefix", "executables", "xml"},
    "service": {"list", "type", "info", "find", "call"},
    "topic": {"list", "info", "type", "find", "echo", "pub", "hz", "bw", "delay"},
}


def run(capsys, *words):
    code = main(words)
    said = capsys.readouterr()
    return code, said.out, said.err


def checked(words):
    """Parse a command line, and check its types and values as the command would before it joins a graph."""
    options = command.group_of(words[0]).parse(words[1:])
    if words[:2] == ["topic", "pub"]:
        values.fill(kinds.load(options.type, "msg")(), values.parse(options.values))
    elif words[:2] == ["service", "call"]:
        values.fill(kinds.load(options.type, "srv").Request(), values.parse(options.values))
    elif words[:2] == ["action", "send_goal"]:
        values.fill(kinds.load(options.type, "action").Goal(), values.parse(options.goal))
    elif words[:2] == ["topic", "find"]:
        kinds.load(options.type, "msg")
    elif words[0] == "interface" and getattr(options, "type", "-") != "-":
        kinds.definition(options.type)


def test_all_verbs_teach(capsys):
    for name, verbs in VERBS.items():
        code, out, _ = run(capsys, name)
        assert code == 0 and set(re.search(r"^  VERB\n((?:    .*\n)+)", out, re.M)[1].split()) >= verbs
        for verb in verbs:
            code, out, _ = run(capsys, name, verb, "--help")
            assert code == 0
            for example in re.search(r"example:\n((?:  .*\n)+)", out)[1].splitlines():
                for words in commands(example):
                    assert words[:2] == [name, verb] or "|" in example
                    checked(words)
    assert set(VERBS) == set(command.GROUPS)


@pytest.mark.parametrize(
    "words, told",
    [
        (["topik"], "ros2 topik: no command 'topik'; did you mean 'topic'? (ros2 --help)"),
        (["topic", "ecko"], "ros2 topic ecko: no verb 'ecko'; did you mean 'echo'? (ros2 topic --help)"),
        (["topic", "hz"], "ros2 topic hz: the following arguments are required: topic (ros2 topic hz --help)"),
        (["topic", "hz", "-w", "0", "/x"], "argument -w/--window: expected a whole number above zero, found 0"),
        (["topic", "echo", "--onec", "/x"], "unrecognized arguments: --onec"),
        (["topic", "pub", "-r", "nan", "/x", "a/B"], "expected a number, found nan"),
        (["topic", "pub", "/x", "String"], "'String' is not the name of a type, expected package/msg/Type"),
        (["topic", "pub", "/x", "std_msg/msg/String"], "there is no package 'std_msg'; did you mean 'std_msgs'?"),
        (["topic", "pub", "/x", "std_msgs/msg/Strng"], "did you mean 'std_msgs/msg/String'?"),
        (["topic", "pub", "/x", "std_srvs/srv/Trigger"], "is a service, expected a message (package/msg/Type)"),
        (["service", "call", "/x", "std_msgs/msg/String"], "is a message, expected a service (package/srv/Type)"),
        (["bag", "info", "/nowhere"], "there is no bag '/nowhere'"),
        (["bag", "record"], "nothing to record: name topics, or give --all or --regex"),
        (["run", "refit", "viw"], "package 'refit' has no program 'viw'; did you mean 'view'?"),
        (["run", "rfit", "view"], "there is no package 'rfit'; did you mean 'refit'?"),
        (["pkg", "xml", "refit", "-t", "nmae"], "did you mean 'name'?"),
        (["daemon", "start"], "not here; there is no daemon"),
        (["doctor"], "use ./refit doctor"),
    ],
)
def test_wrong_words_end_with_2_and_a_remedy(capsys, words, told):
    code, out, err = run(capsys, *words)
    assert (code, out, err.count("\n")) == (2, "", 1) and told in err, err


def test_interface(capsys):
    _, out, _ = run(capsys, "interface", "show", "geometry_msgs/msg/PointStamped")
    assert out.splitlines()[-5:] == ["\tstring frame_id", "Point point", "\tfloat64 x", "\tfloat64 y", "\tfloat64 z"]
    assert "# This represents" in out and "# Two-integer" not in out
    _, everything, _ = run(capsys, "interface", "show", "--all-comments", "geometry_msgs/msg/PointStamped")
    _, bare, _ = run(capsys, "interface", "show", "--no-comments", "geometry_msgs/msg/PointStamped")
    assert "# Two-integer" in everything and "#" not in bare and "\n\n" not in bare
    assert run(capsys, "interface", "proto", "std_srvs/srv/SetBool")[1] == '"data: false\n"\n'
    assert run(capsys, "interface", "proto", "--no-quotes", "geometry_msgs/Point")[1] == "x: 0.0\ny: 0.0\nz: 0.0\n\n"
    _, out, _ = run(capsys, "interface", "list", "--only-actions")
    assert out.startswith("Actions:\n") and "    refit_interfaces/action/Refit\n" in out and "Messages:" not in out
    assert "std_srvs/srv/Trigger\n" in run(capsys, "interface", "package", "std_srvs")[1]
    assert "std_srvs" not in run(capsys, "interface", "packages", "--only-msgs")[1].split()


@pytest.mark.parametrize(
    "name", [f"{package}/{name}" for package, names in kinds.interfaces().items() for name in names]
)
def test_every_definition_can_be_shown(name):
    lines = list(interface.definition_lines(name, comments=False))
    _, group, kind = name.split("/")
    assert sum(line == "---" for line in lines) == {"msg": 0, "srv": 1, "action": 2}[group], kind


def test_what_actions_and_services_publish_are_messages():
    for name in (
        "control_msgs/action/GripperCommand_FeedbackMessage",
        "action_msgs/msg/GoalStatusArray",
        "std_srvs/srv/SetBool_Event",
        "std_srvs/srv/SetBool_Request",
    ):
        assert kinds.load(name, "msg").SLOT_TYPES


def test_comments_and_nested_types():
    assert interface.without_comment('string a "#1" # two') == 'string a "#1"'
    for code, nested in (
        ("Point[3] corners", "here/msg/Point"),
        ("std_msgs/Header header", "std_msgs/msg/Header"),
        ("float64[<=3] x", ""),
        ("string<=10 name", ""),
        ("uint8 A=1", ""),
        ("---", ""),
    ):
        assert interface.nested_type(code, "here") == nested


def test_packages(capsys):
    from nodes.table import NODES

    assert "refit" in run(capsys, "pkg", "list")[1].split()
    assert run(capsys, "pkg", "executables", "refit")[1].splitlines() == [f"refit {name}" for name in sorted(NODES)]
    assert run(capsys, "pkg", "xml", "refit", "-t", "name")[1] == "refit\n"
    assert run(capsys, "pkg", "prefix", "refit", "--share")[1].strip().endswith("/share/refit")
    with pytest.raises(UsageError):
        pkg.prefix("nothing")


def test_participants_are_counted_by_their_ports(tmp_path, monkeypatch):
    monkeypatch.setenv("ROS_DOMAIN_ID", "3")
    ports = (
        8160,
        8161,
        8162,
        8150,
        8151,
        7410,
        8410,
    )  # of domain 3: two participants, the second's data port is not there
    table = tmp_path / "udp"
    table.write_text(
        "  sl  local_address\n" + "".join(f"  1: 0100007F:{port:04X} 00000000:0000 07\n" for port in ports)
    )
    assert participants.on_this_machine(str(table)) == 2
    assert participants.on_this_machine(str(tmp_path / "none")) == 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        assert other.getsockname()[1] in participants._bound("/proc/net/udp")


def commands(text):
    """The `ros2` commands in a line of a shell, as lists of words without `ros2`."""
    found = [words[1:] if words[0] == "./refit" else words for words in pages.commands(text)]
    return [words[1:] for words in found if words[:1] == ["ros2"]]


LINE = re.compile(
    r"^(?:    |)(?:\$ |)((?:\./refit )?ros2 (?:%s) [a-z_]+(?: |$)(?:.*\\\n)*.*)$" % "|".join(command.GROUPS), re.M
)
INLINE = re.compile(r"`ros2 (\w+) (\w+)")


@pytest.mark.parametrize("page", pages.PAGES, ids=pages.name_of)
def test_commands_of_the_pages_are_true(page):
    wrong = []
    text = page.read_text(encoding="utf-8")
    for line in LINE.findall(text):
        for words in commands(line.replace("\\\n", " ")):
            try:
                checked(words)
            except UsageError as error:
                if "'far'" not in str(error):  # the page's own example of what is refused
                    wrong.append(f"ros2 {shlex.join(words)}: {error}")
    for name, verb in INLINE.findall(text):
        if name in VERBS and verb not in VERBS[name] and (name, verb) != ("bag", "reindex"):
            wrong.append(f"`ros2 {name} {verb}`: there is no such verb")
    assert not wrong, "\n".join(wrong)


@pytest.mark.process
def test_nothing_heavy_is_loaded_to_answer_help():
    import subprocess

    program = (
        "import sys, ros2_front; ros2_front.main(['topic', 'echo', '--help']); sys.stderr.write(' '.join(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and not {"rclpy", "numpy", "recording", "rosbags"} & set(done.stderr.split())
