"""The broker: decisions between the wire and the store. `app.py` wires; everything else is one small service each."""
