"""`python -m tests.support.serving`: the processes of the service around an API that only says that it is there.

Arguments are one JSON document: `given` for `build_service`, and what `Serving` takes besides.
"""

import json
import sys
from pathlib import Path

import uvicorn
from fastapi import FastAPI, Response

from icepact.entrypoints.service.serve import Serving
from icepact.entrypoints.serving import Service
from icepact.model.errors import IcepactError


def make_server(service: Service, host: str, port: int, *, workers: Path) -> uvicorn.Server:
    """A server that knows two questions."""
    app = FastAPI()

    @app.get("/healthz")
    def healthz() -> dict[str, str]:
        return {"catalog": service.catalog.name}

    @app.get("/readyz")
    def readyz(response: Response) -> dict[str, bool]:
        response.status_code = 503 if service.draining.is_set() else 200
        return {"ready": not service.draining.is_set()}

    return uvicorn.Server(uvicorn.Config(app, host=host, port=port, lifespan="off", log_level="warning"))


def main() -> int:
    """Serve until a signal comes."""
    settings = json.loads(sys.argv[1])
    try:
        serving = Serving(settings.pop("given"), make_server, **settings)
    except IcepactError as error:
        print(f"refused: {error}", file=sys.stderr)
        return 2
    print(serving.url, flush=True)
    serving.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
