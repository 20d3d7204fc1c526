"""`runtree down`: end what a namespace keeps running."""

from .options import Address, Namespace


def down(namespace: Namespace = "runtree", address: Address = None) -> None:
    """Cancel what is live in the namespace and end its supervisor, which outlives drivers. Needed after an update."""
    import asyncio

    from .connection import observe
    from .output import write

    async def _down() -> bool:
        async with observe(namespace, address) as observer:
            return await observer.down()

    if asyncio.run(_down()):
        write(f"namespace {namespace} has no supervisor any more; the next driver starts one")
    else:
        write(f"namespace {namespace} has no supervisor; there was nothing to end")
