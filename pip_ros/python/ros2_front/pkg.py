"""`ros2 pkg`: installed packages."""

import os
import xml.etree.ElementTree as xml

from .errors import FrontError, UsageError, choices


def add_verbs(group):
    """Add the verbs of this group."""
    group.verb("list", list_packages, "list the packages there are", "ros2 pkg list", graph=False)

    verb = group.verb("prefix", show_prefix, "show where a package is installed", "ros2 pkg prefix refit", graph=False)
    verb.add_argument("package", help="its name")
    verb.add_argument("--share", action="store_true", help="its folder share")

    verb = group.verb(
        "executables", list_executables, "list programs for ros2 run", "ros2 pkg executables refit", graph=False
    )
    verb.add_argument("package", nargs="?", help="its name; by default all packages")
    verb.add_argument("--full-path", action="store_true", help="show where each is")

    verb = group.verb("xml", show_xml, "show a package's manifest", "ros2 pkg xml refit -t version", graph=False)
    verb.add_argument("package", help="its name")
    verb.add_argument("-t", "--tag", help="one element alone, as version")


def list_packages(options):
    """`ros2 pkg list`."""
    print(*sorted(packages()), sep="\n")


def show_prefix(options):
    """`ros2 pkg prefix`."""
    place = prefix(options.package)
    print(os.path.join(place, "share", options.package) if options.share else place)


def list_executables(options):
    """`ros2 pkg executables`."""
    for package in [options.package] if options.package else sorted(packages()):
        for path in executables(package):
            print(path if options.full_path else f"{package} {os.path.basename(path)}")


def show_xml(options):
    """`ros2 pkg xml`."""
    path = os.path.join(prefix(options.package), "share", options.package, "package.xml")
    try:
        with open(path, encoding="utf-8") as lines:
            manifest = lines.read()
    except OSError as error:
        raise FrontError(f"package '{options.package}' has no manifest: {error}") from None
    if options.tag is None:
        print(manifest)
        return
    root = xml.fromstring(manifest)
    found = [element.text or "" for element in root.iter(options.tag)]
    if not found:
        raise UsageError(f"{path} has no element '{options.tag}'; {choices(options.tag, {e.tag for e in root.iter()})}")
    print(*found, sep="\n")


def packages():
    """{name: prefix} of all installed packages; empty without AMENT_PREFIX_PATH."""
    from ament_index_python import get_packages_with_prefixes

    try:
        return get_packages_with_prefixes()
    except OSError:
        return {}


def prefix(package):
    """Where a package is installed.

    Raises:
        UsageError: there is no such package.
    """
    known = packages()
    if package not in known:
        raise UsageError(f"there is no package '{package}'; {choices(package, known)} (ros2 pkg list)")
    return known[package]


def executables(package):
    """Paths of a package's programs, sorted.

    Raises:
        UsageError: there is no such package.
    """
    folder = os.path.join(prefix(package), "lib", package)
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    paths = [os.path.join(folder, name) for name in names]
    return [path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)]
