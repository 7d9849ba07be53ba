"""Every node of the package and the module that runs it: the one table that setup.py, console scripts and tests read.

Plain data without imports, because setup.py executes this file on its own.
"""

#: executable -> module with a function `main() -> int`
NODES = {
    # the simulated robot
    "sim_plant": "nodes.plant.sim_plant",
    "sim_camera": "nodes.plant.sim_camera",
    "sim_stethoscope": "nodes.plant.sim_stethoscope",
    # control
    "adaptive_mpc": "nodes.control.adaptive_mpc",
    "refit_worker": "nodes.control.refit_worker",
    "stance_controller": "nodes.control.stance_controller",
    "placement": "nodes.control.placement",
    "scoop_arm": "nodes.control.scoop_arm",
    "bucket_arm": "nodes.control.bucket_arm",
    "poke_arm": "nodes.control.poke_arm",
    # supervision
    "supervisor": "nodes.supervision.supervisor",
    "recorder": "nodes.supervision.recorder",
    # what a person sees of it
    "view": "nodes.view.view",
    # a person acts through the robot
    "teleop": "nodes.telepresence.teleop",
    "texture_scan": "nodes.telepresence.texture_scan",
    # between an operator far away and the graph
    "telepresence_bridge": "nodes.telepresence.bridge",
    # where things are
    "robot_state": "nodes.frames.robot_state",
    "static_transform": "nodes.frames.static_transform",
    # learning
    "augmentation": "nodes.learning.augmentation",
    "inference": "nodes.learning.inference",
    # what sensors saw, explained
    "lidar": "nodes.perception.lidar",
    # what to try next
    "auscultation": "nodes.planning.auscultation",
    "excavation": "nodes.planning.excavation",
    "poking": "nodes.planning.poking",
    "scooping": "nodes.planning.scooping",
    # drivers
    "ability_hand": "nodes.devices.ability_hand",
    "audio": "nodes.devices.audio",
    "dynamixel": "nodes.devices.dynamixel",
    "estop": "nodes.devices.estop",
    "force_torque": "nodes.devices.force_torque",
    "rangefinder": "nodes.devices.rangefinder",
    "realsense": "nodes.devices.realsense",
    "robotiq": "nodes.devices.robotiq",
    "speaker": "nodes.devices.speaker",
    "urg": "nodes.devices.urg",
}

#: modules whose nodes send images or point clouds
SENDS_IMAGES = frozenset({"nodes.devices.realsense", "nodes.plant.sim_camera"})
