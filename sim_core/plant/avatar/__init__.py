"""The bimanual avatar: a robot that a person sees and acts through, built from parameters."""
