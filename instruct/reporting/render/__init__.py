"""A report as Markdown, as text for a terminal, and as a page."""
