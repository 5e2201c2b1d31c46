"""The proxy that the environment names for a URL, and the transport through it. Knows no MCP."""

from __future__ import annotations

import os
import ssl
import urllib.request

import attrs
import httpx

from ...errors import InvalidServerError
from ...http.pool import Http1Transport


@attrs.frozen
class Way:
    """A transport to one URL. `proxy` names the proxy that it goes through and the variable that says so."""

    transport: httpx.AsyncBaseTransport
    proxy: str = ""


def way_to(url: httpx.URL, ssl_context: ssl.SSLContext | None) -> Way:
    """The transport to this URL: ours, or httpx's where the environment names a proxy for it.

    Raises:
        InvalidServerError: a variable of the environment is wrong; `field` is its name. No value is shown, for a
            proxy's URL may have a password in it.
    """
    proxies = urllib.request.getproxies()
    scheme = url.scheme if proxies.get(url.scheme) else "all"
    proxy = proxies.get(scheme)
    if not proxy or urllib.request.proxy_bypass(url.raw_host.decode("ascii")):
        return Way(Http1Transport(ssl_context))
    variable = _variable(f"{scheme}_proxy")
    try:
        parsed = httpx.URL(proxy if "://" in proxy else f"http://{proxy}")
        if (parsed.port or 0) > 65535:
            raise httpx.InvalidURL("no such port")
        # Without limits: a call must not wait for a hundred others to end.
        transport = httpx.AsyncHTTPTransport(
            verify=True if ssl_context is None else ssl_context, proxy=parsed, limits=httpx.Limits()
        )
    except httpx.InvalidURL:
        raise InvalidServerError(variable, "is no URL of a proxy, such as http://proxy.example:3128") from None
    except ValueError:
        schemes = "http, https, socks5 and socks5h"
        raise InvalidServerError(variable, f"names a proxy of an unknown kind; known are {schemes}") from None
    except ImportError:
        reason = 'names a SOCKS proxy, which needs another package: pip install "httpx[socks]"'
        raise InvalidServerError(variable, reason) from None
    except OSError as error:
        raise InvalidServerError(_variable("ssl_cert_file"), f"cannot be loaded: {error.strerror}") from error
    port = "" if parsed.port is None else f":{parsed.port}"
    return Way(transport, f"the proxy {parsed.raw_host.decode('ascii')}{port} that {variable} names")


def _variable(name: str) -> str:
    """The variable as the environment has it: most programs know both spellings."""
    return name if os.environ.get(name) else name.upper()
