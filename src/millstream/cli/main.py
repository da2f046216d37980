"""`millstream serve` and `millstream check`. Exit codes: 0 done, 1 failed, 2 called or configured wrongly."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from millstream import __version__
from millstream.settings import Settings, SettingsError, load

app = typer.Typer(
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
    help="Durable streams over HTTP.",
)


class Output(StrEnum):
    HUMAN = "human"
    JSON = "json"


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        print(__version__)
        raise typer.Exit


@app.command()
def serve(
    config: Annotated[Path | None, typer.Option(help="A TOML file.")] = None,
    listen: Annotated[str | None, typer.Option(help="HOST:PORT.")] = None,
    data_dir: Annotated[str | None, typer.Option(help="Where everything is kept.")] = None,
    node_id: Annotated[str | None, typer.Option(help="The node's name in log lines.")] = None,
    advertise: Annotated[str | None, typer.Option(help="Accepted; without effect on one node.")] = None,
    public_url: Annotated[str | None, typer.Option(help="What Location begins with.")] = None,
    tls_cert: Annotated[str | None, typer.Option(help="PEM file with the certificate chain.")] = None,
    tls_key: Annotated[str | None, typer.Option(help="PEM file with the private key.")] = None,
    log_format: Annotated[str | None, typer.Option(help="human or json.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Any other key: --set limits.body=16MiB")
    ] = None,
) -> None:
    """Start the server."""
    flags: dict[str, str | None] = {
        "server.listen": listen,
        "server.data_dir": data_dir,
        "server.node_id": node_id,
        "server.advertise": advertise,
        "server.public_url": public_url,
        "server.tls_cert": tls_cert,
        "server.tls_key": tls_key,
        "server.log_format": log_format,
    }
    settings = _settings(config, flags, set_ or [])
    from .serve import run  # the server's dependencies are not needed to print a help text

    raise typer.Exit(run(settings))


@app.command()
def check(
    data_dir: Annotated[Path, typer.Argument(help="A data directory that no server holds.")],
    deep: Annotated[bool, typer.Option("--deep", help="Read every stored byte.")] = False,
    output: Annotated[Output, typer.Option(help="How to say what was found.")] = Output.HUMAN,
) -> None:
    """Examine a data directory offline."""
    from .check import run

    raise typer.Exit(run(data_dir, deep=deep, as_json=output is Output.JSON))


def _settings(config: Path | None, flags: dict[str, str | None], assignments: list[str]) -> Settings:
    from millstream.settings import KEYS, WITHOUT_EFFECT

    try:
        for assignment in assignments:
            key, equals, value = assignment.partition("=")
            if not equals or (key not in KEYS and key not in WITHOUT_EFFECT):
                raise SettingsError(f"--set {assignment}: there is no key '{key}'.")
            flags[key] = value
        return load(config, os.environ, flags)
    except SettingsError as error:
        print(f"millstream: {error}", file=sys.stderr)
        raise typer.Exit(2) from None


def main() -> None:
    app()
