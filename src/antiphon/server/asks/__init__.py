"""What a handler may ask of the client: a completion, a form, roots."""
