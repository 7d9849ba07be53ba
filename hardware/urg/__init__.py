"""Hokuyo URG-04LX scanning range finder: SCIP over USB, RS-232 or TCP."""
