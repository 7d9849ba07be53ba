"""What `robot.yaml` says of a robot, as types: docs/robots.md lists the keys, `config.robot` reads them.

Units and ranges are in the fields. Positions are in the frame of the body or world that is named; angles of a view in
degrees, everything else in SI.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import ClassVar, Protocol, TypeVar

from config.typed import key

__all__ = [
    "CONTROLLERS",
    "Capsule",
    "Device",
    "Dig",
    "DigDemo",
    "Footprint",
    "HiddenChange",
    "Identify",
    "Listen",
    "ListenDemo",
    "PayloadDemo",
    "PokeDemo",
    "Poke",
    "RangeSite",
    "Refit",
    "Robot",
    "RobotError",
    "Scoop",
    "ScoopDemo",
    "SwingUp",
    "SwingUpDemo",
    "SwingUpWeights",
    "Teleoperate",
    "TeleoperatedArm",
    "Track",
    "TrackingWeights",
    "Trot",
    "View",
]


class RobotError(ValueError):
    """A robot's folder that cannot be used; one sentence names file and key, what was expected and what was found."""


class _HasKind(Protocol):
    kind: ClassVar[str]


Kind = TypeVar("Kind", bound=_HasKind)

#: nodes that can run a robot, and the tasks that each is for
CONTROLLERS = {
    "adaptive_mpc": ("track", "swing_up"),
    "stance_controller": ("trot",),
    "teleop": ("teleoperate",),
    "placement": ("listen",),
    "scoop_arm": ("scoop",),
    "bucket_arm": ("dig",),
    "poke_arm": ("poke",),
}
WEIGHT = (0.0, 1e9)


# -- what it does ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TrackingWeights:
    """Weights in the cost of `frame_tracking` (sim_core/control/tasks.py)."""

    position: float = key("1/m^2", WEIGHT, "of the frame's distance from its path")
    rotation: float = key("1", WEIGHT, "of the frame's turn away from that of the home pose")
    posture: float = key("1/rad^2", WEIGHT, "of the joints' distance from home; decides redundant directions alone")
    rate: float = key("s^2/rad^2", WEIGHT, "of joint velocities")
    control: float = key("1/(N m)^2", WEIGHT, "of actuator efforts")
    smoothness: float = key("1/(N m)^2", WEIGHT, "of changes of the efforts between two periods")


@dataclass(frozen=True)
class Track:
    """The arm's tool follows a path; what it holds is learnt."""

    kind: ClassVar[str] = "track"

    frame: str = key("", None, "site of the model that follows the path: the tool centre point")
    payload_body: str = key("", None, "body of the model whose inertia the refit corrects: the hand with what it holds")
    weights: TrackingWeights = key("", None, "of the controller's cost")


@dataclass(frozen=True)
class SwingUpWeights:
    """Weights in the cost of `cartpole_swing_up` (sim_core/control/tasks.py), on features of the state."""

    position: float = key("1/m^2", WEIGHT, "of the cart's position")
    speed: float = key("s^2/m^2", WEIGHT, "of the cart's speed")
    orientation: float = key("1", WEIGHT, "of sine and cosine of every pole's angle from upright")
    rate: float = key("s^2/rad^2", WEIGHT, "of the poles' rates")
    acceleration: float = key("s^4/rad^2", WEIGHT, "of the poles' accelerations")
    control: float = key("1/N^2", WEIGHT, "of the force on the cart")
    terminal_factor: float = key("1", WEIGHT, "by which the last knot's weights are larger")


@dataclass(frozen=True)
class SwingUp:
    """A cart swings one or two poles up over the origin and holds them there."""

    kind: ClassVar[str] = "swing_up"

    start: float = key(
        "kg, m", (0.01, 100.0), "every mass, length and centre-of-mass coordinate of the wrong start (prior:=start)"
    )
    weights: SwingUpWeights = key("", None, "of the controller's cost")


@dataclass(frozen=True)
class Trot:
    """A quadruped trots after velocity commands."""

    kind: ClassVar[str] = "trot"

    network: str = key(
        "",
        None,
        "file in the robot's folder with the network that imitates the stance programme, for solver:=neural",
        default="",
    )


@dataclass(frozen=True)
class TeleoperatedArm:
    """An arm that follows one of the operator's hands: a robot of its own, mounted in this one."""

    side: str = key(choices=("right", "left"), purpose="hand of the operator that it follows")
    robot: str = key("", None, "name in config/robots of the arm alone")
    prefix: str = key("", None, "of the arm's names in this robot's model, 'right_' for right_joint1")
    mount: str = key("", None, "body of this robot that is the root of the arm")
    frame: str = key("", None, "site of this robot that follows the hand: the end effector")
    narrow: tuple[float, ...] = key(
        "rad", (-6.3, 6.3), "its joints where the robot is to be narrow; left out: there is no such posture", default=()
    )


@dataclass(frozen=True)
class RangeSite:
    """A rangefinder that sounds along the z axis of a site: the nearest thing in a cone is what it reads."""

    site: str = key("", None, "site of the model; readings carry its name")
    minimum: float = key("m", (0.0, 10.0), "range that it reads for anything nearer, too", default=0.3)
    maximum: float = key("m", (0.01, 100.0), "range beyond which it hears nothing", default=5.0)
    field_of_view: float = key("rad", (0.01, 3.1), "full angle of the cone", default=0.7)
    rate: float = key("Hz", (0.1, 1000.0), "of readings", default=10.0)
    noise: float = key("m", (0.0, 1.0), "standard deviation of a reading of the simulated one", default=0.0)

    def __post_init__(self) -> None:
        if not self.minimum < self.maximum:
            raise ValueError(f"minimum: expected one below maximum, {self.maximum:g} [m], found {self.minimum:g}")


@dataclass(frozen=True)
class Footprint:
    """The rectangle on the floor that a base takes up, about the origin of its turning."""

    front: float = key("m", (0.0, 5.0), "from the middle to the front edge")
    rear: float = key("m", (0.0, 5.0), "from the middle to the rear edge")
    side: float = key("m", (0.0, 5.0), "from the middle to either side")


@dataclass(frozen=True)
class Teleoperate:
    """A person moves the robot: arms after hands, head after head, base after a stick."""

    kind: ClassVar[str] = "teleoperate"

    arms: tuple[TeleoperatedArm, ...] = key("", None, "right one first")
    base: tuple[str, ...] = key("", None, "joints of the base: forward, left, anticlockwise; or none", default=())
    head: tuple[str, ...] = key("", None, "joints of the head: yaw, pitch, roll; or none", default=())
    park: tuple[float, ...] = key(
        "rad",
        (-3.2, 3.2),
        "where the head is put when it shall rest, yaw, pitch, roll; left out: straight ahead",
        default=(0.0, 0.0, 0.0),
    )
    gripper: str = key("", None, "joint that the right trigger closes, from its lower to its upper limit", default="")
    hand: tuple[str, ...] = key(
        "", None, "joints of the left hand, index to thumb, that the glove or the left trigger closes", default=()
    )
    rangefinders: tuple[RangeSite, ...] = key("", None, "that look where the base drives; or none", default=())
    footprint: Footprint | None = key(
        "", None, "of the base, which rangefinders keep things away from; or none, where there are none", default=None
    )

    def __post_init__(self) -> None:
        if self.rangefinders and self.footprint is None:
            raise ValueError("footprint: expected front, rear and side [m], since there are rangefinders, found none")
        sides = [arm.side for arm in self.arms]
        if sides not in (["right", "left"], ["right"], ["left"]):
            raise ValueError(
                f"arms: expected a right and a left one, or one of them, found {', '.join(sides) or 'none'}"
            )
        if len(self.park) != 3:
            raise ValueError(f"park: expected yaw, pitch and roll, found {len(self.park)} angles")
        for name, sizes in (("base", (0, 3)), ("head", (0, 3)), ("hand", (0, 6))):
            if len(getattr(self, name)) not in sizes:
                raise ValueError(f"{name}: expected {sizes[1]} joints or none, found {len(getattr(self, name))}")


@dataclass(frozen=True)
class Listen:
    """A stethoscope is put onto a person where somebody asks for it."""

    kind: ClassVar[str] = "listen"

    frame: str = key("", None, "site of the model that is the stethoscope's membrane, its z axis out of it")


@dataclass(frozen=True)
class Scoop:
    """Grains are scooped out of a tray where somebody asks for it."""

    kind: ClassVar[str] = "scoop"

    measuring: tuple[float, float, float] = key(
        "m", (-5.0, 5.0), "where the edge of the closed scoop is held so that a camera sees its load, in the world"
    )
    bin: tuple[float, float, float] = key(
        "m", (-5.0, 5.0), "where the edge of the closed scoop is before it is emptied, in the world"
    )


@dataclass(frozen=True)
class Dig:
    """A bucket is moved through a pile of blocks, motion by motion as somebody asks for it."""

    kind: ClassVar[str] = "dig"

    frame: str = key(
        "", None, "site of the model that is the bucket's middle: -x is where it opens, z up while it is level"
    )
    pile: tuple[float, float, float] = key(
        "m", (-5.0, 5.0), "origin of the pile's frame in the world, whose axes it has: z = 0 is the surface"
    )
    bin: tuple[float, float, float] = key(
        "m", (-5.0, 5.0), "where the bucket's middle is when it is emptied, in the world"
    )


@dataclass(frozen=True)
class Poke:
    """A probe is pressed into a soft object where somebody asks for it."""

    kind: ClassVar[str] = "poke"

    frame: str = key("", None, "site of the model that is the probe's tip, its z axis from there back to the wrist")


@dataclass(frozen=True)
class Refit:
    """What the sensors and the robot's size ask of the refit."""

    resolution: tuple[float, float] = key(
        "rad, rad/s", (1e-9, 1.0), "standard deviation of positions and of velocities below which sensors say nothing"
    )
    bridge: float = key(
        "sample periods", (1.0, 100.0), "longest pause between two joint states that is interpolated over"
    )
    change_factor: float = key("1", (1.0, 1e3), "rise of the prediction error that counts as a change of the robot")
    segment_length: int = key("steps", (1, 1000), "of multiple shooting")
    initial_state: str = key(
        choices=("free", "measured"), purpose="a segment's start is estimated (noisy sensors), or taken as measured"
    )


# -- how it is shown ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class View:
    """Where the demonstration's camera looks from."""

    azimuth: float = key("deg", (-360.0, 360.0), "of the line of sight about the vertical")
    elevation: float = key("deg", (-90.0, 90.0), "of the line of sight; negative looks down")


@dataclass(frozen=True)
class PayloadDemo:
    """A payload that nobody told the controller of appears in the hand."""

    kind: ClassVar[str] = "payload"

    mass: float = key("kg", (1e-3, 1e3), "of the payload, unless somebody says otherwise")
    mass_range: tuple[float, float] = key("kg", (1e-3, 1e3), "what the arm can carry along its path")
    com: tuple[float, float, float] = key("m", (-1.0, 1.0), "the payload's centre of mass in the payload body's frame")
    ball: float = key("m", (1e-3, 1.0), "radius with which the payload is drawn")
    view: View = key("", None, "of the camera")
    launch: str = key("", None, "launch file that runs the robot", default="sim.launch.py")
    arguments: dict[str, bool | int | float | str] = key(
        "", None, "of that launch file, for a graph that waits to be played", factory=lambda: {"paused": True}
    )

    def __post_init__(self) -> None:
        low, high = self.mass_range
        if not low <= self.mass <= high:
            raise ValueError(f"mass: expected a number in mass_range, {low:g} to {high:g} [kg], found {self.mass:g}")


@dataclass(frozen=True)
class HiddenChange:
    """What of a cart-pole may change from the fourth episode on, without the controller being told."""

    pole: str = key("", None, "body whose mass --change pole_mass=FACTOR multiplies")
    motor: str = key("", None, "actuator whose force --change gain=FACTOR multiplies")


@dataclass(frozen=True)
class SwingUpDemo:
    """Episodes from a wrong model, beside a controller that knows the truth and one that never learns."""

    kind: ClassVar[str] = "swing_up"

    view: View = key("", None, "of the camera")
    change: HiddenChange | None = key(
        "", None, "what --change does to it; left out: it takes none, because feedback alone copes", default=None
    )


@dataclass(frozen=True)
class ListenDemo:
    """The robot finds out where to listen to a simulated person."""

    kind: ClassVar[str] = "auscultation"

    patient: int = key("", (0, 10**9), "number of the person")
    launch: str = key("", None, "launch file that runs the robot", default="auscultation.launch.py")


@dataclass(frozen=True)
class ScoopDemo:
    """The robot collects a sample from a tray of grains."""

    kind: ClassVar[str] = "scooping"

    tray: str = key("", None, "what lies in it, as sim_plant knows it")
    threshold: float = key("m^3", (1e-6, 1e-3), "volume that is enough")
    launch: str = key("", None, "launch file that runs the robot", default="scooping.launch.py")


@dataclass(frozen=True)
class DigDemo:
    """The robot digs in a pile of blocks, with and without a plan."""

    kind: ClassVar[str] = "excavation"

    tray: str = key("", None, "what lies there, as sim_plant knows it")
    launch: str = key("", None, "launch file that runs the robot", default="excavation.launch.py")


@dataclass(frozen=True)
class PokeDemo:
    """The robot finds out how hard a soft object is."""

    kind: ClassVar[str] = "poking"

    object: str = key("", None, "what stands there, as sim_plant knows it")
    launch: str = key("", None, "launch file that runs the robot", default="poking.launch.py")


#: demonstrations, and the task that each is of
DEMO_TASKS = {
    "payload": "track",
    "swing_up": "swing_up",
    "auscultation": "listen",
    "scooping": "scoop",
    "excavation": "dig",
    "poking": "poke",
}


# -- the rest ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Identify:
    """What `refit identify` and `refit infer` take for granted."""

    free: tuple[str, ...] = key("", None, "parameters that are free, as --free spells them")


@dataclass(frozen=True)
class Device:
    """One driver node of a robot, and how it is played.

    {folder} stands for a fresh folder, {world} for the shared world of the simulated robot, {here} for the robot's folder
    and {ip} for a loopback address of one launch alone.
    """

    node: str = key("", None, "name of the driver node")
    executable: str = key("", None, "of the driver, where it is not the node's name", default="")
    namespace: str = key("", None, "of the node", default="")
    remap: dict[str, str] = key("", None, "names of the driver -> names on the robot", factory=dict)
    emulator: tuple[str, ...] = key(
        "", None, "words of `refit emulate` that play it; empty: cannot be played", default=()
    )
    emulated: dict[str, bool | int | float | str] = key(
        "", None, "parameters that lead the driver to its emulator; on hardware those of nodes.yaml hold", factory=dict
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "executable", self.executable or self.node)

    @property
    def path(self) -> str:
        """The node's name with its namespace."""
        return f"{self.namespace}/{self.node}".lstrip("/")

    def placed(self, **places: str) -> Device:
        """The same with {folder}, {world}, ... in words and parameters filled in."""

        def fill(value: bool | int | float | str) -> bool | int | float | str:
            return value.format(**places) if isinstance(value, str) else value

        words = tuple(str(fill(word)) for word in self.emulator)
        emulated = {name: fill(value) for name, value in self.emulated.items()}
        return Device(self.node, self.executable, self.namespace, self.remap, words, emulated)


@dataclass(frozen=True)
class Capsule:
    """All points within `radius` of a segment that is fixed to a body: encloses its shapes for whoever keeps a distance."""

    body: str = key("", None, "body of the model that it is fixed to")
    start: tuple[float, float, float] = key("m", (-5.0, 5.0), "of the segment, in the body's frame")
    end: tuple[float, float, float] = key("m", (-5.0, 5.0), "of the segment, in the body's frame")
    radius: float = key("m", (1e-3, 5.0), "of the capsule")


@dataclass(frozen=True)
class Robot:
    """Everything particular to one robot that its model and its ROS parameters do not say.

    Attributes:
        name: of the folder and of the model in it.
        folder: with the model <name>.xml, and nodes.yaml where a controller runs it.
    """

    name: str
    folder: Path
    title: str = key("", None, "what people call it")
    controller: str = key(
        choices=tuple(CONTROLLERS), purpose="node that runs it; left out: nothing does, it is a model only", default=""
    )
    task: Track | SwingUp | Trot | Teleoperate | Listen | Scoop | Dig | Poke | None = key(
        "", None, "what the controller makes it do", default=None
    )
    refit: Refit | None = key("", None, "what its sensors ask of the refit", default=None)
    identify: Identify | None = key("", None, "defaults of refit identify", default=None)
    devices: tuple[Device, ...] = key(
        "", None, "its drivers in the order they are brought up: sensors first, what moves it last", default=()
    )
    capsules: tuple[Capsule, ...] = key(
        "", None, "that enclose its links, from the root on, for whoever keeps arms apart", default=()
    )
    demo: PayloadDemo | SwingUpDemo | ListenDemo | ScoopDemo | DigDemo | PokeDemo | None = key(
        "", None, "how refit demo shows it", default=None
    )

    def __post_init__(self) -> None:
        tasks = CONTROLLERS.get(self.controller, ())
        if tasks and self.task is None:
            raise ValueError(f"task is missing; {self.controller} needs one of kind {' or '.join(tasks)}")
        if self.task and self.task.kind not in tasks:
            fitting = [name for name, kinds in CONTROLLERS.items() if self.task.kind in kinds]
            raise ValueError(
                f"controller: a task of kind {self.task.kind} needs {fitting[0]}, found '{self.controller}'"
            )
        if isinstance(self.task, Track | SwingUp) and self.refit is None:
            raise ValueError(
                f"refit is missing; {self.controller} needs it: {', '.join(field.name for field in fields(Refit))}"
            )
        if self.demo and (self.task is None or self.task.kind != DEMO_TASKS[self.demo.kind]):
            raise ValueError(
                f"demo.kind: '{self.demo.kind}' shows a task of kind {DEMO_TASKS[self.demo.kind]}, "
                f"found {self.task.kind if self.task else 'no task'}"
            )

    def task_as(self, *kinds: type[Kind]) -> Kind:
        """The task.

        Raises:
            RobotError: it is of none of these kinds, or there is none.
        """
        return self._of("task", self.task, kinds)

    def demo_as(self, *kinds: type[Kind]) -> Kind:
        """The demonstration.

        Raises:
            RobotError: it is of none of these kinds, or there is none.
        """
        return self._of("demo", self.demo, kinds)

    def _of(self, name: str, found: object, kinds: tuple[type[Kind], ...]) -> Kind:
        if isinstance(found, kinds):
            return found
        wanted = " or ".join(str(kind.kind) for kind in kinds)
        said = "it is missing" if found is None else f"found {getattr(found, 'kind', found)}"
        raise RobotError(f"{self.file}: expected a {name} of kind {wanted}, {said}")

    @property
    def file(self) -> Path:
        """robot.yaml, for the text of an error."""
        return self.folder / "robot.yaml"

    @property
    def model(self) -> Path:
        """The MJCF file."""
        return self.folder / f"{self.name}.xml"
