"""The commands: one file, or one folder, for each."""
