"""What a person reads of one goal of the node lidar."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sim_core.lidar.scan import Lidar
from sim_core.lidar.search import Found

__all__ = ["page_of_goal"]


def page_of_goal(folder: Path, stamp: float, model: Lidar, scans: np.ndarray, found: Found) -> tuple[str, str]:
    """The page of one goal and ""; or "" and why it cannot be written."""
    # Pictures take half a second to load, which a node that makes none does not spend.
    from identification.scans.bag_scans import BagPoses, ScanPose
    from identification.scans.report import judge, poses_page
    from reporting import Result

    seen = np.isfinite(scans)
    ranges = np.where(seen.any(0), np.where(seen, scans, 0.0).sum(0) / np.maximum(seen.sum(0), 1), np.nan)
    poses = BagPoses(model, tuple(found.values), [ScanPose(0.0, stamp, ranges, found)])
    result = Result("localize", size=poses.names[0].split(".")[0])
    judge(result, poses)
    path = folder / f"localize-{stamp:.3f}.html"
    try:
        poses_page(poses, result, f"a scan of {stamp:.3f} s").write(path)
    except OSError as error:
        return "", str(error)
    return str(path), ""
