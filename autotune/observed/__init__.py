"""Runs of real servers as somebody observed them: read from tables, dumps and logs, and named in this program's words."""
