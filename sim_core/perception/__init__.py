"""What sensors see, turned into facts about the world and about the sensors."""
