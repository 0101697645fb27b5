"""Programs that measure speed, memory, accuracy and coverage."""
