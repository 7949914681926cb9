"""A report as Markdown, as text in a terminal, and as a page."""
