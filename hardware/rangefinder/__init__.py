"""Ultrasonic rangefinders that write their reading as text, ten times a second."""
