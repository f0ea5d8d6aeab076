"""What the original wrote, recorded once (`record.py`) and read back by our codecs."""
