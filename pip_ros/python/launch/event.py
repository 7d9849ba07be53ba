"""Something that happened and that handlers may react to."""


class Event:
    """Base class of all events; `name` identifies the kind."""

    name = "launch.Event"
