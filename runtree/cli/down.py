"""`runtree down`: end what a namespace keeps running."""

from .options import Address, Namespace


def down(namespace: Namespace = "runtree", address: Address = None) -> None:
    """Cancel what is live in the namespace and end its supervisor, which outlives drivers. Needed after an update."""
    import asyncio

    from .connection import open_runtime
    from .output import write

    async def _down() -> None:
        async with open_runtime(namespace, address, start_ray=False) as runtime:
            await runtime.down()

    asyncio.run(_down())
    write(f"namespace {namespace} has no supervisor any more; the next driver starts one")
