"""The timeline: instants, what their files say, archived ones, locks, heartbeats and failed writes."""
