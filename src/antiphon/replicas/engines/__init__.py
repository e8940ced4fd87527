"""What the replicas of one server share: an engine that exists, behind one interface."""
