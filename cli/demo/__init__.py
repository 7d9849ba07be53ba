"""`./refit demo`: start the graph, let it run, and report what was learnt from the bags alone."""
