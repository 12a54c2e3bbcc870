"""The `antiphon` command. Every failure is reported here, as one sentence on standard error and an exit code.

exit  meaning
0     done; for an audit: kept
1     an audit found a broken promise; nothing else exits with 1
2     not done: the input, the command line or the machine is at fault, and the message says which
3     an audit could not decide
4     Spark, or the cluster that it runs on, failed; the same input may well be audited when it works again
70    a defect of Antiphon itself
130   interrupted
"""

import logging
import sys
import traceback
from typing import Annotated, Final

import typer
from rich.text import Text

from antiphon import __version__, _build
from antiphon.cli.audit import audit
from antiphon.cli.bench import bench
from antiphon.cli.ca import ca
from antiphon.cli.campaign import campaign
from antiphon.cli.chat import chat
from antiphon.cli.console import complain, one_line, show
from antiphon.cli.demo import demo
from antiphon.cli.feed import feed
from antiphon.cli.formats import export, import_
from antiphon.cli.history import history
from antiphon.cli.key import key
from antiphon.cli.lineage import lineage
from antiphon.cli.listen import listen
from antiphon.cli.recover import recover
from antiphon.cli.sequencer import sequencer
from antiphon.cli.sim import sim
from antiphon.cli.structure import structure
from antiphon.cli.top import top
from antiphon.cli.watch import watch
from antiphon.kernel.errors import AntiphonError
from antiphon.pipeline.errors import SparkError

EXIT_UNUSABLE: Final = 2
EXIT_SPARK: Final = 4
EXIT_INTERNAL: Final = 70

app = typer.Typer(
    name="antiphon",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: its examples keep their lines
)
app.command()(demo)
app.command()(sim)
app.command()(audit)
app.command("import")(import_)
app.command()(export)
app.command()(structure)
app.command()(listen)
app.command()(feed)
app.command()(watch)
app.command()(campaign)
app.command()(lineage)
app.command()(sequencer)
app.command()(recover)
app.command()(top)
app.command()(chat)
app.add_typer(bench)
app.add_typer(history)
app.add_typer(key)
app.add_typer(ca)


def _show_version(wanted: bool) -> None:
    if wanted:
        show(Text(f"antiphon {__version__}, {_build.describe()}"))
        raise typer.Exit


@app.callback()
def antiphon(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show version and build, and exit.")
    ] = False,
) -> None:
    """Fault-tolerant process groups, and an audit that checks from records whether they kept their promises.

    Try it:

    \b
      antiphon demo                                five processes, a bad network, an audit, a report
      antiphon chat alice                          a group by hand, in several terminals
      antiphon sim --history run1 --faults all     one simulated run, recorded
      antiphon audit run1 --report run1.html       did the run keep its promises?
      antiphon lineage run1 simulated:p1#3         what caused a message, and what it caused
      antiphon export --format shiviz run1 out.log the same record, for another tool
      antiphon campaign --seeds 0:2000             many simulated runs, each audited
      antiphon bench throughput                    messages per second
    """


def main() -> None:
    """Run the command line and exit."""
    # Spark's client logs the stack traces of failures that it also raises.
    logging.basicConfig(handlers=[logging.NullHandler()])
    try:
        app()
    except SparkError as error:
        complain(str(error))
        sys.exit(EXIT_SPARK)
    except AntiphonError as error:
        complain(str(error))
        sys.exit(EXIT_UNUSABLE)
    except OSError as error:
        complain(f"{error.filename or 'the system'}: {error.strerror or error}")
        sys.exit(EXIT_UNUSABLE)
    except Exception as error:
        complain(f"this is a defect of Antiphon, please report it: {_where(error)}")
        sys.exit(EXIT_INTERNAL)


def _where(error: Exception) -> str:
    """Return the error and the line that raised it, as one line."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {one_line(str(error))} ({place.name}, line {place.lineno} of {place.filename})"
