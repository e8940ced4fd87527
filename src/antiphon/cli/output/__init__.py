"""What commands print: data, content, messages that travel, progress, scores."""
