"""A hook of mkdocs: a page that loads something from elsewhere is worth a warning, because the pages work offline."""

import logging
import re
from typing import Any

_LOADED = re.compile(r'<(?:script|link|img)[^>]+(?:src|href)="(https?:[^"]+)"')
_log = logging.getLogger("mkdocs.hooks.offline")


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Look at a page as it is written."""
    for address in _LOADED.findall(output):
        _log.warning("%s loads %s: the pages must work offline", page.file.src_uri, address)
    return output
