"""The front door: public interface, command line and reports. No algorithm lives here."""
