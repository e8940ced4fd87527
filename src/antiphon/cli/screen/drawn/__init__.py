"""What the screen shows of a question, as pieces and as a page of them. Which keys do what is not known here."""
