"""How far predictions are from hardware: tables of measured times, predictions of them, and scores."""
