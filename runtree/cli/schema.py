"""`runtree schema`: the vocabulary of the stream."""


def schema() -> None:
    """Print the JSON Schema of a stream item, as `runtree run --json` writes them."""
    import json

    from ..messages.schema import stream_schema
    from .output import write

    write(json.dumps(stream_schema(), indent=2, ensure_ascii=False))
