"""What a stethoscope hears on a body, and how good it is: sounds, field, contact, rating, estimators."""
