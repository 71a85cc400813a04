"""One program for many sizes."""
