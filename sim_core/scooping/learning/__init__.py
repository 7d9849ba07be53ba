"""What models of scoops learn from: pictures cut out around them, data sets, tasks, the network."""
