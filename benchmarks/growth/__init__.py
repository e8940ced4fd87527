"""What many sessions and calls need: measured costs, arithmetic on them, and a simulation of replicas and engine."""
