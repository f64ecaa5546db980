"""The errors of this package.

WireError
├── MalformedFrame      the peer sent bytes that are no Kafka message; the connection is closed
│   ├── OversizedFrame  a frame longer than `socket.request.max.bytes`
│   └── TlsFailed       the peer does not speak TLS, or a certificate is not accepted
├── UnsupportedVersion  a well-formed request that this node does not serve
├── Unanswerable        a request without a response failed (acks=0); the connection is closed
└── ChannelError        a request of this node got no response
    ├── ConnectFailed     nothing was sent: the request surely did not happen
    ├── RequestTimedOut   it may have happened
    └── Disconnected      it may have happened
"""


class WireError(Exception):
    """Any failure of this package."""


class MalformedFrame(WireError):
    """Bytes that cannot be read as a Kafka message."""


class OversizedFrame(MalformedFrame):
    """A frame whose length is above the limit, or negative."""


class TlsFailed(MalformedFrame):
    """The bytes are no TLS, or one side did not accept the other in the handshake."""


class UnsupportedVersion(WireError):
    """An api key or version that this node does not serve."""


class Unanswerable(WireError):
    """A request without a response failed: only closing the connection can report it."""


class ChannelError(WireError):
    """A request got no response; `surely_not_sent` says whether it surely did not happen."""

    surely_not_sent = False


class ConnectFailed(ChannelError):
    """No connection could be made, so nothing was sent."""

    surely_not_sent = True


class RequestTimedOut(ChannelError):
    """No response within the time allowed; the peer may have acted on the request."""


class Disconnected(ChannelError):
    """The connection ended before the response; the peer may have acted on the request."""
