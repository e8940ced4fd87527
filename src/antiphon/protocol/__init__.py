"""The rules of the protocol, without I/O: no await, clock, socket or randomness. Times and nonces are passed in."""
