"""The models of a user, and the choice among them."""
