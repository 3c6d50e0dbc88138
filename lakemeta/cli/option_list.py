"""``lakemeta options`` and ``lakemeta completion``: what there is to give, from the tables that the services read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import click
from click.shell_completion import CompletionItem, get_completion_class
from click.types import StringParamType

from lakemeta.cli.output import show_facts, table
from lakemeta.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakemeta.option_text import OptionText

_FORMS = click.Choice(["text", "json", "jsonl", "markdown"])
_OUTPUT = click.option("--output", type=_FORMS, default="text", show_default=True, help="Form of the list.")


def option_tables() -> Mapping[str, tuple[OptionText, ...]]:
    """The options of each service of both formats."""
    from lakemeta.hudi.options import option_texts
    from lakemeta.iceberg.service.option_tables import OPTION_TABLES

    return {"clean": option_texts(), "rollback": option_texts(of_rollbacks=True), **OPTION_TABLES}


class Setting(StringParamType):
    """``KEY=VALUE`` of the service of a command."""

    name = "setting"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002 - click's signature
        """The options of the command's service that begin so, each with its ``=``."""
        found = option_tables().get(ctx.info_name or "", ())
        return [CompletionItem(f"{o.name}=", help=o.meaning) for o in found if o.name.startswith(incomplete)]


@click.command("options")
@click.argument("service", metavar="[SERVICE]", required=False)
@_OUTPUT
def options(service: str | None, *, output: str) -> None:
    """List the options of a service (or of all) for --set: name, default, meaning, and Hudi's older spelling."""
    tables = option_tables()
    if service is not None and service not in tables:
        raise OptionError(f"there is no service {service}; known are {', '.join(tables)}")
    chosen = tables if service is None else {service: tables[service]}
    if output == "markdown":
        click.echo("".join(f"## {name}\n\n{_markdown(found)}\n" for name, found in chosen.items()), nl=False)
        return
    if output != "text":
        facts: dict[str, Any] = {name: [attrs.asdict(option) for option in found] for name, found in chosen.items()}
        show_facts("", facts, output)
        return
    for name, found in chosen.items():
        older = any(option.older for option in found)
        heads = ("option", "default", "meaning", *(("older spelling",) if older else ()))
        rows = [(o.name, o.default, o.meaning, *((o.older or "",) if older else ())) for o in found]
        table(f"{name}:", heads, rows)


def _markdown(found: tuple[OptionText, ...]) -> str:
    rows = [("option", "default", "meaning", "older spelling"), ("---",) * 4]
    rows += [(f"`{o.name}`", o.default, o.meaning, f"`{o.older}`" if o.older else "") for o in found]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what makes a shell complete commands, flags and options: eval "$(lakemeta completion bash)"."""
    kind = get_completion_class(shell)
    assert kind is not None, "click has all three"
    click.echo(kind(context.find_root().command, {}, "lakemeta", "_LAKEMETA_COMPLETE").source())
