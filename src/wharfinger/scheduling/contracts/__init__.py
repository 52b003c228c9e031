"""What workflows, activities and records of pods share: abstract activities, inputs, outcomes, ids, records in etcd.

Workflows call activities through the abstract classes here and so never load an implementation.
Everything here is pydantic at the border or plain text, passes Temporal's sandbox, and must stay
readable by the previous and the next release: fields are added with defaults, never renamed.
"""
