"""The rules, without I/O: no await, no clock, no socket, no randomness. Time and nonces are passed in."""
