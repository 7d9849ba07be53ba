"""A person moves the robot: from the operator's hands to targets, and from targets to torques. Knows neither network nor ROS."""
