"""A gRPC server that answers as a test has it, in the place of etcd."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio

from wharfinger.etcd.etcd_grpc import METHODS, STREAMS
from wharfinger.etcd.etcd_grpc_wire import MESSAGES
from wharfinger.etcd.etcd_wire import Method


@asynccontextmanager
async def serving(answers: Mapping[Method, Callable[..., Any]]) -> AsyncIterator[str]:
    """The URL of a server. A unary answer is made from its request, a stream from its requests and the context."""
    server = grpc.aio.server()
    for method, answer in answers.items():
        path, name = METHODS[method]
        service, _, call = path.partition("/")
        if method in STREAMS:
            made, behaviour = grpc.stream_stream_rpc_method_handler, answer
        else:
            made, behaviour = grpc.unary_unary_rpc_method_handler, _unary(answer)
        handler = made(
            behaviour,
            request_deserializer=MESSAGES[f"{name}Request"].FromString,
            response_serializer=MESSAGES[f"{name}Response"].SerializeToString,
        )
        server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler(f"etcdserverpb.{service}", {call: handler})]
        )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await server.stop(None)


def _unary(answer: Callable[..., Any]) -> Callable[..., Any]:
    async def answered(request: Any, context: grpc.aio.ServicerContext) -> Any:
        made = await answer(request)
        if isinstance(made, tuple):
            await context.abort(*made)
        return made

    return answered
