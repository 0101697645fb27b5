"""Are labels selected completely at random, and if not, by which attributes?"""
