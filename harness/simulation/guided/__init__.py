"""A search that keeps what reached something new, and changes it: `mutate` changes a plan, `corpus`
keeps plans, `search` joins both to a campaign.
"""
