"""What a person sees and decides: the queue, the content of a review, decisions, grants."""
