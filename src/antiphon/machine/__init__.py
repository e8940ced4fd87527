"""This machine, for whatever layer asks: its names, its files, and processes that do what would hold the event loop."""
