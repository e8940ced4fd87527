"""The configuration files of other hosts: where they are, what is in them, and how an entry of ours is added."""
