"""ATI Net F/T: RDT records over UDP, scale and state over HTTP."""
