"""The command line. Commands ask the application; one renderer shows the answer to people or machines."""
