"""What the screen shows of a question: pieces, and documents made of them. Nothing here depends on keys."""
