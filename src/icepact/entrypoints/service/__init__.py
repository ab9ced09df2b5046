"""The processes of the service: the API with its workers as children, and workers alone; how they start, and how they
end. What a job is, and what becomes of it, is decided elsewhere."""
