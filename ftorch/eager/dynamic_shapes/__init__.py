"""Dynamic shapes: one program for many sizes."""
