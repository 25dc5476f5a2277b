"""Runs of real servers as somebody observed them: tables, dumps and logs, named in the words of this program."""
