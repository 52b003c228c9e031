"""Pods on nodes: every attempt of a pod, decided, committed, and explained afterwards.

`contracts` has what workflows, activities and records carry; `state` what a worker knows; `effects` what activities do;
`loops` what a worker runs; `reading` answers; `cli` and `page` print the answers.
"""
