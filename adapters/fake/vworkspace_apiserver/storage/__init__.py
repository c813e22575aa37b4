"""What the embedded API server keeps, and how it is listed and watched."""
