"""`--url` and what goes with it: a server behind HTTP, from the command line. Secrets come from the environment.

What stands on a command line can be read by every user of the machine, and stays in the shell's history.
"""

from __future__ import annotations

import os
import re
from typing import Annotated
from urllib.parse import urlsplit

from attrs import frozen
from cyclopts import Parameter

from ..config import legal_name
from ..models.server import Server
from ..redaction import is_secret_name
from .terminal import CommandError

UrlOption = Annotated[str | None, Parameter(help="A Streamable HTTP endpoint, such as http://127.0.0.1:8000/mcp.")]
HeaderOption = Annotated[
    tuple[str, ...],
    Parameter(
        name="--header",
        negative=(),
        show_default=False,
        help="'Name: ${VAR}', a header for every request; repeatable.",
    ),
]
BearerOption = Annotated[
    str | None, Parameter(name="--bearer-env", help="The environment variable that holds the bearer token.")
]

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


@frozen
class Endpoint:
    """What the options say."""

    url: str | None = None
    headers: tuple[str, ...] = ()
    bearer_env: str | None = None

    @property
    def is_given(self) -> bool:
        """Whether any of them was."""
        return self.url is not None or bool(self.headers) or self.bearer_env is not None

    def server(self) -> Server:
        """The server.

        Raises:
            CommandError: there is no URL, a variable is not set, or a secret is written out.
            InvalidServerError: the URL is none, or a header is.
        """
        if self.url is None:
            raise CommandError("--header and --bearer-env go with --url URL")
        try:
            parts = urlsplit(self.url)
            password, host = parts.password, parts.hostname
        except ValueError:  # `Server` says what is wrong with it
            password, host = None, None
        if password:
            raise CommandError("--url: a password does not belong on a command line: use --header 'Name: ${VAR}'")
        token = None if self.bearer_env is None else _variable(self.bearer_env, "--bearer-env")
        headers = dict(_header(text) for text in self.headers)
        name = legal_name(host or "") or "server"
        return Server(name, url=self.url, headers=headers or None, bearer_token=token)


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    name, value = name.strip(), value.strip()
    if not colon or not name:
        raise CommandError("--header takes 'Name: ${VAR}' or 'Name: value'")
    if is_secret_name(name) and not _REFERENCE.search(value):
        raise CommandError(f"--header {name}: a secret does not belong on a command line: '{name}: ${{VAR}}'")
    return name, _REFERENCE.sub(lambda found: _variable(found[1], f"--header {name}"), value)


def _variable(name: str, where: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise CommandError(f"{where}: the environment variable {name} is not set")
    return value
