"""What an endpoint really does: a conversation that is recorded byte by byte, what can be seen in it, and the profile that fits.

The wire is `wire` and `conversation`; everything behind them works on recordings and needs no network.
"""
