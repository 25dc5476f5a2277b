"""Tensor parallelism by rank: what one of several cards holds, copies and computes, and what the cards share. Pure."""
