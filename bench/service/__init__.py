"""The service as its users meet it: a real `icepact serve` over HTTP, beside the library and under load."""
