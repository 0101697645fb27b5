"""What if the propensity is not what was fitted?"""
