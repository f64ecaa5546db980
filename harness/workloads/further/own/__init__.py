"""Groups, copies and transactions with our own asyncio client, on any event loop."""
