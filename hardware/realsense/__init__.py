"""RealSense depth cameras, through the maker's SDK (pyrealsense2); and an emulated one that the SDK takes for a device.

profiles.py          what a camera offers: streams, modes, intrinsics; "848x480x30" as text
pixels.py            checks of frames before the SDK sees them: it checks nothing itself
camera.py            where a camera comes from: USB, a recording, an emulator
device.py            the link: streams, watch, recovery; yields the records of records.py
derived.py           aligned depth and point clouds, each on a thread of its own
processing.py        filters, and how points are made
latest.py            a thread that works on the newest of what comes
frost.py             imagers that repeat one image
streams.py           the SDK's profiles in this package's terms
records.py           what the device hands on
imu.py, stamps.py    gyroscope and accelerometer as one stream; device time on the host's clock
frame_link.py        frames and requests in shared memory, between the emulator's process and the SDK's
software_camera.py   the end of that link which is a device to the SDK
emulator.py          the other end: views, noise and inertial unit (imager.py), faults
scene.py, renderer.py  where views come from: rays in closed form, or MuJoCo on a simulated robot
"""
