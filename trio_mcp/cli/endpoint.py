"""`--url` and its options: a server that is reached over HTTP, from the command line.

Secrets come from environment variables: every user of the machine can read a command line, and the shell's
history keeps it.
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
        help="A header for every request, 'Name: ${VAR}'; may be given several times.",
    ),
]
BearerOption = Annotated[
    str | None, Parameter(name="--bearer-env", help="The environment variable that holds the bearer token.")
]

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


@frozen
class Endpoint:
    """The values of `--url`, `--header` and `--bearer-env`."""

    url: str | None = None
    headers: tuple[str, ...] = ()
    bearer_env: str | None = None

    @property
    def is_given(self) -> bool:
        """Whether any of the three options was given."""
        return self.url is not None or bool(self.headers) or self.bearer_env is not None

    def server(self) -> Server:
        """The server that the options describe.

        Raises:
            CommandError: there is no URL, an environment variable is not set, or a secret is written out.
            InvalidServerError: the URL or a header is not valid.
        """
        if self.url is None:
            raise CommandError("--header and --bearer-env need --url URL")
        try:
            parts = urlsplit(self.url)
            password, host = parts.password, parts.hostname
        except ValueError:  # `Server` refuses such a URL below, with the reason
            password, host = None, None
        if password:
            raise CommandError("--url: a password does not belong on a command line; use --header 'Name: ${VAR}'")
        token = None if self.bearer_env is None else _read_variable(self.bearer_env, "--bearer-env")
        headers = dict(_parse_header(text) for text in self.headers)
        name = legal_name(host or "") or "server"
        return Server(name, url=self.url, headers=headers or None, bearer_token=token)


def _parse_header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    name, value = name.strip(), value.strip()
    if not colon or not name:
        raise CommandError("--header takes 'Name: ${VAR}' or 'Name: value'")
    if is_secret_name(name) and not _REFERENCE.search(value):
        raise CommandError(
            f"--header {name}: a secret does not belong on a command line; write '{name}: ${{VAR}}'"
        )
    return name, _REFERENCE.sub(lambda found: _read_variable(found[1], f"--header {name}"), value)


def _read_variable(name: str, where: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise CommandError(f"{where}: the environment variable {name} is not set or empty")
    return value
