"""Every error that this project raises on purpose, as one tree.

::

    AutotuneError                 something the user can act on; exit code 1
    |- InputError                 a value that was typed or read is wrong; exit code 2
    |  |- UnitError               a size, rate or share that cannot be parsed
    |  |- PlanError               a plan document that is damaged, foreign or contradictory
    |  |- ProfileError            a saved profile that is damaged, foreign or of another version
    |  |- CheckpointError         weights on disk that are damaged, incomplete or of a kind that is not read
    |  `- FlagError               a server command line that cannot be parsed
    |     `- InexpressibleError   a plan that a server version has no options for; exit code 4
    |- UnsupportedError           correct input that this version does not handle; exit code 4
    |- MissingDependencyError     a package is needed for this step; exit code 5
    |- DeviceError                the accelerator failed
    |  |- DeviceMemoryError       device memory ran out
    |  `- PinError                host memory could not be pinned
    `- SessionError               modules that cannot be, or are not, managed by a session in the way that was asked

"Nothing fits" is no error: the search returns it as an outcome, and the command line gives it exit code 3.
"""

from __future__ import annotations


class AutotuneError(Exception):
    """Base class: the message states the rule, the value and the remedy."""

    exit_code = 1


class InputError(AutotuneError):
    """A value that was typed or read from a file breaks a rule."""

    exit_code = 2


class UnitError(InputError):
    """A size, rate or share that cannot be parsed."""


class PlanError(InputError):
    """A plan document that is damaged, foreign or contradictory."""


class ProfileError(InputError):
    """A saved profile that is damaged, foreign or of another version."""


class CheckpointError(InputError):
    """Weights on disk that are damaged, incomplete, or of a kind that is not read."""


class FlagError(InputError):
    """A server command line that cannot be parsed."""


class InexpressibleError(FlagError):
    """A plan that a server version has no options for."""

    exit_code = 4


class UnsupportedError(AutotuneError):
    """Correct input that this version does not handle."""

    exit_code = 4


class MissingDependencyError(AutotuneError):
    """A package is needed for this step and is not installed."""

    exit_code = 5


class DeviceError(AutotuneError):
    """The accelerator failed: a copy, a thread, a driver call."""


class DeviceMemoryError(DeviceError):
    """Device memory ran out: what was asked for, what is in use, what there is."""


class PinError(DeviceError):
    """Host memory could not be pinned."""


class SessionError(AutotuneError):
    """Modules that a session cannot manage, or a call that it cannot serve now."""

    exit_code = 2
