"""Listening: what holds a server open, the network in front of it, and several processes on one port."""
