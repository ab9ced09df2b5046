"""The command line. Commands ask the library; one renderer shows the answer to people or machines."""
