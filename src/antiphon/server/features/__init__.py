"""What a server offers: tools, resources, prompts and completion, and the decorators that add them."""
