"""What any layer needs of this machine: its names, files, tasks and processes, and side processes for heavy work."""
