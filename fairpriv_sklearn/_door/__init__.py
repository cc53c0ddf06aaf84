"""The one door: arguments, sensitive features and labels come in here."""
