"""Routes whose bodies can be stored: JSON can spell halves of characters, which nothing can write down."""

import json
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

_HALVES = b"\\ud"
"""How JSON begins to spell one."""


class WholeText(APIRoute):
    """A route that refuses such bodies before anything looks at them."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """What answers a request."""
        handle = super().get_route_handler()

        async def handler(request: Request) -> Response:
            return await handle(_Checked(request.scope, request.receive))

        return handler


class _Checked(Request):
    async def json(self) -> Any:
        found = await super().json()
        if _HALVES in (await self.body()).lower():
            try:
                json.dumps(found, ensure_ascii=False).encode()
            except UnicodeEncodeError:
                raise HTTPException(400, "the body has halves of characters in it, such as \\ud800") from None
        return found
