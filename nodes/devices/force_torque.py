"""A force-torque sensor: its wrench as measured, and with bias and tool weight taken off.

    force_torque --ros-args -r __node:=ft_sensor -p driver:=netft -p address:=192.168.1.1

Page: docs/nodes/force_torque.md.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import WrenchStamped
from rclpy.qos import QoSProfile, ReliabilityPolicy
from refit_interfaces.action import IdentifyTool
from std_msgs.msg import Bool
from std_srvs.srv import Trigger
from tf2_msgs.msg import TFMessage

from hardware.ft300.device import Ft300Device
from hardware.link import DeviceError
from hardware.netft.device import NetFtDevice
from hardware.serial_wrench.device import SerialWrenchDevice
from hardware.serial_wrench.protocol import load_description
from hardware.wrench.sensor import WrenchBlock, WrenchSensor
from nodes.devices.device_node import DeviceConfig, DeviceNode
from nodes.devices.joint_motion import JointMotion
from nodes.devices.tool_survey import ToolSurvey
from nodes.frames.transforms import TransformBuffer, TransformError
from nodes.framework.config import setting
from nodes.framework.lifecycle import spin_main, turn
from nodes.framework.long_action import LongAction
from nodes.framework.qos import LATCHED, STATE
from sim_core.perception.tool_load import GRAVITY, MINIMUM_POSES, ToolLoad
from sim_core.perception.wrench_filter import Decimator, LowPass, RestingMean

__all__ = ["ForceTorque", "ForceTorqueConfig", "main"]

WRENCH = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)
TF_PATIENCE = 0.1  # [s] that a transform may be older than the sample: motion goes on as it was
BIAS_LATEST = 2.0  # [s] beyond the samples' own time after which taking a bias is given up
SURVEY_PERIOD = 0.05  # [s]


@dataclass(frozen=True)
class ForceTorqueConfig(DeviceConfig):
    """Parameters of `force_torque`."""

    driver: str = setting("netft", description="which sensor", choices=("netft", "ft300", "serial"), read_only=True)
    address: str = setting("192.168.1.1", description="of a Net F/T", read_only=True)
    udp_port: int = setting(49152, "", (1, 65535), "of a Net F/T's stream", read_only=True)
    http_port: int = setting(80, "", (1, 65535), "of a Net F/T's configuration page", read_only=True)
    buffered: bool = setting(
        False, description="several records of a Net F/T per datagram: less load, more delay", read_only=True
    )
    port: str = setting("/dev/ttyUSB0", description="serial port of an FT-300 or a described sensor", read_only=True)
    description: str = setting("", description="YAML file with the frame of a described sensor", read_only=True)
    frame_id: str = setting("ft_sensor_link", description="frame of the wrench", read_only=True)
    rate: float = setting(
        1000.0,
        "Hz",
        (1.0, 7000.0),
        "asked of a Net F/T, which rounds up to a whole fraction of 7000; others have their own",
        read_only=True,
    )
    publish_rate: float = setting(250.0, "Hz", (1.0, 7000.0), "of both wrenches, at most the sensor's", read_only=True)
    decimation: str = setting(
        "mean", description="what stands for the samples between two messages", choices=("mean", "last"), read_only=True
    )
    lowpass_hz: float = setting(
        0.0,
        "Hz",
        (0.0, 3500.0),
        "cutoff of a Butterworth filter of second order on `~/wrench`; 0: none",
        read_only=True,
    )
    silence_timeout: float = setting(0.02, "s", (0.001, 1.0), "silence after which `~/valid` falls", read_only=True)
    bias_mode: str = setting(
        "software",
        description="where bias is taken off: here, or in a Net F/T, for all its clients",
        choices=("software", "device"),
        read_only=True,
    )
    bias_samples: int = setting(
        500, "samples", (10, 100_000), "of which a bias, or a pose of a tool, is the mean", read_only=True
    )
    bias_max_std_n: float = setting(
        0.5, "N", (0.0, 1000.0), "standard deviation of any force above which they are refused", read_only=True
    )
    still_speed: float = setting(
        0.01, "rad/s", (0.0, 10.0), "of any joint, above which they are refused", read_only=True
    )
    tool_mass: float = setting(0.0, "kg", (0.0, 1000.0), "of what the sensor carries", name="tool.mass", read_only=True)
    tool_com: tuple[float, ...] = setting(
        (0.0, 0.0, 0.0), "m", (-10.0, 10.0), "its centre of mass in `frame_id`", name="tool.com", read_only=True
    )
    tool_gravity_frame: str = setting(
        "world", description="frame whose z axis points up", name="tool.gravity_frame", read_only=True
    )
    tool_max_residual: float = setting(
        0.2,
        "N",
        (0.0, 1000.0),
        "root mean square of what an identified tool may leave unexplained",
        name="tool.max_residual_n",
        read_only=True,
    )
    max_force: float = setting(
        0.0, "N", (0.0, 1.0e6), "that counts as saturation on any axis; 0: what the sensor states", read_only=True
    )
    max_torque: float = setting(0.0, "N m", (0.0, 1.0e6), "likewise", read_only=True)
    sign: tuple[int, ...] = setting(
        (1, 1, 1),
        "",
        (-1, 1),
        "of the axes x, y, z of `frame_id`; all -1: the sensor reports the reaction",
        read_only=True,
    )
    swap_axes: str = setting(
        "xyz",
        description="which axes of the sensor are x, y, z of `frame_id`",
        choices=("xyz", "xzy", "yxz", "yzx", "zxy", "zyx"),
        read_only=True,
    )

    def __post_init__(self):
        if len(self.sign) != 3 or 0 in self.sign:
            raise ValueError(f"sign is {list(self.sign)}, expected three numbers of -1 or 1.")
        if len(self.tool_com) != 3:
            raise ValueError(f"tool.com is {list(self.tool_com)}, expected three numbers.")
        if self.driver == "serial" and not self.description:
            raise ValueError("driver serial needs 'description', the YAML file with the sensor's frame.")
        if self.bias_mode == "device" and self.driver != "netft":
            raise ValueError("only a Net F/T takes a bias by itself: set bias_mode software.")


class ForceTorque(DeviceNode):
    """See the module's docstring. Samples are handled on the device's thread, services and the action on the node's."""

    name = "ft_sensor"
    Config = ForceTorqueConfig
    coroutines = True
    device: WrenchSensor | None = None
    _survey: ToolSurvey | None = None
    _action: LongAction | None = None

    # -- lifecycle ---------------------------------------------------------------------------------
    def make_device(self) -> WrenchSensor:
        c = self.config
        self._axes = np.array(["xyz".index(axis) for axis in c.swap_axes])
        self._sign = np.array(c.sign, float)
        self._tool = ToolLoad(c.tool_mass, np.array(c.tool_com))
        self._bias = np.zeros(6)
        self._resting: RestingMean | None = None
        self._stages_rate, self._last_t = 0.0, float("-inf")
        self._blind = ""  # why no tool weight can be taken off
        self._delays: deque[float] = deque(maxlen=512)
        self._transforms = TransformBuffer()
        self._raw = self.publisher(WrenchStamped, "~/wrench_raw", WRENCH)
        self._wrench = self.publisher(WrenchStamped, "~/wrench", WRENCH)
        self._valid = self.publisher(Bool, "~/valid", LATCHED)
        self.service(Trigger, "~/bias", self._on_bias)
        self.service(Trigger, "~/clear_bias", self._on_clear_bias)
        self.service(Trigger, "~/reset_threshold_latch", self._on_reset_latch)
        self.subscription(TFMessage, "/tf", self._transforms.add, STATE)
        self.subscription(TFMessage, "/tf_static", self._transforms.add_static, LATCHED)
        self._motion = JointMotion(self, "joint_states")
        self._action = LongAction(
            self,
            IdentifyTool,
            "~/identify_tool",
            self._begin_survey,
            self._refuse_survey,
            lambda handle: self._end_survey(None, "cancelled", "canceled"),
        )
        self._published_valid: bool | None = None
        self._say_valid()
        load = np.repeat([c.max_force or np.nan, c.max_torque or np.nan], 3)
        options = dict(on_valid=self._on_valid, silence_timeout=c.silence_timeout, max_load=load, **self.link_options())
        if c.driver == "netft":
            return NetFtDevice(
                c.address, rate=c.rate, buffered=c.buffered, udp_port=c.udp_port, http_port=c.http_port, **options
            )
        if c.driver == "ft300":
            return Ft300Device(c.port, **options)
        return SerialWrenchDevice(c.port, load_description(c.description), **options)

    def stop(self) -> None:
        self._end_survey(None, "the sensor was deactivated")
        super().stop()

    def cleanup(self) -> None:
        super().cleanup()
        if self._action is not None:
            self._action.destroy()
            self._motion.close()
        self._action = None

    def time_jumped_back(self) -> None:
        if self.device is not None:
            self._transforms.clear()

    @property
    def expected_rate(self) -> float:
        if self.device is not None and self.device.nominal_rate:
            return self.device.nominal_rate
        return self.config.rate if self.config.driver == "netft" else 100.0

    # -- samples, on the device's thread -------------------------------------------------------------
    def on_sample(self, block: WrenchBlock, t: float) -> None:
        self._make_stages(block)
        wrench = block.wrench.reshape(-1, 2, 3)[:, :, self._axes] * self._sign
        wrench = wrench.reshape(-1, 6)
        resting = self._resting
        if resting is not None:
            resting.add(wrench)
        smooth = wrench if self._lowpass is None else self._lowpass(wrench)
        times, samples = self._decimate(block.t, np.concatenate([wrench, smooth], axis=1))
        for t, sample in zip(times.tolist(), samples):
            self._publish(t, sample[:6], sample[6:])

    def _make_stages(self, block: WrenchBlock) -> None:
        """Filter and decimation for the device's rate; begun anew after an interruption."""
        rate, c = self.device.nominal_rate, self.config
        if rate != self._stages_rate:
            self._stages_rate = rate
            self._lowpass = LowPass(c.lowpass_hz, rate) if 0.0 < c.lowpass_hz < 0.5 * rate else None
            self._decimate = Decimator(max(1, round(rate / c.publish_rate)), c.decimation == "mean")
        elif block.t[0] - self._last_t > max(c.silence_timeout, 3.0 / rate):
            self._decimate.reset()
            if self._lowpass is not None:
                self._lowpass.reset()
        self._last_t = float(block.t[-1])

    def _publish(self, t: float, raw: np.ndarray, smooth: np.ndarray) -> None:
        stamp = self.stamp(t)
        self._raw.publish(self._message(stamp, raw))
        wrench = smooth - self._bias
        tool = self._tool
        if tool.mass:
            try:
                wrench = wrench - tool.wrench(self._gravity(stamp.sec + 1e-9 * stamp.nanosec))
                self._blind = ""
            except TransformError as error:
                self._blind = f"the tool's weight cannot be taken off: {error}"
            self._say_valid()
        if not self._blind:
            self._wrench.publish(self._message(stamp, wrench))
        self._delays.append(time.monotonic() - float(self._last_t))

    def _message(self, stamp, wrench: np.ndarray) -> WrenchStamped:
        message = WrenchStamped()
        message.header.stamp, message.header.frame_id = stamp, self.config.frame_id
        force, torque = message.wrench.force, message.wrench.torque
        force.x, force.y, force.z, torque.x, torque.y, torque.z = wrench.tolist()
        return message

    def _gravity(self, stamp: float | None) -> np.ndarray:
        """In the sensor's axes, (3,) [m/s^2].

        Raises:
            TransformError: not known at this time.
        """
        X = self._transforms.lookup(self.config.tool_gravity_frame, self.config.frame_id, stamp, TF_PATIENCE)
        return -GRAVITY * X[2, :3]

    def _on_valid(self, valid: bool, reason: str, t: float) -> None:
        self._say_valid()

    def _say_valid(self) -> None:
        """Publish the verdict if it has changed."""
        valid = self.device is not None and self.device.valid and not self._blind
        if valid != self._published_valid and self.context.ok():
            self._published_valid = valid
            self._valid.publish(Bool(data=valid))

    # -- health --------------------------------------------------------------------------------------
    def judge(self):
        return (DiagnosticStatus.WARN, self._blind) if self._blind else None

    def diagnose_device(self) -> None:
        device, say, delays = self.device, self.diagnostics.set, list(self._delays)
        say("valid", bool(self._published_valid))
        say("invalid_reason", self._blind or device.invalid_reason)
        say("nominal_rate", device.nominal_rate)
        say("sample_to_publish_p95_ms", 1e3 * float(np.percentile(delays, 95)) if delays else float("nan"))
        say("bias", " ".join(f"{b:.4g}" for b in self._bias))
        say("tool_mass", self._tool.mass)
        if self.config.lowpass_hz >= 0.5 * device.nominal_rate > 0.0:
            self.diagnostics.warn(
                f"lowpass_hz {self.config.lowpass_hz:g} is not below half the rate {device.nominal_rate:g} Hz: no filter"
            )

    # -- bias ----------------------------------------------------------------------------------------
    async def _on_bias(self, request, response):
        response.message = await self._take_bias()
        response.success = not response.message
        if response.success:
            bias = ", ".join(f"{b:.4g}" for b in self._bias)
            response.message = (
                "the sensor took its load for zero" if self.config.bias_mode == "device" else f"bias is [{bias}] N, N m"
            ) + ("" if self._motion.known else "; no joint states came, so that nobody looked whether the robot moved")
        return response

    async def _take_bias(self) -> str:
        """Take the mean of the next samples for zero; "" or why not."""
        c = self.config
        if not (self.is_active and self.device.valid):
            return f"the sensor gives no valid wrench now: {self.device.invalid_reason or 'inactive'}"
        if self._resting is not None:
            return "samples at rest are being collected already"
        self._motion.begin()
        end = time.monotonic() + c.bias_samples / self.expected_rate + BIAS_LATEST
        resting = self._resting = RestingMean(c.bias_samples)
        speed = 0.0
        try:
            while resting.collected < c.bias_samples:
                await turn()
                speed = max(speed, self._motion.peak())
                if speed > c.still_speed:
                    return f"the robot moves: {speed:.3g} rad/s, at most {c.still_speed:g} are at rest"
                if resting.collected < c.bias_samples and (not self.device.valid or time.monotonic() > end):
                    return f"only {resting.collected} of {c.bias_samples} samples came: {self.device.invalid_reason or 'too slowly'}"
        finally:
            self._resting = None
        if self._motion.missing:
            return "joint states are published but do not come: nobody can tell whether the robot is at rest"
        mean, std = resting.result()
        if std[:3].max() > c.bias_max_std_n:
            return f"the force is not at rest: its standard deviation is {std[:3].max():.3g} N, at most {c.bias_max_std_n:g} N are"
        tool = np.zeros(6)
        if self._tool.mass:
            try:
                tool = self._tool.wrench(self._gravity(None))
            except TransformError as error:
                return f"the tool's weight is not known: {error}"
        if c.bias_mode == "device":
            try:
                self.device.bias_in_device()
            except DeviceError as error:
                return str(error)
            # The sensor's zero now holds the tool's weight as well.
            self._bias = -tool
        else:
            self._bias = mean - tool
        return ""

    def _on_clear_bias(self, request, response):
        self._bias = np.zeros(6)
        response.success, response.message = True, "no bias is taken off here any more"
        return response

    def _on_reset_latch(self, request, response):
        try:
            if not isinstance(self.device, NetFtDevice):
                raise DeviceError(f"driver {self.config.driver} has no threshold latch: only a Net F/T does")
            self.device.reset_latch()
            response.success, response.message = True, "reset asked for"
        except DeviceError as error:
            response.success, response.message = False, str(error)
        return response

    # -- tool ----------------------------------------------------------------------------------------
    def _refuse_survey(self, goal) -> str:
        if not self.is_active:
            return "the sensor is not active"
        if self._survey is not None or self._resting is not None:
            return "samples at rest are being collected already"
        if 0 < goal.poses < MINIMUM_POSES:
            return f"{goal.poses} poses are too few, at least {MINIMUM_POSES} are needed"
        return ""

    def _begin_survey(self, handle) -> None:
        c = self.config
        self._motion.begin()
        self._survey_handle = handle
        self._survey = ToolSurvey(handle.request, c.bias_samples, c.bias_max_std_n, c.still_speed, time.monotonic())
        self._survey_timer = self.create_timer(SURVEY_PERIOD, self._advance_survey, clock=self.steady_clock)

    def _advance_survey(self) -> None:
        survey = self._survey
        if survey is None:
            return
        try:
            gravity = self._gravity(None)
        except TransformError as error:
            gravity, survey.hint = None, str(error)
        said = survey.collected, survey.hint
        done = survey.advance(time.monotonic(), gravity, self._motion.peak(), self.device.valid)
        self._resting = survey.resting
        if (survey.collected, survey.hint) != said or survey.fresh:
            survey.fresh = False
            self._survey_handle.publish_feedback(IdentifyTool.Feedback(collected=survey.collected, hint=survey.hint))
        if done:
            self._end_survey(survey.found, survey.failure, "succeed" if survey.found else "abort")

    def _end_survey(self, found, message: str, outcome: str = "abort") -> None:
        """Give the goal its result, and use it if that was asked for."""
        if self._survey is None:
            return
        survey, handle, self._survey, self._resting = self._survey, self._survey_handle, None, None
        self.destroy_timer(self._survey_timer)
        result = IdentifyTool.Result(success=False, message=message)
        if found is not None:
            limit = self.config.tool_max_residual
            result.mass, result.com = found.tool.mass, found.tool.com
            result.force_offset, result.torque_offset = found.offset[:3], found.offset[3:]
            result.residual = found.force_residual
            result.success = found.force_residual <= limit
            com = ", ".join(f"{c:.4f}" for c in found.tool.com)
            result.message = (
                f"tool.mass: {found.tool.mass:.4f} +- {2 * found.mass_std:.2g}, tool.com: [{com}]"
                if result.success
                else f"{found.force_residual:.3g} N remain unexplained, more than {limit:g}: does a cable pull, or something touch?"
            )
            if result.success and survey.apply:
                self._tool, self._bias = found.tool, found.offset
            outcome = "succeed" if result.success else "abort"
        self.get_logger().info(f"{self.get_name()}: tool identification: {result.message}")
        self._action.finish(handle, result, outcome)


def main(args=None) -> int:
    return spin_main(ForceTorque, args)
