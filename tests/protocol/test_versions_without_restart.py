"""Negotiation with a server that was there before: it cannot be started again, and says no by other means."""

from __future__ import annotations

from trio_mcp.protocol.negotiation import Died, Discover, Initialize, Negotiation, Refused, Wait


def test_a_server_that_cannot_be_restarted_is_not() -> None:
    for protocol in ("auto", "modern", "legacy"):
        negotiation = Negotiation(protocol, None, restarts=False)
        negotiation.begin()
        assert negotiation.exited() == Died()
        assert negotiation.begin() == Wait()


def test_its_silence_is_waited_for() -> None:
    negotiation = Negotiation("auto", None, restarts=False)
    negotiation.begin()
    assert negotiation.silent() == Wait()


def test_a_refused_probe_is_not_modern() -> None:
    negotiation = Negotiation("auto", None, restarts=False)
    negotiation.begin()
    assert isinstance(negotiation.discover_refused("HTTP 405"), Initialize)
    assert negotiation.initialize_refused("HTTP 404") == Refused("HTTP 404")
    assert negotiation.discover_refused("HTTP 405") == negotiation.initialize_refused("HTTP 404") == Wait()


def test_a_refused_probe_of_a_pinned_era_is_the_end() -> None:
    negotiation = Negotiation("modern", None, restarts=False)
    negotiation.begin()
    refused = negotiation.discover_refused("HTTP 405")
    assert isinstance(refused, Refused)
    assert "HTTP 405" in refused.reason


def test_a_refused_handshake_of_a_remembered_era_is_followed_by_a_probe() -> None:
    negotiation = Negotiation("auto", "legacy", restarts=False)
    assert isinstance(negotiation.begin(), Initialize)
    assert isinstance(negotiation.initialize_refused("HTTP 404"), Discover)
