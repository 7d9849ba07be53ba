"""What every emulator needs: the client's end of a wire, faults on demand, a process to run in, a world to move in."""
