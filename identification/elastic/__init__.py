"""From recorded pokes to what is learnt of an object, and the page that shows it."""
