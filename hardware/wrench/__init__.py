"""What force-torque sensors share: the wrench they measure, and the stream it comes in."""
