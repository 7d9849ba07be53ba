"""What an environment says about the network, and what becomes of it."""

from xml.etree import ElementTree

import pytest

from config import network

RANGE, PEERS, PROFILES = "ROS_AUTOMATIC_DISCOVERY_RANGE", "ROS_STATIC_PEERS", "FASTRTPS_DEFAULT_PROFILES_FILE"


def enclosed(**environment):
    network.enclose(environment)
    return environment


@pytest.mark.parametrize("given", [{}, {RANGE: ""}, {RANGE: "LOCALHOST"}, {RANGE: "SUBNET", "ROS_LOCALHOST_ONLY": "1"}])
def test_without_a_word_the_graph_stays_on_this_machine(given):
    environment = enclosed(**given)
    assert environment.keys() == {RANGE, PROFILES}
    # ROS's own LOCALHOST would open sockets on all addresses beside those of the profile.
    assert environment[RANGE] == "SYSTEM_DEFAULT"
    with open(environment[PROFILES], encoding="utf-8") as profile:
        assert "<address>127.0.0.1</address>" in profile.read()


def test_twice_is_once():
    environment = enclosed()
    assert network.changes(environment) == {}


def test_who_sends_images_gets_the_same_with_more_shared_memory():
    """Whatever its parent has set; nothing else differs, and its children are as any other process."""
    environment = enclosed()
    network.enclose(environment, images=True)
    assert environment.keys() == enclosed().keys() and environment[RANGE] == "SYSTEM_DEFAULT"
    plain, images = ElementTree.parse(enclosed()[PROFILES]), ElementTree.parse(environment[PROFILES])
    (size,) = [element for element in images.iter() if element.tag.endswith("}segment_size")]
    # Twice what a camera has on its way at 848x480: colour, two depth images and a cloud of 20 bytes a point.
    assert int(size.text) >= 2 * 848 * 480 * (3 + 2 + 2 + 20)
    for parent in images.iter():
        if size in parent:
            parent.remove(size)
    assert list(map(canonical, (images, plain))) == [canonical(plain)] * 2
    assert network.changes(environment, images=True) == {}
    assert network.is_enclosed(environment)
    network.enclose(environment)
    assert environment == enclosed()
    assert enclosed(**{**environment, RANGE: "SUBNET"}) == {RANGE: "SUBNET"}


def canonical(tree):
    return ElementTree.canonicalize(ElementTree.tostring(tree.getroot()), strip_text=True)


def test_peers_are_ignored_and_it_is_said(capsys):
    assert PEERS not in enclosed(**{PEERS: "192.0.2.7"})
    said = capsys.readouterr().err
    assert "ROS_STATIC_PEERS=192.0.2.7 is ignored" in said and "ROS_AUTOMATIC_DISCOVERY_RANGE=SUBNET" in said
    enclosed()
    assert capsys.readouterr().err == ""


def test_subnet_opens_the_network():
    given = {RANGE: "SUBNET", PEERS: "192.0.2.7"}
    assert enclosed(**given) == given


def test_subnet_opens_what_was_enclosed_before():
    """`./refit shell`, and in it ROS_AUTOMATIC_DISCOVERY_RANGE=SUBNET."""
    assert enclosed(**{**enclosed(), RANGE: "SUBNET"}) == {RANGE: "SUBNET"}


@pytest.mark.parametrize("own", [{PROFILES: "/etc/dds/site.xml"}, {"RMW_IMPLEMENTATION": "rmw_cyclonedds_cpp"}])
def test_other_profiles_and_middlewares_keep_their_say(own):
    """They get ROS's LOCALHOST: SYSTEM_DEFAULT without our profile would be the whole network."""
    assert enclosed(**own, **{PEERS: "192.0.2.7"}) == {**own, RANGE: "LOCALHOST"}


def test_a_profile_of_another_checkout_is_ours_too():
    environment = enclosed(**{RANGE: "SYSTEM_DEFAULT", PROFILES: "/elsewhere/config/this_machine.xml"})
    assert environment == enclosed()


def test_a_shell_can_evaluate_it(monkeypatch, capsys):
    for name in (RANGE, PEERS, PROFILES, "ROS_LOCALHOST_ONLY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RMW_IMPLEMENTATION", "rmw_fastrtps_cpp")
    monkeypatch.setenv(PEERS, "192.0.2.7")
    assert network.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert f"unset {PEERS}" in lines and f"export {RANGE}=SYSTEM_DEFAULT" in lines and len(lines) == 3
