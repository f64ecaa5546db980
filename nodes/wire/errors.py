"""What can go wrong on the wire.

WireError
├── MalformedFrame      the peer sent bytes that are no Kafka message; the connection is closed
│   ├── OversizedFrame  a frame longer than `socket.request.max.bytes`
│   └── TlsFailed       no TLS, or a certificate that is not accepted
├── UnsupportedVersion  a well-formed request that this node does not serve
├── Unanswerable        a request that failed and may not be answered; the connection is closed
└── ChannelError        a request of ours got no answer
    ├── ConnectFailed     nothing was sent: the request surely did not happen
    ├── RequestTimedOut   it may have happened
    └── Disconnected      it may have happened
"""


class WireError(Exception):
    """Any failure of this package."""


class MalformedFrame(WireError):
    """Bytes that cannot be read as a Kafka message."""


class OversizedFrame(MalformedFrame):
    """A frame whose announced length is above the limit, or negative."""


class TlsFailed(MalformedFrame):
    """Bytes that are no TLS, or a handshake in which one side did not accept the other."""


class UnsupportedVersion(WireError):
    """An api key or version that this node does not serve."""


class Unanswerable(WireError):
    """A request whose sender wants no answer failed: only a closed connection can tell."""


class ChannelError(WireError):
    """A request got no answer; says whether it surely did not happen."""

    surely_not_sent = False


class ConnectFailed(ChannelError):
    """No connection could be made, so nothing was sent."""

    surely_not_sent = True


class RequestTimedOut(ChannelError):
    """No answer within the time allowed; the peer may have acted on the request."""


class Disconnected(ChannelError):
    """The connection ended before the answer; the peer may have acted on the request."""
