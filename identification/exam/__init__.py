"""A recorded exam: read from a bag or its own file, decided again, and shown."""
