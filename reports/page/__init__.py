"""A report on one run: its content once, and renderers of it as a page, Markdown and PDF."""
