"""What the driver and the kernel say about this machine's devices. Imports no torch; what is not known has a reason."""
