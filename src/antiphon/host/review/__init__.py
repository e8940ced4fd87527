"""What a person sees and decides: the queue, a review as it is shown, decisions, grants."""
