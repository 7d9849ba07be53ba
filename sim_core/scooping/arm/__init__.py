"""The arm that scoops: where its scoop may go, how it goes through the ground, what it feels, how much it holds."""
