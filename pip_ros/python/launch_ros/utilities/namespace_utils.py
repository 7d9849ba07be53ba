"""Namespaces: 'a/b' is relative, '/a/b' absolute, None means not given."""


def is_namespace_absolute(ns):
    return ns.startswith("/")


def is_root_namespace(ns):
    return ns == "/"


def make_namespace_absolute(ns):
    """Return ns with a slash in front; None stays None."""
    if ns is None or is_namespace_absolute(ns):
        return ns
    return "/" + ns


def prefix_namespace(base_ns, ns):
    """Return ns within base_ns; an absolute ns stands for itself."""
    if ns is None:
        return base_ns
    if base_ns is None or is_namespace_absolute(ns):
        combined = ns
    elif ns == "":
        combined = base_ns
    else:
        combined = f"{base_ns.rstrip('/')}/{ns}"
    return combined if combined in ("", "/") else combined.rstrip("/")
