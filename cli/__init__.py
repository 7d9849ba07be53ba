"""The commands behind the script `refit`. Each module holds one and is imported only when it is asked for."""
