"""The supervisor's state, and the operator's buttons: stop, resume, arm.

A press calls the supervisor's service of that name once. What it answers stands below the buttons, and so does that it
did not answer. Stop can always be pressed; resume and arm, which let the robot move, only in the state that they end.
"""

from __future__ import annotations

import html
from typing import Any

from nodes.view.stage.layer import Keep, Layer, Want
from nodes.view.stage.stage import Stage

__all__ = ["STATES", "SupervisorLayer"]

#: refit_interfaces/SupervisorStatus: state -> name and colour
STATES = {
    0: ("STARTING", "#6b7280"),
    1: ("READY", "#0072b2"),
    2: ("RUNNING", "#15803d"),
    3: ("DEGRADED", "#b45309"),
    4: ("HALTED", "#b91c1c"),
    5: ("SHUTDOWN", "#374151"),
    6: ("DISARMED", "#6d28d9"),
}
HALTED, DISARMED = 4, 6


class SupervisorLayer(Layer):
    """See the module's docstring."""

    wants = (Want("supervisor/status", "refit_interfaces/msg/SupervisorStatus", Keep.FACTS),)

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._banner = stage.gui.add_html(
            _banner("NO SUPERVISOR", "#6b7280", "Nothing has been heard of it."), order=-10
        )
        self._buttons: dict[str, Any] = {}
        if stage.operator is None:
            return
        for verb, colour, icon, hint in (
            ("stop", "red", "hand-stop", "Halt the robot; resume lifts the halt"),
            ("resume", "green", "player-play", "Lift a halt: the robot may move at once"),
            ("arm", "violet", "lock-open", "Let the controller command: the robot may move at once"),
        ):
            button = stage.gui.add_button(
                verb.capitalize(),
                color=colour,
                icon=icon,
                hint=hint,
                disabled=verb != "stop",
                order=-9,  # type: ignore[arg-type]
            )
            button.on_click(lambda _, verb=verb: self._press(verb))
            self._buttons[verb] = button
        self._answer = stage.gui.add_html("", order=-8)

    def _press(self, verb: str) -> None:
        """On viser's own thread; all it does is to hand the verb on."""
        assert self.stage.operator is not None
        self._say(f"{verb}: asked, no answer yet", "#374151")
        self.stage.operator(verb, lambda granted, text: self._answered(verb, granted, text))

    def _answered(self, verb: str, granted: bool, text: str) -> None:
        self._say(f"{verb}: {'done' if granted else 'FAILED'}. {text}", "#15803d" if granted else "#b91c1c")

    def _say(self, text: str, colour: str) -> None:
        self._answer.content = (
            f'<div style="margin:2px 12px 8px;font-size:13px;color:{colour}">{html.escape(text)}</div>'
        )

    def take(self, topic: str, message: Any, time: float) -> None:
        name, colour = STATES.get(int(message.state), (f"STATE {message.state}", "#6b7280"))
        self._banner.content = _banner(name, colour, message.message)
        for verb, state in (("resume", HALTED), ("arm", DISARMED)):
            if verb in self._buttons:
                self._buttons[verb].disabled = int(message.state) != state


def _banner(name: str, colour: str, text: str) -> str:
    return (
        f'<div style="background:{colour};color:white;border-radius:6px;margin:8px 12px;padding:8px 12px">'
        f'<div style="font-weight:700;font-size:18px;letter-spacing:.04em">{html.escape(name)}</div>'
        f'<div style="font-size:13px;min-height:18px">{html.escape(text)}</div></div>'
    )
