"""The ``autotune`` command: exit codes, and the one place where errors become text.

Exit codes: 0 done; 1 a comparison failed or something broke; 2 wrong input; 3 nothing fits; 4 not supported by this
version; 5 a package is missing; 130 interrupted.
"""

from __future__ import annotations

import typer

from autotune.cli.commands import (
    calibrate,
    compare,
    conformance,
    devices,
    doctor,
    explain,
    export,
    models,
    profile,
    profile_measure,
    report,
    search,
    simulate,
    table,
    validate,
    verify,
)
from autotune.cli.commands.run import run as run_plan
from autotune.cli.console import print_error
from runtime.errors import AutotuneError

_INTERRUPTED = 130

EXIT_CODES = "Exit codes: 0 done, 1 mismatch or failure, 2 wrong input, 3 nothing fits, 4 unsupported, 5 no package."

app = typer.Typer(
    name="autotune",
    help="Plan layer streaming of generative pipelines that are larger than their GPU.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("search")(search.search)
app.command("simulate")(simulate.simulate)
app.command("table")(table.table)
app.command("run")(run_plan)
app.command("report")(report.report)
app.command("compare")(compare.compare)
app.command("calibrate")(calibrate.calibrate)
app.command("verify")(verify.verify)
app.command("validate")(validate.validate)
app.command("explain")(explain.explain)
app.command("export")(export.export)
app.command("models")(models.models)
app.command("devices")(devices.devices)
profile.group.callback(invoke_without_command=True)(profile_measure.measure)
app.add_typer(profile.group)
app.command("doctor")(doctor.doctor)
app.command("conformance")(conformance.conformance)


def run() -> int:
    """Run the command that was typed and return its exit code.

    Raises:
        KeyboardInterrupt: interrupted.
        OSError: standard output cannot be written.
    """
    try:
        app()
    except SystemExit as stop:
        # Usage errors, exit codes of commands, and an interrupt, which the library turns into a bare 130.
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        if code == _INTERRUPTED:
            print_error("interrupted")
        return code
    except AutotuneError as error:
        print_error(f"error: {error}")
        return error.exit_code
    except (KeyboardInterrupt, OSError):
        raise
    except Exception as error:
        print_error(
            f"error: this program broke ({type(error).__name__}: {error}); please report it with the command you typed"
        )
        return 1
    return 0
