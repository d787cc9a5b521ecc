"""What an experiment says: its file, read and checked, with sweeps filled in and plugins configured."""
