"""Reproduces what was recorded from the real server, record by record, with this project's own engine and replay."""

from autotune.conformance.check import ConformanceReport, RecordKind, check_file
from autotune.conformance.difference import Difference

__all__ = ["ConformanceReport", "Difference", "RecordKind", "check_file"]
