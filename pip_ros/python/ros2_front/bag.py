"""`ros2 bag`: what is in a recorded bag; playing and recording are in modules of their own."""

import os
import time

import yaml

from . import bag_play, bag_record
from .bag_file import open_bag
from .graph import complain

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
#: columns before what is told
_INDENT = 19


def add_verbs(group):
    """Add the verbs of this group."""
    verb = group.verb("info", info, "tell what is in a bag", "ros2 bag info runs/demo/bag", graph=False)
    verb.add_argument("bag", help="its folder, its .mcap file, or the folder of a run with a bag in it")

    bag_play.add_verb(group)
    bag_record.add_verb(group)


def info(options):
    """`ros2 bag info`."""
    bag = open_bag(options.bag)
    if bag.truncated:
        complain(bag.truncated)
    files, about = _files(bag.path), _metadata(bag.path)
    start, end = bag.span
    for title, value in (
        ("Files:", f"\n{' ' * _INDENT}".join(os.path.basename(path) for path in files)),
        ("Bag size:", _size(sum(os.path.getsize(path) for path in files))),
        ("Storage id:", about.get("storage_identifier") or ("mcap" if files[0].endswith(".mcap") else "unknown")),
        ("ROS Distro:", about.get("ros_distro") or "unknown"),
        ("Duration:", f"{_seconds(end - start)}s"),
        ("Start:", _date(start)),
        ("End:", _date(end)),
        ("Messages:", sum(topic.count for topic in bag.topics.values())),
        (
            "Topic information:",
            f"\n{' ' * _INDENT}".join(
                f"Topic: {name} | Type: {topic.message_type} | Count: {topic.count} | Serialization Format: cdr"
                for name, topic in sorted(bag.topics.items())
            ),
        ),
    ):
        print(f"{title:{_INDENT}}{value}")


def _files(path):
    """A bag's files with messages, sorted."""
    if path.is_file():
        return [str(path)]
    return sorted(str(file) for file in path.iterdir() if file.suffix in (".mcap", ".db3", ".zstd"))


def _metadata(path):
    file = path / "metadata.yaml"
    try:
        return yaml.safe_load(file.read_text(encoding="utf-8"))["rosbag2_bagfile_information"]
    except (OSError, yaml.YAMLError, KeyError, TypeError, UnicodeDecodeError):  # cut off, or a bare file
        return {}


def _size(number):
    power = 0
    while number >= 1024 and power < len(_UNITS) - 1:
        number /= 1024
        power += 1
    return f"{number:.{1 if power else 0}f} {_UNITS[power]}"


def _seconds(nanoseconds):
    return f"{nanoseconds // 10**9}.{nanoseconds % 10**9:09d}"


def _date(nanoseconds):
    moment = time.localtime(nanoseconds // 10**9)
    day = f"{time.strftime('%b', moment)} {moment.tm_mday:2d} {moment.tm_year}"
    return f"{day} {time.strftime('%H:%M:%S', moment)}.{nanoseconds % 10**9:09d} ({_seconds(nanoseconds)})"
